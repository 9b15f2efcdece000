import { describe, type Exchange, type ServiceUnderTest, type SiweChanges } from '../service-under-test.js'
import { allowsForeignPage, assertNotStored, assertOneWins, assertThat, FOREIGN_ORIGIN } from './rules.js'
import { NotApplicable, type Ask } from './rules.js'

const OTHER_SITE = new URL(FOREIGN_ORIGIN).host
const FROM_FOREIGN_PAGE = { Origin: FOREIGN_ORIGIN, 'Sec-Fetch-Site': 'cross-site' }
const FORM = 'application/x-www-form-urlencoded'

/** EIP-4361, of any backend. */
export const siweChecks = {
  'siwe-nonce': async (service) => {
    const nonces = [await service.siweNonce(), await service.siweNonce()]
    const given = service.exchanges.slice(-1)
    assertThat(!nonces.includes(undefined), `${given.map(describe).join()} without a nonce`)
    assertThat(nonces[0] !== nonces[1], 'two requests received the same nonce')
    given.forEach(assertNotStored)
  },
  'siwe-login': logInValidly,
  'siwe-single-use': async (service) => {
    const { visit, proof, before } = await logInValidly(service)
    assertRefused(await verify(visit, proof), 'the same message again')
    assertRefused(await verify(before, proof), 'the same message again, with the cookies of the first time')
  },
  'siwe-race': async (service) => {
    const visit = service.visit()
    const proof = await visit.siweProof()
    await assertOneWins('copies of one login', () => verify(visit.visit(), proof), isAccepted)
  },
  'siwe-wrong-signer': async (service) =>
    assertRefused((await tryStolenLogin(service)).exchange, 'a signature of another wallet'),
  'siwe-burnt-nonce': async (service) => {
    const { visit, proof } = await tryStolenLogin(service)
    assertAccepted(await verify(visit, proof), 'the good signature after one of another wallet')
  },
  'siwe-own-nonce': refuses('a nonce that the client made', { nonce: 'a1b2c3d4e5f60718' }),
  'siwe-wrong-domain': refuses('another domain', { domain: OTHER_SITE }),
  'siwe-wrong-uri': refuses('the URI of another site', { uri: `https://${OTHER_SITE}/` }),
  'siwe-ended': refuses('an end that is over', { expirationTime: '2020-01-01T00:00:00Z' }),
  'siwe-not-yet': refuses('a beginning ahead', { notBefore: '2120-01-01T00:00:00Z' }),
  'siwe-other-text': refuses('text behind the message', { end: '\nI agree to more' }),
  'siwe-csrf': async (service) => {
    await requireCookies(service)
    const preflight = await service.preflight(service.paths.siweVerify, FROM_FOREIGN_PAGE)
    // Content types that a browser sends for a foreign page without a preflight, and after one that allows the page.
    const types = ['text/plain', FORM, ...(allowsForeignPage(preflight.headers) ? ['application/json'] : [])]
    for (const type of types) {
      // The foreign page and its visitor have different nonces.
      const [proof, visitor] = [await service.visit().siweProof(), service.visit()]
      await visitor.siweNonce()
      const exchange = await verify(visitor, proof, { ...FROM_FOREIGN_PAGE, 'Content-Type': type })
      assertThat(!isAccepted(exchange), `as ${type} of another site, ${describe(exchange)}`)
    }
  },
  'siwe-cookies': async (service) => {
    const isSecure = service.options.url.protocol === 'https:'
    for (const cookie of await requireCookies(service)) {
      assertThat(/; ?httponly/i.test(cookie), 'a cookie comes without HttpOnly')
      assertThat(/; ?samesite=(?:lax|strict)/i.test(cookie), 'a cookie comes without SameSite=Lax or Strict')
      assertThat(!isSecure || /; ?secure/i.test(cookie), 'a cookie comes without Secure')
    }
  }
} satisfies Record<string, Ask>

/** Logs in with a message, as JSON unless `headers` say otherwise. */
function verify(visit: ServiceUnderTest, proof: object, headers: Record<string, string> = {}): Promise<Exchange> {
  const isForm = headers['Content-Type'] === FORM
  const text = isForm ? String(new URLSearchParams({ ...proof })) : JSON.stringify(proof)
  return visit.send('POST', visit.paths.siweVerify, { text, headers })
}

/** A login that succeeds, in a browser of its own, and that browser as it was before. */
async function logInValidly(service: ServiceUnderTest) {
  const visit = service.visit()
  const proof = await visit.siweProof()
  const before = visit.visit()
  assertAccepted(await verify(visit, proof), 'a good message')
  return { visit, before, proof }
}

/** A login by a message that another wallet signed. */
async function tryStolenLogin(service: ServiceUnderTest) {
  const visit = service.visit()
  const proof = await visit.siweProof()
  const exchange = await verify(visit, { ...proof, signature: service.newUser().sign(proof.message) })
  return { visit, proof, exchange }
}

/** A message that differs from a good one, which is good itself: a service that refuses everything keeps no rule. */
function refuses(what: string, changes: SiweChanges): Ask {
  return async (service) => {
    const [user, visit] = [service.newUser(), service.visit()]
    // A backend may look for its nonce in a session.
    await visit.siweNonce()
    assertRefused(await verify(visit, await visit.siweProof(user, changes)), what)
    assertAccepted(await verify(visit, await visit.siweProof(user)), 'a good message')
  }
}

/** The cookies that a login sets. @throws NotApplicable where it sets none */
async function requireCookies(service: ServiceUnderTest): Promise<string[]> {
  const { visit } = await logInValidly(service)
  const cookies = visit.exchanges.flatMap(({ setCookies }) => setCookies)
  if (cookies.length === 0) throw new NotApplicable('tokens travel in bodies')
  return cookies
}

/** Whether an answer opens a session. Some backends say no with status 200. */
function isAccepted({ status, json, text }: Exchange): boolean {
  return status < 300 && json.ok !== false && json.success !== false && text !== 'false'
}

function assertAccepted(exchange: Exchange, what: string): void {
  assertThat(isAccepted(exchange), `${what}: ${describe(exchange)} instead of a session`)
}

/** @throws Error also where nothing was there, too many came, or the service failed: none of these is a refusal */
function assertRefused(exchange: Exchange, what: string): void {
  const isRefused = !isAccepted(exchange) && exchange.status < 500 && ![404, 405, 429].includes(exchange.status)
  assertThat(isRefused, `${what}: ${describe(exchange)} instead of a refusal`)
}

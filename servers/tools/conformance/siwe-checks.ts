import { describe, type Exchange, type ServiceUnderTest, type SiweChanges } from '../service-under-test.js'
import { allowsForeignPage, assertNotStored, assertOneWins, assertThat, FOREIGN_ORIGIN } from './rules.js'
import { NotApplicable, type Check } from './rules.js'

const OTHER_SITE = new URL(FOREIGN_ORIGIN).host
const FROM_FOREIGN_PAGE = { Origin: FOREIGN_ORIGIN, 'Sec-Fetch-Site': 'cross-site' }
const FORM = 'application/x-www-form-urlencoded'

/** Checks of EIP-4361 for any backend. */
export const siweChecks = {
  'siwe-nonce': async (service) => {
    const isRepeated = await service.repeatsSiweNonce()
    const lastExchange = service.exchanges.slice(-1)
    assertThat(isRepeated !== undefined, `${lastExchange.map(describe).join()} without a nonce`)
    assertThat(!isRepeated, 'two requests received the same nonce')
    lastExchange.forEach(assertNotStored)
  },
  'siwe-login': logIn,
  'siwe-single-use': async (service) => {
    const { browser, proof, browserBefore } = await logIn(service)
    assertRefused(await verify(browser, proof), 'a repeated message')
    assertRefused(await verify(browserBefore, proof), 'a repeated message with the cookies of the first login')
  },
  'siwe-race': async (service) => {
    const browser = service.cloneBrowser()
    const proof = await browser.createSiweProof()
    await assertOneWins('simultaneous copies of a login', () => verify(browser.cloneBrowser(), proof), isAccepted)
  },
  'siwe-wrong-signer': async (service) =>
    assertRefused((await tryStolenLogin(service)).exchange, 'a message that another wallet signed'),
  'siwe-burnt-nonce': async (service) => {
    const { browser, proof } = await tryStolenLogin(service)
    assertAccepted(await verify(browser, proof), 'the valid signature after one of another wallet')
  },
  'siwe-own-nonce': refuses('a nonce that the client invented', { nonce: 'a1b2c3d4e5f60718' }),
  'siwe-wrong-domain': refuses('a message for another domain', { domain: OTHER_SITE }),
  'siwe-wrong-uri': refuses('a URI of another site', { uri: `https://${OTHER_SITE}/` }),
  'siwe-ended': refuses('an Expiration Time that has passed', { expirationTime: '2020-01-01T00:00:00Z' }),
  'siwe-not-yet': refuses('a Not Before in the future', { notBefore: '2120-01-01T00:00:00Z' }),
  'siwe-other-text': refuses('additional text after the message', { end: '\nI agree to more' }),
  'siwe-csrf': async (service) => {
    await requireCookies(service)
    const preflight = await service.preflight(service.paths.siweVerify, FROM_FOREIGN_PAGE)
    // Content types that a browser sends for a foreign page without a preflight; JSON only if a preflight allows it.
    const types = ['text/plain', FORM, ...(allowsForeignPage(preflight.headers) ? ['application/json'] : [])]
    for (const type of types) {
      // The foreign page and its visitor have different nonces.
      const [proof, visitor] = [await service.cloneBrowser().createSiweProof(), service.cloneBrowser()]
      await visitor.requestSiweNonce()
      const exchange = await verify(visitor, proof, { ...FROM_FOREIGN_PAGE, 'Content-Type': type })
      assertThat(!isAccepted(exchange), `sent as ${type} from another site: ${describe(exchange)}`)
    }
  },
  'siwe-cookies': async (service) => {
    const isSecure = service.options.url.protocol === 'https:'
    for (const cookie of await requireCookies(service)) {
      assertThat(/; ?httponly/i.test(cookie), 'a cookie has no HttpOnly')
      assertThat(/; ?samesite=(?:lax|strict)/i.test(cookie), 'a cookie has no SameSite=Lax or SameSite=Strict')
      assertThat(!isSecure || /; ?secure/i.test(cookie), 'a cookie has no Secure')
    }
  }
} satisfies Record<string, Check>

/** Sends a login as JSON, or as a form if `headers` have that content type. */
function verify(browser: ServiceUnderTest, proof: object, headers: Record<string, string> = {}): Promise<Exchange> {
  const isForm = headers['Content-Type'] === FORM
  const text = isForm ? String(new URLSearchParams({ ...proof })) : JSON.stringify(proof)
  return browser.send('POST', browser.paths.siweVerify, { text, headers })
}

/** Logs a new user in with a new browser. `browserBefore` has the cookies from before the login. */
async function logIn(service: ServiceUnderTest) {
  const browser = service.cloneBrowser()
  const proof = await browser.createSiweProof()
  const browserBefore = browser.cloneBrowser()
  assertAccepted(await verify(browser, proof), 'a valid message')
  return { browser, browserBefore, proof }
}

/** Tries to log in with a message that another wallet signed. */
async function tryStolenLogin(service: ServiceUnderTest) {
  const browser = service.cloneBrowser()
  const proof = await browser.createSiweProof()
  const exchange = await verify(browser, { ...proof, signature: service.newUser().sign(proof.message) })
  return { browser, proof, exchange }
}

/**
 * Creates a check that a changed message is refused, and that the unchanged message is accepted. Otherwise a service
 * that refuses every login would pass.
 */
function refuses(change: string, changes: SiweChanges): Check {
  return async (service) => {
    const [user, browser] = [service.newUser(), service.cloneBrowser()]
    // A backend may look for its nonce in a session.
    await browser.requestSiweNonce()
    assertRefused(await verify(browser, await browser.createSiweProof(user, changes)), change)
    assertAccepted(await verify(browser, await browser.createSiweProof(user)), 'a valid message')
  }
}

/** Logs in and returns the cookies of the login. @throws NotApplicable if it sets none */
async function requireCookies(service: ServiceUnderTest): Promise<string[]> {
  const { browser } = await logIn(service)
  const cookies = browser.exchanges.flatMap(({ setCookies }) => setCookies)
  if (cookies.length === 0) throw new NotApplicable('the service returns tokens in bodies, not in cookies')
  return cookies
}

/** Whether a response opens a session. Some backends refuse a login with status 200. */
function isAccepted({ status, json, text }: Exchange): boolean {
  return status < 300 && json.ok !== false && json.success !== false && text !== 'false'
}

function assertAccepted(exchange: Exchange, request: string): void {
  assertThat(isAccepted(exchange), `${request}: ${describe(exchange)}, expected a session`)
}

/** Asserts that a login was refused. @throws Error also for 404, 405, 429 and 5xx, which do not judge the login */
function assertRefused(exchange: Exchange, request: string): void {
  const isRefused = !isAccepted(exchange) && exchange.status < 500 && ![404, 405, 429].includes(exchange.status)
  assertThat(isRefused, `${request}: ${describe(exchange)}, expected a refusal`)
}

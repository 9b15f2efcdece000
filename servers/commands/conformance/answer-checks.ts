import { describe, type Exchange, type ServiceUnderTest, type Session } from '../service-under-test.js'
import { allowsForeignPage, assertNotStored, assertStatus, assertThat, FOREIGN_ORIGIN, NotApplicable } from './rules.js'
import type { Ask } from './rules.js'

/** Stacks, pages, and paths of this machine or of packages. No run of line feeds is read twice. */
const LEAKS = /<!doctype|<html|<pre>|\n[ \t]+at |\bat \S+ \(|node_modules|\.[jt]s:\d+:\d+/i

/** Tokens in cookies, and what holds for every answer. */
export const answerChecks = {
  'cookie-attributes': async (service) => {
    const { answer } = await logInWithCookies(service)
    assertThat(answer.text === '', 'the login answered content beside its cookies')
    for (const cookie of answer.setCookies) {
      const attributes = cookie.toLowerCase().split(/; ?/).slice(1)
      for (const attribute of ['secure', 'httponly', 'samesite=strict', 'path=/']) {
        assertThat(attributes.includes(attribute), `a cookie comes without ${attribute}`)
      }
      assertThat(!attributes.some((one) => one.startsWith('domain=')), 'a cookie names a Domain')
    }
  },
  'cookie-cross-origin': async (service) => {
    const session = await logInWithCookies(service)
    for (const headers of [{ Origin: FOREIGN_ORIGIN }, { Origin: 'null' }, { 'Sec-Fetch-Site': 'cross-site' }]) {
      const what = JSON.stringify(headers)
      assertStatus(await service.refresh(session, headers), 403, `a refresh with ${what}`)
      assertStatus(await service.logOut(session, headers), 403, `a logout with ${what}`)
    }
    assertStatus(await service.refresh(session), 200, 'the refresh of the page itself, after those')
  },
  'cookie-logout': async (service) => {
    const session = await logInWithCookies(service)
    const { setCookies } = await service.logOut(session)
    for (const name of Object.values(session.cookies ?? {})) {
      const cookie = setCookies.find((one) => one.startsWith(`${name}=`)) ?? ''
      assertThat(/=;|max-age=0|expires=thu, 01 jan 1970/i.test(cookie), `the cookie ${name} is not cleared`)
    }
  },
  cors: async (service) => {
    const headers = { Origin: FOREIGN_ORIGIN }
    const answers = [await service.askChallenge({ headers }), await service.preflight(service.paths.auth, headers)]
    for (const { headers } of answers) {
      assertThat(!allowsForeignPage(headers), `${FOREIGN_ORIGIN} may read answers with credentials`)
    }
  },
  'problem-json': async (service) => {
    const exchange = await service.post(service.paths.auth, {}, { Accept: 'application/problem+json' })
    const type = exchange.headers.get('content-type') ?? ''
    assertThat(type.startsWith('application/problem+json'), `${describe(exchange)} as ${type}`)
    const { status, title, code } = exchange.json
    assertThat(status === exchange.status, 'the problem has another status than the answer')
    assertThat(typeof title === 'string' && typeof code === 'string', 'the problem has no title or no code')
  },
  'no-store': async ({ exchanges }) => {
    const carriers = exchanges.filter(
      ({ status, json, setCookies }) => status === 200 && ('accessToken' in json || setCookies.length > 0)
    )
    assertThat(carriers.length > 0, 'no answer had a token')
    carriers.forEach(assertNotStored)
  },
  'www-authenticate': checkEach((exchange) => {
    const header = exchange.headers.get('www-authenticate') ?? ''
    const isNamed = exchange.status !== 401 || /^DIDAuth realm="[^"]+"/.test(header)
    assertThat(isNamed, `${describe(exchange)} with WWW-Authenticate "${header}"`)
  }),
  'plain-text-errors': checkEach((exchange) => {
    const type = exchange.headers.get('content-type') ?? ''
    if (![400, 401, 403, 413].includes(exchange.status) || type.startsWith('application/problem+json')) return
    assertThat(type.startsWith('text/plain'), `${describe(exchange)} as ${type}`)
    assertThat(/^[^\n]{1,200}$/.test(exchange.text), `${describe(exchange)}, which is no short line`)
    const sniffing = exchange.headers.get('x-content-type-options')
    assertThat(sniffing === 'nosniff', `${describe(exchange)} without X-Content-Type-Options: nosniff`)
  }),
  'no-leaks': checkEach((exchange) => {
    // The application around the protocol answers these requests.
    if (exchange.method === 'OPTIONS' || exchange.status === 404) return
    assertThat(!LEAKS.test(exchange.text), `${describe(exchange)} shows internals`)
  }),
  'no-server-errors': checkEach((exchange) => {
    assertThat(exchange.status !== 429, `${describe(exchange)}: its limits are too low for these checks`)
    assertThat(exchange.status < 500, describe(exchange))
  })
} satisfies Record<string, Ask>

/** A check of each answer so far. */
function checkEach(check: (exchange: Exchange) => void): Ask {
  return async ({ exchanges }) => exchanges.forEach(check)
}

async function logInWithCookies(service: ServiceUnderTest): Promise<Session> {
  const session = await service.logIn()
  if (session.cookies === undefined) throw new NotApplicable('tokens travel in bodies')
  return session
}

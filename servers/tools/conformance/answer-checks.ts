import { NOT_BEFORE_TOLERANCE_SECONDS } from 'express-did-auth/protocol'
import { describe, type Exchange, type ServiceUnderTest, type Session } from '../service-under-test.js'
import { allowsForeignPage, assertNotStored, assertStatus, assertThat, FOREIGN_ORIGIN, NotApplicable } from './rules.js'
import type { Check } from './rules.js'

/** Stack traces, HTML pages, and paths of source files or packages. Backtracking is linear in line feeds. */
const LEAKS = /<!doctype|<html|<pre>|\n[ \t]+at |\bat \S+ \(|node_modules|\.[jt]s:\d+:\d+/i

/** Checks of cookies, and of all responses together. */
export const answerChecks = {
  'cookie-attributes': async (service) => {
    const { answer } = await logInWithCookies(service)
    assertThat(answer.text === '', 'the login response has a body in addition to its cookies')
    for (const cookie of answer.setCookies) {
      const attributes = cookie.toLowerCase().split(/; ?/).slice(1)
      for (const attribute of ['secure', 'httponly', 'samesite=strict', 'path=/']) {
        assertThat(attributes.includes(attribute), `a cookie has no ${attribute}`)
      }
      assertThat(!attributes.some((attribute) => attribute.startsWith('domain=')), 'a cookie has a Domain')
    }
  },
  'cookie-cross-origin': async (service) => {
    const session = await logInWithCookies(service)
    for (const headers of [{ Origin: FOREIGN_ORIGIN }, { Origin: 'null' }, { 'Sec-Fetch-Site': 'cross-site' }]) {
      const shown = JSON.stringify(headers)
      assertStatus(await service.refresh(session, headers), 403, `a refresh with ${shown}`)
      assertStatus(await service.logOut(session, headers), 403, `a logout with ${shown}`)
    }
    assertStatus(await service.refresh(session), 200, "a refresh by the service's own page, after the refused requests")
  },
  'cookie-logout': async (service) => {
    const session = await logInWithCookies(service)
    const { setCookies } = await service.logOut(session)
    for (const name of Object.values(session.cookies ?? {})) {
      const cookie = setCookies.find((setCookie) => setCookie.startsWith(`${name}=`)) ?? ''
      assertThat(/=;|max-age=0|expires=thu, 01 jan 1970/i.test(cookie), `the cookie ${name} is not cleared`)
    }
  },
  cors: async (service) => {
    const headers = { Origin: FOREIGN_ORIGIN }
    const answers = [await service.requestChallenge({ headers }), await service.preflight(service.paths.auth, headers)]
    for (const { headers } of answers) {
      assertThat(!allowsForeignPage(headers), `${FOREIGN_ORIGIN} may read responses to requests with credentials`)
    }
  },
  'problem-json': async (service) => {
    const exchange = await service.post(service.paths.auth, {}, { Accept: 'application/problem+json' })
    const type = exchange.headers.get('content-type') ?? ''
    const expected = 'application/problem+json'
    assertThat(type.startsWith(expected), `${describe(exchange)} as ${type}, expected ${expected}`)
    const { status, title, code } = exchange.json
    assertThat(status === exchange.status, 'the status in the problem document is not the status of the response')
    assertThat(typeof title === 'string' && typeof code === 'string', 'the problem document has no title or no code')
  },
  clock: async (service) => {
    const askedAt = Date.now()
    const { headers } = await service.requestChallenge()
    const nowMilliseconds = (askedAt + Date.now()) / 2
    // The header contains whole seconds.
    const date = Date.parse(headers.get('date') ?? '') + 500
    const skew = Math.round(Math.abs(date - nowMilliseconds) / 1_000)
    const problem = `The clock of the service differs by ${skew} s from the clock of this machine`
    assertThat(!(skew > NOT_BEFORE_TOLERANCE_SECONDS), problem)
  },
  'no-store': async ({ exchanges }) => {
    const tokenResponses = exchanges.filter(
      ({ status, json, setCookies }) => status === 200 && ('accessToken' in json || setCookies.length > 0)
    )
    assertThat(tokenResponses.length > 0, 'no response contained a token')
    tokenResponses.forEach(assertNotStored)
  },
  'www-authenticate': checkEach((exchange) => {
    const header = exchange.headers.get('www-authenticate') ?? ''
    const isNamed = exchange.status !== 401 || /^DIDAuth realm="[^"]+"/.test(header)
    assertThat(isNamed, `${describe(exchange)} with WWW-Authenticate "${header}"`)
  }),
  'plain-text-errors': checkEach((exchange) => {
    const type = exchange.headers.get('content-type') ?? ''
    if (![400, 401, 403, 413].includes(exchange.status) || type.startsWith('application/problem+json')) return
    assertThat(type.startsWith('text/plain'), `${describe(exchange)} as ${type}, expected text/plain`)
    assertThat(
      /^[^\n]{1,200}$/.test(exchange.text),
      `${describe(exchange)}, expected one line of at most 200 characters`
    )
    const sniffing = exchange.headers.get('x-content-type-options')
    assertThat(sniffing === 'nosniff', `${describe(exchange)} without X-Content-Type-Options: nosniff`)
  }),
  'no-leaks': checkEach((exchange) => {
    // The application answers these requests, not the routes of the protocol.
    if (exchange.method === 'OPTIONS' || exchange.status === 404) return
    assertThat(!LEAKS.test(exchange.text), `${describe(exchange)} shows internals`)
  }),
  'no-server-errors': checkEach((exchange) => {
    assertThat(exchange.status !== 429, `${describe(exchange)}: the rate limits are too low for these checks`)
    assertThat(exchange.status < 500, describe(exchange))
  })
} satisfies Record<string, Check>

/** Creates a check of each response so far. */
function checkEach(check: (exchange: Exchange) => void): Check {
  return async ({ exchanges }) => exchanges.forEach(check)
}

async function logInWithCookies(service: ServiceUnderTest): Promise<Session> {
  const session = await service.logIn()
  if (session.cookies === undefined) throw new NotApplicable('the service returns tokens in bodies, not in cookies')
  return session
}

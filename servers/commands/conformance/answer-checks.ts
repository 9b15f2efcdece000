import { assertNotStored, assertStatus, assertThat, check, NotApplicable, type Check } from './check.js'
import { describe, sessionOf, type Exchange, type ServiceUnderTest } from './service.js'

const FOREIGN_ORIGIN = 'https://other.example'
/** Lines of stacks, pages, and paths of this machine or of packages. No run of line feeds is read twice. */
const LEAKS = /<!doctype|<html|<pre>|\n[ \t]+at |\bat \S+ \(|node_modules|\.[jt]s:\d+:\d+/i

/** Tokens in cookies, and what holds for every answer. The last ones look at all that the service has answered so far. */
export const answerChecks: readonly Check[] = [
  check(
    'cookie-attributes',
    'both cookies are Secure; HttpOnly; SameSite=Strict; Path=/, without Domain, and the body is empty',
    async (service) => {
      const { exchange } = await cookieLogin(service)
      assertThat(exchange.text === '', 'the login answered content beside its cookies')
      for (const cookie of exchange.setCookies) {
        const attributes = cookie.toLowerCase().split(/; ?/).slice(1)
        for (const attribute of ['secure', 'httponly', 'samesite=strict', 'path=/']) {
          assertThat(attributes.includes(attribute), `a cookie comes without ${attribute}`)
        }
        assertThat(!attributes.some((one) => one.startsWith('domain=')), 'a cookie names a Domain')
      }
    }
  ),
  check(
    'cookie-cross-origin',
    'with cookies, a request that a page of another site makes the browser send is 403',
    async (service) => {
      const { session } = await cookieLogin(service)
      for (const headers of [{ Origin: FOREIGN_ORIGIN }, { Origin: 'null' }, { 'Sec-Fetch-Site': 'cross-site' }]) {
        const what = JSON.stringify(headers)
        assertStatus(await service.refresh(session, headers), 403, `a refresh with ${what}`)
        assertStatus(await service.logOut(session, headers), 403, `a logout with ${what}`)
      }
      assertStatus(await service.refresh(session), 200, 'the refresh of the page itself, after those')
    }
  ),
  check('cookie-logout', 'a logout clears both cookies', async (service) => {
    const { session } = await cookieLogin(service)
    const { setCookies } = await service.logOut(session)
    for (const name of Object.values(session.cookies ?? {})) {
      const cookie = setCookies.find((one) => one.startsWith(`${name}=`)) ?? ''
      assertThat(/=;|max-age=0|expires=thu, 01 jan 1970/i.test(cookie), `the cookie ${name} is not cleared`)
    }
  }),
  check('cors', 'a page of any other origin may not read answers with credentials', async (service) => {
    const headers = { Origin: FOREIGN_ORIGIN }
    const asked = { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'content-type' }
    const answers = [
      await service.askChallenge('auth', service.newUser().did, headers),
      await service.send('OPTIONS', service.paths.auth, { headers: { ...headers, ...asked } })
    ]
    for (const { headers } of answers) {
      const origin = headers.get('access-control-allow-origin') ?? ''
      const allowsAll = origin === '*' || origin === FOREIGN_ORIGIN
      const withCredentials = headers.get('access-control-allow-credentials') === 'true'
      assertThat(!(allowsAll && withCredentials), `${FOREIGN_ORIGIN} may read answers with credentials`)
    }
  }),
  check(
    'problem-json',
    'with Accept: application/problem+json, an error is RFC 9457 with status, title and a stable code',
    async (service) => {
      const exchange = await service.post(service.paths.auth, {}, { Accept: 'application/problem+json' })
      const type = exchange.headers.get('content-type') ?? ''
      assertThat(type.startsWith('application/problem+json'), `${describe(exchange)} as ${type}`)
      const { status, title, code } = exchange.json
      assertThat(status === exchange.status, 'the problem has another status than the answer')
      assertThat(typeof title === 'string' && typeof code === 'string', 'the problem has no title or no code')
    }
  ),
  check('no-store', 'every answer with a token has Cache-Control: no-store', async (service) => {
    const carriers = service.exchanges.filter(
      ({ status, json, setCookies }) => status === 200 && ('accessToken' in json || setCookies.length > 0)
    )
    assertThat(carriers.length > 0, 'no answer had a token')
    carriers.forEach(assertNotStored)
  }),
  check('www-authenticate', 'every 401 has WWW-Authenticate: DIDAuth with a realm', async (service) => {
    forEachAnswer(service, [401], (exchange) => {
      const header = exchange.headers.get('www-authenticate') ?? ''
      assertThat(/^DIDAuth realm="[^"]+"/.test(header), `${describe(exchange)} with WWW-Authenticate "${header}"`)
    })
  }),
  check(
    'plain-text-errors',
    'errors are one short line as text/plain, which no browser takes for something else',
    async (service) => {
      forEachAnswer(service, [400, 401, 403, 413], (exchange) => {
        const type = exchange.headers.get('content-type') ?? ''
        if (type.startsWith('application/problem+json')) return
        assertThat(type.startsWith('text/plain'), `${describe(exchange)} as ${type}`)
        assertThat(/^[^\n]{1,200}$/.test(exchange.text), `${describe(exchange)}, which is no short line`)
        const sniffing = exchange.headers.get('x-content-type-options')
        assertThat(sniffing === 'nosniff', `${describe(exchange)} without X-Content-Type-Options: nosniff`)
      })
    }
  ),
  check('no-leaks', 'no answer shows a stack, a page of HTML or a path', async ({ exchanges }) => {
    for (const exchange of exchanges) {
      // What the protocol does not name is answered by the application around it.
      if (exchange.method === 'OPTIONS' || exchange.status === 404) continue
      assertThat(!LEAKS.test(exchange.text), `${describe(exchange)} shows internals`)
    }
  }),
  check(
    'no-server-errors',
    'nothing that was asked here is answered with 500 or above, or with 429',
    async (service) => {
      forEachAnswer(service, [429], (exchange) => {
        assertThat(false, `${describe(exchange)}: its limits are too low for these checks`)
      })
      for (const exchange of service.exchanges) assertThat(exchange.status < 500, describe(exchange))
    }
  )
]

/** @throws NotApplicable where tokens travel in bodies */
async function cookieLogin(service: ServiceUnderTest) {
  const user = service.newUser()
  const exchange = await service.post(service.paths.auth, await service.proof(user))
  const session = sessionOf(user, exchange)
  assertThat(session !== undefined, `no session: ${describe(exchange)}`)
  if (session.cookies === undefined) throw new NotApplicable('tokens travel in bodies')
  return { session, exchange }
}

function forEachAnswer(
  { exchanges }: ServiceUnderTest,
  statuses: readonly number[],
  assertRule: (exchange: Exchange) => void
): void {
  for (const exchange of exchanges) if (statuses.includes(exchange.status)) assertRule(exchange)
}

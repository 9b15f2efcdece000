import { readSession, type Exchange, type ServiceUnderTest, type User } from '../service-under-test.js'
import { acceptsDeviceProofs } from './device-checks.js'
import { assertThat, Violation, type PageRuleId } from './rules.js'

/** Headers of requests and of responses that a client of this protocol uses. */
const SENT_HEADERS = ['authorization', 'content-type', 'idempotency-key']
const READ_HEADERS = ['challenge-expires-in', 'idempotent-replayed', 'retry-after', 'www-authenticate']

/** Problems of a page in words. `doctor` also finds these problems in an environment. */
export const pageProblems = {
  otherSite: (origin: string, url: URL): string => `${origin} and ${url.origin} are different sites`,
  untrusted: (origin: string): string => `${origin} is not a trusted origin`,
  loginDomain: (origin: string): string => `${new URL(origin).host} is not a login domain`,
  siweDomain: (origin: string): string => `The service refuses EIP-4361 messages of ${origin}`
}

/** Checks a service for one rule about the pages of an origin. @throws Violation */
type PageCheck = (service: ServiceUnderTest, origin: string) => Promise<void>

/** Checks of the pages that use a service. Each login is followed by a logout. */
export const pageChecks: Readonly<Record<PageRuleId, PageCheck>> = {
  'page-cors': async (service, origin) => {
    if (origin === service.options.url.origin) return
    const usesCookies = await service.usesCookies()
    const hasProofs = acceptsDeviceProofs(service)
    const sentHeaders = hasProofs ? [...SENT_HEADERS, 'dpop'] : SENT_HEADERS
    const readHeaders = hasProofs ? [...READ_HEADERS, 'dpop-nonce'] : READ_HEADERS
    const headers = { Origin: origin }
    const preflight = await service.preflight(service.paths.refreshToken, headers, sentHeaders.join())
    const response = await service.requestChallenge({ headers })
    const problems = [preflight, response].map(({ headers }): string => {
      const allowed = headers.get('access-control-allow-origin')
      const isCredentialed = !usesCookies || headers.get('access-control-allow-credentials') === 'true'
      if (allowed !== origin && (usesCookies || allowed !== '*')) return 'may not read responses'
      return isCredentialed ? '' : 'may not send cookies'
    })
    // `*` is not a wildcard for requests with credentials. It never includes Authorization (Fetch Standard).
    const describeMissing = (verb: string, { headers }: Exchange, list: string, needed: readonly string[]): string => {
      const listed = (headers.get(list) ?? '').toLowerCase().split(/ *, */)
      const hasWildcard = listed.includes('*') && !usesCookies
      const names = needed.filter((name) => !listed.includes(name) && !(hasWildcard && name !== 'authorization'))
      return names.length === 0 ? '' : `may not ${verb} ${names.join(', ')}`
    }
    problems.push(describeMissing('send', preflight, 'access-control-allow-headers', sentHeaders))
    problems.push(describeMissing('read', response, 'access-control-expose-headers', readHeaders))
    const distinct = [...new Set(problems)].filter((problem) => problem !== '')
    if (distinct.length > 0) throw new Violation(distinct.map((problem) => `A page of ${origin} ${problem}`))
  },
  'page-site': async (service, origin) => {
    const { url } = service.options
    const isReachable = isSameSite(origin, url) || !(await service.usesCookies())
    assertThat(isReachable, pageProblems.otherSite(origin, url))
  },
  'page-trusted': async (service, origin) => {
    const { status } = await service.requestChallenge({ headers: { Origin: origin } })
    const isRefused = status === 403 && isSameSite(origin, service.options.url)
    assertThat(!isRefused, pageProblems.untrusted(origin))
  },
  'page-login': async (service, origin) => {
    const user = service.newUser()
    const proof = await service.proof(user, { domain: new URL(origin).host })
    const code = await tryLogIn(service, user, service.paths.auth, proof)
    // Only these error codes mean that the service does not accept the domain.
    assertThat(!/^ERR_(?:SIGNATURE|CHALLENGE)$/.test(code), pageProblems.loginDomain(origin))
  },
  'page-siwe': async (service, origin) => {
    const user = service.newUser()
    const proof = await service.createSiweProof(user, { domain: new URL(origin).host })
    const code = await tryLogIn(service, user, service.paths.siweVerify, proof)
    assertThat(code !== 'ERR_MESSAGE_DOMAIN', pageProblems.siweDomain(origin))
  }
}

/** Tries a login, and logs out again if it succeeds. @returns the error code of a refused login */
async function tryLogIn(service: ServiceUnderTest, user: User, path: string, proof: object): Promise<string> {
  const response = await service.post(path, proof, { Accept: 'application/problem+json' })
  const session = readSession(user, response)
  if (session !== undefined) await service.logOut(session)
  return String(response.json.code)
}

/** Whether a page of an origin is on the site of a URL, so that browsers send its SameSite cookies there. */
export function isSameSite(origin: string, url: URL): boolean {
  return findSite(origin) === findSite(url.origin)
}

/**
 * Returns the site of an origin for SameSite: scheme and registrable domain. Public suffixes of two labels are
 * recognised by their form (`co.uk`, `com.br`), because the complete list is larger than this program.
 *
 * @see RFC 6265bis, section 5.2; HTML Standard, "schemelessly same site" and "same site"
 */
export function findSite(origin: string): string {
  const { protocol, hostname } = new URL(origin)
  const labels = hostname.split('.')
  if (/^[\d.]+$|^\[/.test(hostname) || labels.length < 2) return `${protocol}//${hostname}`
  const isSecondLevel = /^(?:ac|co|com|edu|gob|gov|net|org)$/.test(labels.at(-2) ?? '') && labels.at(-1)?.length === 2
  return `${protocol}//${labels.slice(isSecondLevel ? -3 : -2).join('.')}`
}

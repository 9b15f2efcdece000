import { createSiteRemedy, pageProblems } from './environment.js'
import { change, note, type Finding, type Findings } from './finding.js'
import type { Exchange, ServiceClient } from './service-client.js'
import { isSameSite } from './site.js'

/** Headers of requests and of responses that a client of this protocol uses. */
const SENT_HEADERS = ['authorization', 'content-type', 'idempotency-key']
const READ_HEADERS = ['challenge-expires-in', 'idempotent-replayed', 'retry-after', 'www-authenticate']

/** Checks what a running service lets the pages of an origin do. A login of a check is followed by a logout. */
type PageCheck = (service: ServiceClient, origin: string) => Promise<Findings>

/** All checks of a page. They run in parallel, and each of them may fail for itself. */
export const pageChecks: readonly PageCheck[] = [checkSiweDomain, checkCors, checkTrust, checkSite, checkLoginDomain]

const trustLine = (origin: string): string => `trustedOrigins: ['${origin}'], or TRUSTED_ORIGINS=${origin}`

/** Checks that users may sign EIP-4361 messages that name the host of the page. */
async function checkSiweDomain(service: ServiceClient, origin: string): Promise<Findings> {
  const code = await service.tryLogIn(service.paths.siweVerify, (user) =>
    service.createSiweLogin(user, new URL(origin).host)
  )
  return [code === 'ERR_MESSAGE_DOMAIN' && note('siwe-domain', pageProblems.siweDomain(origin), trustLine(origin))]
}

/** Checks that the browser lets the page send all headers of this protocol, and read responses with their headers. */
async function checkCors(service: ServiceClient, origin: string): Promise<Findings> {
  if (origin === service.options.url.origin) return []
  const usesCookies = await service.usesCookies()
  const hasProofs = service.acceptsDeviceProofs()
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
  const remedy = `CORS_ORIGINS=${origin}, or set allowedHeaders and exposedHeaders of cors() in your own app`
  const distinct = [...new Set(problems)].filter((problem) => problem !== '')
  return distinct.map((problem): Finding => change('cors', `A page of ${origin} ${problem}`, remedy))
}

/** Checks that the service accepts requests of a page on its own site. */
async function checkTrust(service: ServiceClient, origin: string): Promise<Findings> {
  const { status } = await service.requestChallenge({ headers: { Origin: origin } })
  const isRefused = status === 403 && isSameSite(origin, service.options.url)
  return [isRefused && change('trusted-origins', pageProblems.untrusted(origin), trustLine(origin))]
}

/** Checks that, with cookies, page and service are on the same site. */
async function checkSite(service: ServiceClient, origin: string): Promise<Findings> {
  const { url } = service.options
  const isUnreachable = !isSameSite(origin, url) && (await service.usesCookies())
  return [isUnreachable && change('same-site', pageProblems.otherSite(origin, url), createSiteRemedy(url))]
}

/** Checks that users may sign login messages that name the host of the page. */
async function checkLoginDomain(service: ServiceClient, origin: string): Promise<Findings> {
  const { host } = new URL(origin)
  const code = await service.tryLogIn(service.paths.auth, (user) => service.createLogin(user, host))
  // Only these error codes mean that the service does not accept the domain.
  const isRefused = /^ERR_(?:SIGNATURE|CHALLENGE)$/.test(code)
  return [isRefused && note('login-domains', pageProblems.loginDomain(origin), `LOGIN_DOMAINS=${host}`)]
}

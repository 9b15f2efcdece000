import { loadCurve } from 'express-did-auth'
import { isLoopbackHost, parseHttpUrl } from 'express-did-auth/server-kit'
import { reasonOf } from '../../config/startup-error.js'
import { describe, realmOf, ServiceUnderTest, sessionOf, type Exchange, type User } from '../service-under-test.js'
import { foreign, noLoginDomain, otherSite, overHttp } from './environment.js'
import { askAll, change, note, type Found } from './finding.js'
import { checkIpfsPort } from './network.js'

/** Access tokens may be used this early, and instances may differ by as much. */
const MAX_SKEW_SECONDS = 5
const PROXY_HEADERS = ['via', 'x-cache', 'cf-ray', 'x-served-by', 'x-amz-cf-id']
const PROXY_SERVERS = /nginx|caddy|envoy|cloudflare|traefik|haproxy|apache|openresty|awselb/i
const NEEDED_HEADERS = ['authorization', 'content-type', 'idempotency-key']
const EXPOSED_HEADERS = ['challenge-expires-in', 'idempotent-replayed', 'retry-after', 'www-authenticate']
const PROBLEM = { Accept: 'application/problem+json' }

/**
 * Asks a running service. It logs in once for each page, with a new wallet, and logs out again.
 *
 * @param origins - of the pages that use it
 * @param trustProxy - `TRUST_PROXY` of the environment, if that is this service's environment
 */
export async function checkService(url: URL, origins: readonly string[], trustProxy: unknown): Promise<Found> {
  const service = new ServiceUnderTest({ url, protectedPath: '/me', curve: await loadCurve() })
  // What does not answer is found below.
  await service.discover().catch(() => undefined)
  const askedAt = Date.now()
  const first = await service.askChallenge().catch(reasonOf)
  if (typeof first === 'string') {
    const what = `${url.href} does not answer: ${first}`
    return [change('unavailable', what, 'HOST=0.0.0.0, or the configuration of the proxy')]
  }
  if (typeof first.json.challenge !== 'string') {
    const what = `It issues no challenge: ${describe(first)}`
    return [change('no-challenge', what, 'the URL, with the path below which it is')]
  }
  const nowMilliseconds = (askedAt + Date.now()) / 2
  // A logout without a token: it has the realm, and clears cookies where there are any.
  const refusal = service.post(service.paths.logout, {})
  const { setCookies } = await refusal.catch(() => first)
  const address = { url, usesCookies: setCookies.length > 0 }
  const ofPage = (origin: string) => [
    () => logsInBySiwe(service, origin),
    () => crossesOrigins(service, origin, address.usesCookies),
    () => isTrusted(service, origin),
    async () => [otherSite(origin, address)],
    () => logsIn(service, origin)
  ]
  return askAll(
    async () => [overHttp(address, 'SERVICE_URL'), ofClock(first, nowMilliseconds), ...ofProxy(first, url, trustProxy)],
    async () => [ofRealm(realmOf(await refusal) ?? '', url)],
    () => givesNonces(service),
    async () => [await checkIpfsPort(url.hostname)],
    ...origins.flatMap(ofPage)
  )
}

function ofClock({ headers }: Exchange, nowMilliseconds: number): Found[number] {
  const date = Date.parse(headers.get('date') ?? '')
  // The header has whole seconds.
  const skew = Math.round(Math.abs(date + 500 - nowMilliseconds) / 1_000)
  const remedy = 'timedatectl set-ntp true (on the machine that is wrong)'
  return skew > MAX_SKEW_SECONDS && change('clock', `Its clock is ${skew} s from that of this machine`, remedy)
}

function ofProxy(first: Exchange, url: URL, trusted: unknown): Found {
  const sign = signOfProxy(first, url)
  const what = `A proxy is in front (${sign ?? ''})`
  const question = `${what}: make sure that it is trusted; that cannot be checked from outside`
  if (sign !== undefined)
    return [
      trusted === false && change('trust-proxy', `${what}, and TRUST_PROXY is off`, 'TRUST_PROXY=1'),
      trusted === undefined && note('trust-proxy', question, 'TRUST_PROXY=1')
    ]
  const isOn = trusted !== undefined && trusted !== false
  return [isOn && change('trust-proxy/all', 'No proxy is in front, and TRUST_PROXY is on', 'TRUST_PROXY=off')]
}

function signOfProxy({ headers }: Exchange, { protocol }: URL): string | undefined {
  const isServer = PROXY_SERVERS.test(headers.get('server') ?? '')
  const header = PROXY_HEADERS.find((name) => headers.has(name)) ?? (isServer ? 'server' : undefined)
  if (header !== undefined) return `the header ${header}`
  return protocol === 'https:' ? 'https' : undefined
}

function ofRealm(realm: string, url: URL): Found[number] {
  const named = parseHttpUrl(realm) ?? url
  const areLocal = [named, url].every(({ hostname }) => isLoopbackHost(hostname)) && named.port === url.port
  const what = `The service calls itself ${realm}, and answers at ${url.origin}`
  return named.host !== url.host && !areLocal && note('service-url', what, `SERVICE_URL=${url.origin}`)
}

async function givesNonces(service: ServiceUnderTest): Promise<Found> {
  const nonce = await service.siweNonce()
  const isCached = nonce !== undefined && nonce === (await service.siweNonce())
  const remedy = 'configure the cache in front: /siwe/nonce is no-store'
  return [isCached && change('siwe-nonce', 'Two requests received the same nonce', remedy)]
}

const trustLine = (origin: string): string => `trustedOrigins: ['${origin}'], or TRUSTED_ORIGINS=${origin}`

/** Logs in by a signature for a page's host. Other refusals say nothing about the domain. */
async function logsIn(service: ServiceUnderTest, origin: string): Promise<Found> {
  const { host } = new URL(origin)
  const user = service.newUser()
  const code = await codeOfLogin(service, user, service.paths.auth, await service.proof(user, { domain: host }))
  return [/^ERR_(?:SIGNATURE|CHALLENGE)$/.test(code) && noLoginDomain(origin, `LOGIN_DOMAINS=${host}`)]
}

async function logsInBySiwe(service: ServiceUnderTest, origin: string): Promise<Found> {
  const user = service.newUser()
  const proof = await service.siweProof(user, { domain: new URL(origin).host })
  const code = await codeOfLogin(service, user, '/siwe/verify', proof)
  const what = `EIP-4361 messages of ${origin} are refused`
  return [code === 'ERR_MESSAGE_DOMAIN' && note('siwe-domain', what, trustLine(origin))]
}

/** Logs in, and out again. @returns why it was refused */
async function codeOfLogin(service: ServiceUnderTest, user: User, path: string, body: object): Promise<string> {
  const answer = await service.post(path, body, PROBLEM)
  const session = sessionOf(user, answer)
  if (session !== undefined) await service.logOut(session)
  return String(answer.json.code)
}

async function isTrusted(service: ServiceUnderTest, origin: string): Promise<Found> {
  const { status } = await service.askChallenge({ headers: { Origin: origin } })
  return [status === 403 && foreign(origin, service.options.url, trustLine(origin))]
}

/** Asks what a browser refuses to the scripts of a page. */
async function crossesOrigins(service: ServiceUnderTest, origin: string, usesCookies: boolean): Promise<Found> {
  if (origin === service.options.url.origin) return []
  const headers = { Origin: origin }
  const preflight = await service.preflight(service.paths.refreshToken, headers, NEEDED_HEADERS.join())
  const posted = await service.askChallenge({ headers })
  const problems = [preflight, posted].map(({ headers }): string => {
    const allowed = headers.get('access-control-allow-origin')
    const isCredentialed = !usesCookies || headers.get('access-control-allow-credentials') === 'true'
    if (allowed !== origin && (usesCookies || allowed !== '*')) return 'may not read answers'
    return isCredentialed ? '' : 'may not send its cookies'
  })
  // With credentials `*` is no wildcard, and it never covers Authorization (Fetch Standard).
  const missing = (verb: string, { headers }: Exchange, list: string, needed: readonly string[]): string => {
    const given = (headers.get(list) ?? '').toLowerCase().split(/ *, */)
    const isAll = given.includes('*') && !usesCookies
    const names = needed.filter((name) => !given.includes(name) && !(isAll && name !== 'authorization'))
    return names.length === 0 ? '' : `may not ${verb} ${names.join(', ')}`
  }
  problems.push(missing('send', preflight, 'access-control-allow-headers', NEEDED_HEADERS))
  problems.push(missing('read', posted, 'access-control-expose-headers', EXPOSED_HEADERS))
  const remedy = `CORS_ORIGINS=${origin}, or in the cors() of your own app: allowedHeaders, exposedHeaders`
  const distinct = [...new Set(problems)].filter((problem) => problem !== '')
  return distinct.map((problem) => change('cors', `A page of ${origin} ${problem}`, remedy))
}

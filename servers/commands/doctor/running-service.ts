import { loadCurve } from 'express-did-auth'
import { readField, isLoopbackHost, isObject, parseHttpUrl } from 'express-did-auth/server-kit'
import { describeReason } from '../../config/startup-error.js'
import { describe, readRealm, ServiceUnderTest, readSession, type Exchange, type User } from '../service-under-test.js'
import {
  createForeignPageFinding,
  foreignSite,
  createLoginDomainFinding,
  createOtherSiteFinding,
  createHttpFinding
} from './environment.js'
import { askAll, change, note, type Found } from './finding.js'
import { checkIpfsPort } from './network.js'

/** Time limit for all requests, so that a service that is silent keeps nobody waiting. */
const MAX_MILLISECONDS = 10_000
/** Access tokens may be used this early, and instances may differ by as much. */
const MAX_SKEW_SECONDS = 5
const PROXY_HEADERS = ['via', 'x-cache', 'cf-ray', 'x-served-by', 'x-amz-cf-id']
const PROXY_SERVERS = /nginx|caddy|envoy|cloudflare|traefik|haproxy|apache|openresty|awselb/i
const NEEDED_HEADERS = ['authorization', 'content-type', 'idempotency-key']
const EXPOSED_HEADERS = ['challenge-expires-in', 'idempotent-replayed', 'retry-after', 'www-authenticate']
const PROBLEM = { Accept: 'application/problem+json' }

/** Facts about a running service from other sources. */
export interface ServiceContext {
  /** Origins of the pages that use it. */
  origins: readonly string[]
  /** `TRUST_PROXY` of the environment, if that is this service's environment. */
  trustProxy: unknown
  /** Time limit for all requests together. Default 10 s. */
  maxMilliseconds?: number | undefined
}

/** Checks a running service. It logs in once for each page, with a new wallet, and logs out again. */
export async function checkService(url: URL, context: ServiceContext): Promise<Found> {
  const { origins, trustProxy, maxMilliseconds = MAX_MILLISECONDS } = context
  const signal = AbortSignal.timeout(maxMilliseconds)
  const service = new ServiceUnderTest({ url, protectedPath: '/me', curve: await loadCurve(), signal })
  // A service that does not answer is reported below.
  await service.discover().catch(() => undefined)
  const askedAt = Date.now()
  const first = await service.askChallenge().catch(describeReason)
  if (typeof first === 'string') {
    const what = `${url.href} does not answer: ${first}`
    return [change('unavailable', what, 'HOST=0.0.0.0, or the configuration of the proxy')]
  }
  if (typeof first.json.challenge !== 'string') {
    const what = `It issues no challenge: ${describe(first)}`
    const unready = await askAll(() => checkReadiness(service))
    return [change('no-challenge', what, 'the URL, with the path below which it is'), ...unready]
  }
  const nowMilliseconds = (askedAt + Date.now()) / 2
  // The response to a logout without a token names the realm, and clears cookies in cookie mode.
  const refusal = service.post(service.paths.logout, {})
  const { setCookies } = await refusal.catch(() => first)
  const address = { url, usesCookies: setCookies.length > 0 }
  const checkPage = (origin: string) => [
    () => canLogInBySiwe(service, origin),
    () => canCrossOrigins(service, origin, address.usesCookies),
    () => isTrusted(service, origin),
    async () => [createOtherSiteFinding(origin, address)],
    () => canLogIn(service, origin)
  ]
  return askAll(
    async () => [
      createHttpFinding(address, 'SERVICE_URL'),
      checkClock(first, nowMilliseconds),
      ...checkProxy(first, url, trustProxy)
    ],
    async () => [checkRealm(readRealm(await refusal) ?? '', url)],
    () => hasNonces(service),
    () => checkReadiness(service),
    async () => [await checkIpfsPort(url.hostname)],
    ...origins.flatMap(checkPage)
  )
}

function checkClock({ headers }: Exchange, nowMilliseconds: number): Found[number] {
  const date = Date.parse(headers.get('date') ?? '')
  // The header has whole seconds.
  const skew = Math.round(Math.abs(date + 500 - nowMilliseconds) / 1_000)
  const remedy = 'timedatectl set-ntp true (on the machine that is wrong)'
  return skew > MAX_SKEW_SECONDS && change('clock', `Its clock is ${skew} s from that of this machine`, remedy)
}

function checkProxy(first: Exchange, url: URL, trusted: unknown): Found {
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

function checkRealm(realm: string, url: URL): Found[number] {
  const named = parseHttpUrl(realm) ?? url
  const areLocal = [named, url].every(({ hostname }) => isLoopbackHost(hostname)) && named.port === url.port
  const what = `The service calls itself ${realm}, and answers at ${url.origin}`
  return named.host !== url.host && !areLocal && note('service-url', what, `SERVICE_URL=${url.origin}`)
}

/** Remedies by the name of a dependency that `/ready` lists. */
const REMEDIES: Readonly<Record<string, string>> = {
  store: 'put moved files back, free space on the disk, or DATA_DIR=<folder that the user of the servers may write to>',
  database: 'DATABASE_URL=…, or start the database that it names',
  redis: 'REDIS_URL=…, or start the Redis that it names',
  objects: 'S3_ENDPOINT=… and the other S3_ variables, or start the storage that they name',
  signer: 'PRIVATE_KEY=…',
  clock: 'timedatectl set-ntp true (on that machine)',
  ipfs: 'IPFS_API_URL=…, or start the node that it names',
  rpc: 'RPC_URL=…, or start the node that it names',
  issuer: 'TRUSTED_ISSUER=…, or let that machine resolve its name and trust its certificate (NODE_EXTRA_CA_CERTS)'
}

/** Asks the servers' `/ready`, which other services need not have. */
async function checkReadiness(service: ServiceUnderTest): Promise<Found> {
  const { status, json } = await service.send('GET', '/ready')
  const { status: state, dependencies, reasons } = json
  if (!isObject(dependencies)) return []
  const failed = Object.entries(dependencies).filter(([, found]) => found !== 'ok' && found !== 'none')
  const findings = failed.map(([name, found]) => {
    const reason = readField(reasons, name)
    const what = `/ready answers ${status}: ${name} is ${String(found)}${typeof reason === 'string' ? `, ${reason}` : ''}`
    const remedy = REMEDIES[name] ?? 'its log says why'
    // A reason is listed for what is needed, and for some others.
    return status === 503 && reason !== undefined
      ? change('not-ready', what, remedy)
      : note('not-ready/part', what, remedy)
  })
  const isUnexplained = status === 503 && !findings.some(({ level }) => level === 'change')
  const what = `/ready answers 503: ${String(state)}`
  return [...findings, isUnexplained && change('not-ready', what, 'wait until it has started, or start it again')]
}

async function hasNonces(service: ServiceUnderTest): Promise<Found> {
  const nonce = await service.siweNonce()
  const isCached = nonce !== undefined && nonce === (await service.siweNonce())
  const remedy = 'configure the cache in front: /siwe/nonce is no-store'
  return [isCached && change('siwe-nonce', 'Two requests received the same nonce', remedy)]
}

const trustLine = (origin: string): string => `trustedOrigins: ['${origin}'], or TRUSTED_ORIGINS=${origin}`

/** Logs in by a signature for a page's host. Other refusals say nothing about the domain. */
async function canLogIn(service: ServiceUnderTest, origin: string): Promise<Found> {
  const { host } = new URL(origin)
  const user = service.newUser()
  const code = await tryLogIn(service, user, service.paths.auth, await service.proof(user, { domain: host }))
  return [/^ERR_(?:SIGNATURE|CHALLENGE)$/.test(code) && createLoginDomainFinding(origin, `LOGIN_DOMAINS=${host}`)]
}

async function canLogInBySiwe(service: ServiceUnderTest, origin: string): Promise<Found> {
  const user = service.newUser()
  const proof = await service.siweProof(user, { domain: new URL(origin).host })
  const code = await tryLogIn(service, user, '/siwe/verify', proof)
  return [code === 'ERR_MESSAGE_DOMAIN' && foreignSite(origin, trustLine(origin))]
}

/** Logs in, and out again. @returns why it was refused */
async function tryLogIn(service: ServiceUnderTest, user: User, path: string, body: object): Promise<string> {
  const answer = await service.post(path, body, PROBLEM)
  const session = readSession(user, answer)
  if (session !== undefined) await service.logOut(session)
  return String(answer.json.code)
}

async function isTrusted(service: ServiceUnderTest, origin: string): Promise<Found> {
  const { status } = await service.askChallenge({ headers: { Origin: origin } })
  return [status === 403 && createForeignPageFinding(origin, service.options.url, trustLine(origin))]
}

/** Checks which requests and headers a browser refuses to the scripts of a page. */
async function canCrossOrigins(service: ServiceUnderTest, origin: string, usesCookies: boolean): Promise<Found> {
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
  // `*` is no wildcard with credentials, and it never covers Authorization (Fetch Standard).
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

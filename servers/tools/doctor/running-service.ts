import { loadCurve } from 'express-did-auth'
import { readField, isLoopbackHost, isObject, parseHttpUrl } from 'express-did-auth/server-kit'
import { describeReason } from '../../config/startup-error.js'
import { describe, readRealm, ServiceUnderTest, readSession, type Exchange, type User } from '../service-under-test.js'
import {
  createForeignPageFinding,
  createSiweFinding,
  createLoginDomainFinding,
  createOtherSiteFinding,
  createHttpFinding
} from './environment.js'
import { runChecks, change, note, type Findings } from './finding.js'
import { checkIpfsPort } from './network.js'

/** Time limit for all requests together, so that a silent service does not block the command. */
const MAX_MILLISECONDS = 10_000
/** Tolerated clock difference: the tolerance for `nbf` of access tokens, and the limit between instances. */
const MAX_SKEW_SECONDS = 5
const PROXY_HEADERS = ['via', 'x-cache', 'cf-ray', 'x-served-by', 'x-amz-cf-id']
const PROXY_SERVERS = /nginx|caddy|envoy|cloudflare|traefik|haproxy|apache|openresty|awselb/i
const NEEDED_HEADERS = ['authorization', 'content-type', 'idempotency-key']
const EXPOSED_HEADERS = ['challenge-expires-in', 'idempotent-replayed', 'retry-after', 'www-authenticate']
const PROBLEM = { Accept: 'application/problem+json' }

/** Options for checking a running service. */
export interface ServiceCheckOptions {
  /** Origins of the pages that use the service. */
  origins: readonly string[]
  /** `TRUST_PROXY`, if the environment is that of the service. */
  trustProxy: unknown
  /** Time limit for all requests together. Default 10 s. */
  maxMilliseconds?: number | undefined
}

/** Checks a running service. For each page it logs in with a new wallet, and logs out again. */
export async function checkService(url: URL, options: ServiceCheckOptions): Promise<Findings> {
  const { origins, trustProxy, maxMilliseconds = MAX_MILLISECONDS } = options
  const signal = AbortSignal.timeout(maxMilliseconds)
  const service = new ServiceUnderTest({ url, protectedPath: '/me', curve: await loadCurve(), signal })
  // A service that does not answer is reported below.
  await service.discover().catch(() => undefined)
  const askedAt = Date.now()
  const first = await service.requestChallenge().catch(describeReason)
  if (typeof first === 'string') {
    const remedy = 'HOST=0.0.0.0, or correct the configuration of the proxy'
    return [change('unavailable', `${url.href} does not answer: ${first}`, remedy)]
  }
  if (typeof first.json.challenge !== 'string') {
    const problem = `The service issues no challenge: ${describe(first)}`
    const readiness = await runChecks(() => checkReadiness(service))
    return [change('no-challenge', problem, 'check the URL: it must include the path of the service'), ...readiness]
  }
  const nowMilliseconds = (askedAt + Date.now()) / 2
  // The response to a logout without a token names the realm, and clears cookies in cookie mode.
  const logout = service.post(service.paths.logout, {})
  const { setCookies } = await logout.catch(() => first)
  const address = { url, usesCookies: setCookies.length > 0 }
  const checkPage = (origin: string) => [
    () => canLogInBySiwe(service, origin),
    () => canCrossOrigins(service, origin, address.usesCookies),
    () => isTrusted(service, origin),
    async () => [createOtherSiteFinding(origin, address)],
    () => canLogIn(service, origin)
  ]
  return runChecks(
    async () => [
      createHttpFinding(address, 'SERVICE_URL'),
      checkClock(first, nowMilliseconds),
      ...checkProxy(first, url, trustProxy)
    ],
    async () => [checkRealm(readRealm(await logout) ?? '', url)],
    () => hasNonces(service),
    () => checkReadiness(service),
    async () => [await checkIpfsPort(url.hostname)],
    ...origins.flatMap(checkPage)
  )
}

function checkClock({ headers }: Exchange, nowMilliseconds: number): Findings[number] {
  const date = Date.parse(headers.get('date') ?? '')
  // The header contains whole seconds.
  const skew = Math.round(Math.abs(date + 500 - nowMilliseconds) / 1_000)
  const remedy = 'timedatectl set-ntp true (on the machine whose clock is wrong)'
  return (
    skew > MAX_SKEW_SECONDS &&
    change('clock', `The clock of the service differs by ${skew} s from the clock of this machine`, remedy)
  )
}

function checkProxy(first: Exchange, url: URL, trusted: unknown): Findings {
  const evidence = findProxyEvidence(first, url)
  const proxy = `The service is behind a proxy (${evidence ?? ''})`
  if (evidence !== undefined)
    return [
      trusted === false && change('trust-proxy', `${proxy}, but TRUST_PROXY is off`, 'TRUST_PROXY=1'),
      trusted === undefined && note('trust-proxy', `${proxy}. Make sure that the server trusts it`, 'TRUST_PROXY=1')
    ]
  const isOn = trusted !== undefined && trusted !== false
  return [isOn && change('trust-proxy/all', 'TRUST_PROXY is on, but there is no proxy', 'TRUST_PROXY=off')]
}

function findProxyEvidence({ headers }: Exchange, { protocol }: URL): string | undefined {
  const isServer = PROXY_SERVERS.test(headers.get('server') ?? '')
  const header = PROXY_HEADERS.find((name) => headers.has(name)) ?? (isServer ? 'server' : undefined)
  if (header !== undefined) return `header ${header}`
  return protocol === 'https:' ? 'https' : undefined
}

function checkRealm(realm: string, url: URL): Findings[number] {
  const ownUrl = parseHttpUrl(realm) ?? url
  const areLocal = [ownUrl, url].every(({ hostname }) => isLoopbackHost(hostname)) && ownUrl.port === url.port
  const problem = `The service answers at ${url.origin}, but its SERVICE_URL is ${realm}`
  return ownUrl.host !== url.host && !areLocal && note('service-url', problem, `SERVICE_URL=${url.origin}`)
}

/** Remedies by the names of dependencies in the response of `/ready`. */
const REMEDIES: Readonly<Record<string, string>> = {
  store: 'restore moved files, free space on the disk, or DATA_DIR=<folder that the user of the servers may write to>',
  database: 'DATABASE_URL=…, or start the database',
  redis: 'REDIS_URL=…, or start Redis',
  objects: 'S3_ENDPOINT=… and the other S3_ variables, or start the object storage',
  signer: 'PRIVATE_KEY=…',
  clock: 'timedatectl set-ntp true (on that machine)',
  ipfs: 'IPFS_API_URL=…, or start the IPFS node',
  rpc: 'RPC_URL=…, or start the RPC node',
  issuer: 'TRUSTED_ISSUER=…, or let that machine resolve its name and trust its certificate (NODE_EXTRA_CA_CERTS)'
}

/** Checks `/ready` of a server. Other services need not have this route. */
async function checkReadiness(service: ServiceUnderTest): Promise<Findings> {
  const { status, json } = await service.send('GET', '/ready')
  const { status: state, dependencies, reasons } = json
  if (!isObject(dependencies)) return []
  const failed = Object.entries(dependencies).filter(([, result]) => result !== 'ok' && result !== 'none')
  const findings = failed.map(([name, result]) => {
    const reason = readField(reasons, name)
    const detail = typeof reason === 'string' ? `, ${reason}` : ''
    const problem = `/ready answers ${status}: ${name} is ${String(result)}${detail}`
    const remedy = REMEDIES[name] ?? 'see the log of the server for the reason'
    // The response contains reasons for all needed dependencies, and for some others.
    return status === 503 && reason !== undefined
      ? change('not-ready', problem, remedy)
      : note('not-ready/part', problem, remedy)
  })
  const isUnexplained = status === 503 && !findings.some(({ level }) => level === 'change')
  const problem = `/ready answers 503: ${String(state)}`
  const remedy = 'wait until the server has started, or restart it'
  return [...findings, isUnexplained && change('not-ready', problem, remedy)]
}

async function hasNonces(service: ServiceUnderTest): Promise<Findings> {
  const isCached = (await service.repeatsSiweNonce()) === true
  const remedy = 'configure the cache in front of the service to respect Cache-Control: no-store of /siwe/nonce'
  return [isCached && change('siwe-nonce', 'Two requests received the same nonce', remedy)]
}

const trustLine = (origin: string): string => `trustedOrigins: ['${origin}'], or TRUSTED_ORIGINS=${origin}`

/** Tries a login with a signature for a page's host. Only two error codes mean that the domain is not accepted. */
async function canLogIn(service: ServiceUnderTest, origin: string): Promise<Findings> {
  const { host } = new URL(origin)
  const user = service.newUser()
  const code = await tryLogIn(service, user, service.paths.auth, await service.proof(user, { domain: host }))
  return [/^ERR_(?:SIGNATURE|CHALLENGE)$/.test(code) && createLoginDomainFinding(origin, `LOGIN_DOMAINS=${host}`)]
}

async function canLogInBySiwe(service: ServiceUnderTest, origin: string): Promise<Findings> {
  const user = service.newUser()
  const proof = await service.createSiweProof(user, { domain: new URL(origin).host })
  const code = await tryLogIn(service, user, '/siwe/verify', proof)
  return [code === 'ERR_MESSAGE_DOMAIN' && createSiweFinding(origin, trustLine(origin))]
}

/** Tries a login, and logs out again if it succeeds. @returns the error code of a refused login */
async function tryLogIn(service: ServiceUnderTest, user: User, path: string, body: object): Promise<string> {
  const response = await service.post(path, body, PROBLEM)
  const session = readSession(user, response)
  if (session !== undefined) await service.logOut(session)
  return String(response.json.code)
}

async function isTrusted(service: ServiceUnderTest, origin: string): Promise<Findings> {
  const { status } = await service.requestChallenge({ headers: { Origin: origin } })
  return [status === 403 && createForeignPageFinding(origin, service.options.url, trustLine(origin))]
}

/** Checks which requests, responses and headers a browser denies the scripts of a page. */
async function canCrossOrigins(service: ServiceUnderTest, origin: string, usesCookies: boolean): Promise<Findings> {
  if (origin === service.options.url.origin) return []
  const headers = { Origin: origin }
  const preflight = await service.preflight(service.paths.refreshToken, headers, NEEDED_HEADERS.join())
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
  problems.push(describeMissing('send', preflight, 'access-control-allow-headers', NEEDED_HEADERS))
  problems.push(describeMissing('read', response, 'access-control-expose-headers', EXPOSED_HEADERS))
  const remedy = `CORS_ORIGINS=${origin}, or set allowedHeaders and exposedHeaders of cors() in your own app`
  const distinct = [...new Set(problems)].filter((problem) => problem !== '')
  return distinct.map((problem) => change('cors', `A page of ${origin} ${problem}`, remedy))
}

import { loadCurve } from 'express-did-auth'
import { NOT_BEFORE_TOLERANCE_SECONDS } from 'express-did-auth/protocol'
import { isLoopbackHost, isObject, isOrigin, parseHttpUrl, readField } from 'express-did-auth/server-kit'
import { readValidEnv, type Env } from '../../config/read-env.js'
import { describeReason } from '../../config/startup-error.js'
import { limitMilliseconds } from '../../config/time-limits.js'
import { checkIpfsPort, remedies } from './dependencies.js'
import { createHttpFinding } from './environment.js'
import { runChecks, change, note, type Findings } from './finding.js'
import { pageChecks } from './page-checks.js'
import { describe, readRealm, ServiceClient, type Exchange } from './service-client.js'

const CLOCK_REMEDY = 'timedatectl set-ntp true (on the machine whose clock is wrong)'
const PROXY_HEADERS = ['via', 'x-cache', 'cf-ray', 'x-served-by', 'x-amz-cf-id']
const PROXY_SERVERS = /nginx|caddy|envoy|cloudflare|traefik|haproxy|apache|openresty|awselb/i

/**
 * Checks a running service. For each page it logs in with a new wallet, and logs out again.
 *
 * @param env - environment, whose pages are checked too, and whose `TRUST_PROXY` counts if it is that of the service
 * @param origins - origins of pages that use the service
 */
export async function checkService(
  url: URL,
  env: Env,
  origins: readonly string[],
  maxMilliseconds = limitMilliseconds.doctorService
): Promise<Findings> {
  const { TRUSTED_ORIGINS, CORS_ORIGINS, TRUST_PROXY, SERVICE_URL } = readValidEnv(env, 'auth', false).env
  const pages = [...new Set([...origins, ...TRUSTED_ORIGINS, ...CORS_ORIGINS.filter(isOrigin)])]
  const trustProxy = parseHttpUrl(SERVICE_URL ?? '')?.origin === url.origin ? TRUST_PROXY : undefined
  const signal = AbortSignal.timeout(maxMilliseconds)
  const service = new ServiceClient({ url, curve: await loadCurve(), signal })
  // A service that does not answer is reported below.
  await service.discover().catch(() => undefined)
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
  const checkPages = pages.flatMap((origin) => pageChecks.map((check) => () => check(service, origin)))
  return runChecks(
    async () => [
      createHttpFinding({ url, usesCookies: await service.usesCookies().catch(() => false) }, 'SERVICE_URL')
    ],
    async () => [checkRealm(readRealm(await service.refusedLogout()) ?? '', url)],
    async () => checkProxy(first, url, trustProxy),
    () => checkClock(service),
    () => checkNonces(service),
    () => checkMetadata(service),
    () => checkReadiness(service),
    () => checkEncodedSlash(service),
    async () => [await checkIpfsPort(url.hostname)],
    ...checkPages
  )
}

/** Compares the clock of the service with that of this machine. */
async function checkClock(service: ServiceClient): Promise<Findings> {
  const askedAt = Date.now()
  const { headers } = await service.requestChallenge()
  const nowMilliseconds = (askedAt + Date.now()) / 2
  // The header contains whole seconds.
  const date = Date.parse(headers.get('date') ?? '') + 500
  const skew = Math.round(Math.abs(date - nowMilliseconds) / 1_000)
  const problem = `The clock of the service differs by ${skew} s from the clock of this machine`
  return [skew > NOT_BEFORE_TOLERANCE_SECONDS && change('clock', problem, CLOCK_REMEDY)]
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

/** Checks `/ready` of a server. Other services need not have this route. */
async function checkReadiness(service: ServiceClient): Promise<Findings> {
  const { status, json } = await service.send('GET', '/ready')
  const { status: state, dependencies, reasons } = json
  if (!isObject(dependencies)) return []
  const failed = Object.entries(dependencies).filter(([, result]) => result !== 'ok' && result !== 'none')
  const findings = failed.map(([name, result]) => {
    const reason = readField(reasons, name)
    const detail = typeof reason === 'string' ? `, ${reason}` : ''
    const problem = `/ready answers ${status}: ${name} is ${String(result)}${detail}`
    const remedy = (remedies as Readonly<Record<string, string>>)[name] ?? 'see the log of the server for the reason'
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

/** Checks that a key of the vault with `%2F` reaches it unchanged. Other services have no public lists. */
async function checkEncodedSlash(service: ServiceClient): Promise<Findings> {
  const did = 'did:example:doctor'
  const isEmptyList = async (key: string): Promise<boolean> => {
    const { status, text, headers } = await service.send('GET', `/${did}/${key}`)
    return status === 200 && text === '[]' && headers.has('etag')
  }
  if (!(await isEmptyList('doctor')) || (await isEmptyList('doctor%2Fdoctor'))) return []
  const remedy = 'let the proxy pass the path on unchanged (nginx: no path after the port in proxy_pass)'
  return [change('encoded-slash', 'A key with %2F does not reach the vault', remedy)]
}

/** Checks that OAuth clients find the token endpoint. They look at the root of the host (RFC 8414, section 3.1). */
async function checkMetadata(service: ServiceClient): Promise<Findings> {
  const { url } = service.options
  if (!service.acceptsMachines()) return []
  const path = `/.well-known/oauth-authorization-server${url.pathname.replace(/\/$/, '')}`
  const root = new ServiceClient({ ...service.options, url: new URL(url.origin) })
  const { json } = await root.send('GET', path)
  const problem = `OAuth clients find no metadata at ${url.origin}${path}`
  const remedy = `pass the path ${path} of the host on to the service`
  return [json.issuer === undefined && note('oauth-metadata', problem, remedy)]
}

async function checkNonces(service: ServiceClient): Promise<Findings> {
  const nonces = [await service.requestSiweNonce(), await service.requestSiweNonce()]
  const isRepeated = nonces[0] !== undefined && nonces[0] === nonces[1]
  const remedy = 'configure the cache in front of the service to respect Cache-Control: no-store of /siwe/nonce'
  return [isRepeated && change('siwe-nonce', 'Two requests received the same nonce', remedy)]
}

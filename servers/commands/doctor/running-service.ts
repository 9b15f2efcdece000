import { loadCurve } from 'express-did-auth'
import { challengeWindow, computeChallenge, loginMessage } from 'express-did-auth/protocol'
import { isLoopbackHost } from 'express-did-auth/server-kit'
import { reasonOfCause } from '../../config/startup-error.js'
import { describe, realmOf, ServiceUnderTest, sessionOf, type Exchange } from '../service-under-test.js'
import { addressChecks, pageChecks, type Page } from './address-checks.js'
import { newOne } from './environment.js'
import { change, examine, note, type Checks, type Finding } from './finding.js'
import { ipfsChecks, portAt } from './network.js'

/** Access tokens may be used this early, and instances may differ by as much. */
const MAX_SKEW_SECONDS = 5
const WINDOWS_SECONDS = [300, 60, 120, 600]
/** Secrets of examples, and ones that people choose. */
const GUESSES =
  ' secret challenge-secret challengeSecret password changeme change-me test dev theSuperSecret your-secret'.split(' ')
/** Headers that proxies add. */
const PROXY_HEADERS = ['via', 'x-cache', 'cf-ray', 'x-served-by', 'x-amz-cf-id']
const PROXY_SERVERS = /nginx|caddy|envoy|cloudflare|traefik|haproxy|apache|openresty|awselb/i
const NEEDED_HEADERS = ['authorization', 'content-type', 'idempotency-key']
const EXPOSED_HEADERS = ['challenge-expires-in', 'idempotent-replayed', 'retry-after', 'www-authenticate']

/** What the operator knows of a running service. */
export interface RunningService {
  url: URL
  /** Origins of the pages that use it. */
  origins: readonly string[]
  /** `TRUST_PROXY` of the environment, if that is this service's environment. */
  trustProxy?: unknown
}

/** A service that gives challenges. */
interface Examined extends RunningService {
  service: ServiceUnderTest
  /** Its first answer, and the time between question and answer. */
  first: Exchange
  nowMilliseconds: number
  /** A logout without a token: it has the realm, and clears cookies where there are any. */
  refusal: Promise<Exchange>
}

/** Asks a running service. It logs in once for each page, with a wallet made for the occasion, and logs out again. */
export async function checkService(known: RunningService): Promise<Finding[]> {
  const { url, origins } = known
  const service = new ServiceUnderTest({ url, protectedPath: '/me', curve: await loadCurve() })
  // What does not answer is found below.
  await service.discover().catch(() => undefined)
  const askedAt = Date.now()
  const answer = await askChallengeOf(service).catch(reasonOfCause)
  if (typeof answer === 'string' || typeof answer.json.challenge !== 'string')
    return examine(firstChecks, { url, answer })
  const nowMilliseconds = (askedAt + Date.now()) / 2
  const refusal = service.post(service.paths.logout, {})
  const { setCookies } = await refusal.catch(() => answer)
  const address = { url, usesCookies: setCookies.length > 0, urlVariable: 'SERVICE_URL' }
  const asked = await Promise.all([
    examine(addressChecks, address),
    examine(serviceChecks, { ...known, service, first: answer, nowMilliseconds, refusal }),
    ...origins.map((origin) => examine(askedPageChecks, pageOf(service, origin, address.usesCookies))),
    examine(ipfsChecks, portAt(url.hostname))
  ])
  return asked.flat()
}

function askChallengeOf(service: ServiceUnderTest, headers: Record<string, string> = {}): Promise<Exchange> {
  return service.askChallenge('auth', service.newUser().did, headers)
}

/** Faults of a service that issues no challenge. @param answer - or why there is none */
const firstChecks: Checks<{ url: URL; answer: Exchange | string }> = {
  unavailable: ({ url, answer }) => {
    const what = `${url.href} does not answer: ${typeof answer === 'string' ? answer : ''}`
    return change(typeof answer === 'string', what, 'HOST=0.0.0.0, or the configuration of the proxy')
  },
  'no-challenge': ({ answer }) => {
    const what = `It issues no challenge: ${typeof answer === 'string' ? '' : describe(answer)}`
    return change(typeof answer !== 'string', what, 'the URL, with the path below which it is')
  }
}

const serviceChecks: Checks<Examined> = {
  clock: ({ first, nowMilliseconds }) => {
    const date = Date.parse(first.headers.get('date') ?? '')
    // The header has whole seconds.
    const skew = Math.round(Math.abs(date + 500 - nowMilliseconds) / 1_000)
    const remedy = 'timedatectl set-ntp true (on the machine that is wrong)'
    return change(skew > MAX_SKEW_SECONDS, `Its clock is ${skew} s from that of this machine`, remedy)
  },
  'service-url': async ({ url, refusal }) => {
    const realm = realmOf(await refusal) ?? ''
    const named = URL.canParse(realm) ? new URL(realm) : url
    const isSame =
      named.host === url.host ||
      ([named, url].every(({ hostname }) => isLoopbackHost(hostname)) && named.port === url.port)
    const what = `The service calls itself ${realm}, and answers at ${url.origin}`
    return note(!isSame, what, `SERVICE_URL=${url.origin}`)
  },
  'trust-proxy': ({ first, url, trustProxy }) => {
    const sign = signOfProxy(first, url)
    const what = `A proxy is in front (${sign ?? ''})`
    if (sign === undefined || trustProxy === false) {
      return change(sign !== undefined, `${what}, and TRUST_PROXY is off`, 'TRUST_PROXY=1')
    }
    const question = `${what}: make sure that it is trusted; that cannot be checked from outside`
    return note(trustProxy === undefined, question, 'TRUST_PROXY=1')
  },
  'trust-proxy/all': ({ first, url, trustProxy = false }) => {
    const isMissing = trustProxy !== false && signOfProxy(first, url) === undefined
    return change(isMissing, 'No proxy is in front, and TRUST_PROXY is on', 'TRUST_PROXY=off')
  },
  'not-ready': async ({ service }) => {
    const { status, json } = await service.send('GET', '/ready')
    const level = status === 503 ? change : note
    return Object.entries({ ...(json.dependencies as object | undefined) }).map(([name, state]) =>
      level(state !== 'ok' && state !== 'none', `${name} is unavailable to the service`, 'its log says why')
    )
  },
  'siwe-nonce': async ({ service }) => {
    const nonce = await service.siweNonce()
    const isCached = nonce !== undefined && nonce === (await service.siweNonce())
    const remedy = 'configure the cache in front: /siwe/nonce is no-store'
    return change(isCached, 'Two requests received the same nonce', remedy)
  },
  // A deterministic challenge tells whether a guess is the secret.
  'weak-secret': async ({ service }) => {
    const { curve } = service.options
    const { did } = service.newUser()
    const { json, headers } = await service.post(service.paths.requestAuth, { did })
    const secondsLeft = Number(headers.get('challenge-expires-in') ?? 0)
    const nowSeconds = Math.floor(Date.now() / 1_000)
    const current = WINDOWS_SECONDS.filter((seconds) => secondsLeft <= seconds).map((seconds) =>
      challengeWindow(nowSeconds, seconds)
    )
    const windows = current.flatMap((window) => [window - 1, window, window + 1])
    const isGuessed = GUESSES.some((secret) =>
      windows.some((window) => computeChallenge(curve, { did, secret, window, useCount: 0 }) === json.challenge)
    )
    return change(isGuessed, 'CHALLENGE_SECRET was guessed', newOne('CHALLENGE_SECRET'))
  }
}

/** By what a proxy shows. */
function signOfProxy({ headers }: Exchange, { protocol }: URL): string | undefined {
  const seen = PROXY_HEADERS.find((name) => headers.has(name))
  const byServer = PROXY_SERVERS.test(headers.get('server') ?? '') ? 'server' : undefined
  const header = seen ?? byServer
  if (header !== undefined) return `the header ${header}`
  return protocol === 'https:' ? 'https' : undefined
}

/** A page of a running service, with what the service answers to it. */
interface AskedPage extends Page {
  service: ServiceUnderTest
  /** A challenge, asked for from the page. */
  answer: Promise<Exchange>
}

function pageOf(service: ServiceUnderTest, origin: string, usesCookies: boolean): AskedPage {
  const answer = askChallengeOf(service, { Origin: origin })
  // Awaited by the checks, which may come later.
  answer.catch(() => undefined)
  const { url } = service.options
  return {
    service,
    answer,
    origin,
    url,
    usesCookies,
    isTrusted: async () => origin === url.origin || (await answer).status !== 403,
    isLoginDomain: () => logsIn(service, new URL(origin).host),
    lines: {
      trustedOrigins: `trustedOrigins: ['${origin}'], or TRUSTED_ORIGINS=${origin}`,
      loginDomains: `LOGIN_DOMAINS=${new URL(origin).host}`
    }
  }
}

/** Whether a signature for a domain is accepted. Other refusals say nothing about the domain. */
async function logsIn(service: ServiceUnderTest, domain: string): Promise<boolean> {
  const user = service.newUser()
  const sig = user.sign(loginMessage(domain, await service.challenge('auth', user.did)))
  const accept = { Accept: 'application/problem+json' }
  const answer = await service.post(service.paths.auth, { did: user.did, sig }, accept)
  const session = sessionOf(user, answer)
  if (session !== undefined) await service.logOut(session)
  return !/^ERR_(?:SIGNATURE|CHALLENGE)$/.test(String(answer.json.code))
}

const askedPageChecks: Checks<AskedPage> = {
  'siwe-domain': async ({ service, origin, lines }) => {
    const user = service.newUser()
    const proof = await service.siweProof(user, { domain: new URL(origin).host })
    const answer = await service.post('/siwe/verify', proof, { Accept: 'application/problem+json' })
    const session = sessionOf(user, answer)
    if (session !== undefined) await service.logOut(session)
    const isForeign = answer.json.code === 'ERR_MESSAGE_DOMAIN'
    return note(isForeign, `EIP-4361 messages of ${origin} are refused`, lines.trustedOrigins)
  },
  /** What a browser refuses to the scripts of a page. */
  cors: async ({ service, answer, origin, url, usesCookies }) => {
    if (origin === url.origin) return undefined
    const asked = { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': NEEDED_HEADERS.join() }
    const headers = { Origin: origin, ...asked }
    const [preflight, posted] = [await service.send('OPTIONS', service.paths.refreshToken, { headers }), await answer]
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
    return [...new Set(problems)].map((problem) => change(problem !== '', `A page of ${origin} ${problem}`, remedy))
  },
  ...pageChecks
}

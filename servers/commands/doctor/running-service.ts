import { loadCurve, type Curve } from 'express-did-auth'
import { challengeWindow, computeChallenge } from 'express-did-auth/protocol'
import { ownCommand } from '../../config/own-command.js'
import { reasonOf } from '../../config/startup-error.js'
import { describe, ServiceUnderTest, type Exchange } from '../conformance/service.js'
import { insecure } from './environment.js'
import { finding, isLoopback, type Finding } from './finding.js'
import { checkIpfsPort } from './network.js'
import { checkPage } from './pages.js'

/** Access tokens may be used this early, and instances may differ by as much. */
const MAX_SKEW_SECONDS = 5
const DEFAULT_WINDOW_SECONDS = 300
/** What stands in examples, and what people type. */
const GUESSES = [
  'secret',
  'challenge-secret',
  'challengeSecret',
  'password',
  'changeme',
  'change-me',
  'test',
  'dev',
  'theSuperSecret',
  'your-secret',
  ''
]
/** Headers that proxies add. */
const PROXY_HEADERS = ['via', 'x-cache', 'cf-ray', 'x-served-by', 'x-amz-cf-id']
const PROXY_SERVERS = /nginx|caddy|envoy|cloudflare|traefik|haproxy|apache|openresty|awselb/i

/** What the operator knows of a running service. */
export interface RunningService {
  url: URL
  /** Origins of the pages that use it. */
  origins: readonly string[]
  /** Of the environment, where it is that of this service. */
  trustProxy?: unknown
}

/** Asks a running service. It logs in once for each page, with a wallet made for the occasion, and logs out again. */
export async function checkService({ url, origins, trustProxy }: RunningService): Promise<Finding[]> {
  const curve = await loadCurve()
  const service = new ServiceUnderTest({ url, protectedPath: '/me', curve })
  let first: Exchange
  const askedAt = Date.now()
  try {
    first = await service.post(service.paths.requestAuth, { did: service.newUser().did })
  } catch (error) {
    const why = 'Users cannot reach it either, or only from elsewhere.'
    const change = 'HOST=0.0.0.0, or the configuration of the proxy'
    return [finding('unavailable', 'change', `${url.href} does not answer: ${reasonIn(error)}`, why, change)]
  }
  const answeredAt = Date.now()
  if (typeof first.json.challenge !== 'string') return [noService(first)]
  const unanswered: Finding[] = []
  const orUnanswered = <T>(work: Promise<T>, otherwise: T): Promise<T> =>
    work.catch((error: unknown) => {
      unanswered.push(noAnswer(error))
      return otherwise
    })
  // The first answer has neither realm nor cookies.
  const refusal = await orUnanswered(service.post(service.paths.logout, {}), first)
  const usesCookies = refusal.setCookies.length > 0
  const pages = origins.map((origin) => orUnanswered(checkPage(service, origin, usesCookies), []))
  return [
    ...clockFindings(first, (askedAt + answeredAt) / 2),
    ...(url.protocol === 'http:' && !isLoopback(url)
      ? [insecure(url, usesCookies, `SERVICE_URL=https://${url.host}`)]
      : []),
    ...realmFindings(refusal, url),
    ...proxyFindings(first, url, trustProxy),
    ...(await orUnanswered(readyFindings(service), [])),
    ...(await orUnanswered(secretFindings(service, curve), [])),
    ...(await Promise.all(pages)).flat(),
    ...(await checkIpfsPort(url.hostname)),
    ...unanswered
  ]
}

function noService(first: Exchange): Finding {
  const what = `It gives no challenge: ${describe(first)}`
  return finding(
    'no-challenge',
    'change',
    what,
    'No user can log in there.',
    'the URL, with the path below which it is'
  )
}

function noAnswer(error: unknown): Finding {
  const why = 'It answered before. Users meet this as well, and the checks that asked are left out here.'
  const what = `A request was not answered: ${reasonIn(error)}`
  return finding('unanswered', 'change', what, why, 'its log, or that of the proxy, says why')
}

function reasonIn(error: unknown): string {
  return reasonOf(error instanceof Error ? (error.cause ?? error) : error)
}

function clockFindings({ headers }: Exchange, nowMilliseconds: number): Finding[] {
  const date = Date.parse(headers.get('date') ?? '')
  // The header has whole seconds.
  const skew = Math.round(Math.abs(date + 500 - nowMilliseconds) / 1_000)
  if (Number.isNaN(date) || skew <= MAX_SKEW_SECONDS) return []
  const why = 'Tokens would be refused as not yet good or as expired by other services and instances.'
  return [
    finding(
      'clock',
      'change',
      `Its clock is ${skew} s from that of this machine`,
      why,
      'timedatectl set-ntp true (on the machine that is wrong)'
    )
  ]
}

function realmFindings({ headers }: Exchange, url: URL): Finding[] {
  const realm = /realm="([^"]+)"/.exec(headers.get('www-authenticate') ?? '')?.[1]
  if (realm === undefined || !URL.canParse(realm)) return []
  const named = new URL(realm)
  if (named.host === url.host || (isLoopback(named) && isLoopback(url) && named.port === url.port)) return []
  const why = 'It is the audience of all tokens, and its host is the domain that users sign.'
  return [
    finding(
      'service-url',
      'note',
      `The service calls itself ${realm}, and answers at ${url.origin}`,
      why,
      `SERVICE_URL=${url.origin}`
    )
  ]
}

function proxyFindings({ headers }: Exchange, { protocol }: URL, trustProxy: unknown): Finding[] {
  const seen =
    PROXY_HEADERS.find((name) => headers.has(name)) ??
    (PROXY_SERVERS.test(headers.get('server') ?? '') ? 'server' : undefined)
  const isBehindProxy = seen !== undefined || protocol === 'https:'
  const sign = seen === undefined ? 'https' : `the header ${seen}`
  if (isBehindProxy && trustProxy === false) {
    const why = 'All users share the address of the proxy, and with it one budget of requests.'
    return [
      finding('trust-proxy', 'change', `A proxy is in front (${sign}), and TRUST_PROXY is off`, why, 'TRUST_PROXY=1')
    ]
  }
  if (!isBehindProxy && trustProxy !== undefined && trustProxy !== false) {
    const why = 'Every client chooses its own address in X-Forwarded-For, and escapes the limits.'
    return [finding('trust-proxy', 'change', 'No proxy is in front, and TRUST_PROXY is on', why, 'TRUST_PROXY=off')]
  }
  if (!isBehindProxy || trustProxy !== undefined) return []
  const why = 'Without it, all users share the address of the proxy. From outside it cannot be seen.'
  return [finding('trust-proxy', 'note', `A proxy is in front (${sign}): see that it is trusted`, why, 'TRUST_PROXY=1')]
}

async function readyFindings(service: ServiceUnderTest): Promise<Finding[]> {
  const { status, json } = await service.send('GET', '/ready')
  const states = Object.entries(typeof json.dependencies === 'object' ? { ...json.dependencies } : {})
  return states.flatMap(([name, state]) => {
    if (state === 'ok' || state === 'none') return []
    const why = status === 503 ? 'The service says that it is not ready.' : 'The service works without it for now.'
    return [
      finding(
        'not-ready',
        status === 503 ? 'change' : 'note',
        `${name} is unavailable to the service`,
        why,
        'its log says why'
      )
    ]
  })
}

/** A deterministic challenge tells whether a guess is the secret. */
async function secretFindings(service: ServiceUnderTest, curve: Curve): Promise<Finding[]> {
  const { did } = service.newUser()
  const { json, headers } = await service.post(service.paths.requestAuth, { did })
  const secondsLeft = Number(headers.get('challenge-expires-in') ?? 0)
  const nowSeconds = Math.floor(Date.now() / 1_000)
  const windows = [DEFAULT_WINDOW_SECONDS, 60, 120, 600].flatMap((seconds) => {
    const window = challengeWindow(nowSeconds, seconds)
    return secondsLeft > seconds ? [] : [window - 1, window, window + 1]
  })
  const isGuessed = GUESSES.some((secret) =>
    windows.some((window) => computeChallenge(curve, { did, secret, window, useCount: 0 }) === json.challenge)
  )
  if (!isGuessed) return []
  const why = 'An attacker who guesses it computes every challenge.'
  return [
    finding(
      'weak-secret',
      'change',
      'CHALLENGE_SECRET was guessed',
      why,
      `CHALLENGE_SECRET=… (\`${ownCommand('keys new')}\` makes one)`
    )
  ]
}

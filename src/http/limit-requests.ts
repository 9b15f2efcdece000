import { isIP } from 'node:net'
import type { Request } from 'express'
import type { Settings } from '../config.js'
import { DidAuthError } from '../errors.js'
import type { Clock, Logger, QuotaCharge, Store } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'

/** The longest spelling of an IPv6 address. Behind a trusted proxy `req.ip` is whatever a header said. */
const MAX_ADDRESS_LENGTH = 45

/** How much larger the budget of those is who merely name a DID: it is counted per client address as well. */
const NAMING_FACTOR = 10

/** The two limits of requests. */
export interface RequestLimits {
  /** Counts a request of a user who is authenticated. @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE */
  chargeUser(did: string): Promise<void>
  /** Counts a request that names a DID without proof. @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE */
  chargeNaming(req: Request, did: string): Promise<void>
  /** Asserts that such a request would be in budget, counting nothing. @throws as `chargeNaming` */
  assertNaming(req: Request, did: string): Promise<void>
}

interface LimitParts {
  settings: Pick<Settings, 'serviceUrl' | 'maxRequestsPerTimeSlot' | 'timeSlotSeconds'>
  store: Pick<Store, 'chargeQuota'>
  clock: Clock
  logger: Logger
}

/**
 * Makes the limits: a user's own quota, which a stranger cannot use up, and a budget per DID and client address for
 * those who only name a DID, so that nobody can lock another out.
 */
export function requestLimits({ settings, store, clock, logger }: LimitParts): RequestLimits {
  const { serviceUrl, maxRequestsPerTimeSlot, timeSlotSeconds } = settings
  let warnedOfProxy = false

  const charge = async (kind: QuotaCharge['kind'], key: string, cost: 0 | 1, limit: number): Promise<void> => {
    const nowSeconds = clock.nowSeconds()
    const state = await store.chargeQuota({ service: serviceUrl, kind, key, cost, nowSeconds, timeSlotSeconds })
    if (state.count + 1 - cost <= limit) return
    throw new DidAuthError('ERR_TOO_MANY_REQUESTS', {
      retryAfterSeconds: Math.max(1, state.resetsAtSeconds - nowSeconds)
    })
  }

  const charged = (req: Request, did: string, cost: 0 | 1): Promise<void> => {
    if (!warnedOfProxy && req.headers['x-forwarded-for'] !== undefined && !isProxyTrusted(req)) {
      warnedOfProxy = true
      const message = "X-Forwarded-For seen, but the app's `trust proxy` is off: all callers share one address"
      logger.warn({ event: 'trust-proxy-off' }, message)
    }
    const key = `${canonicalDid(did)} ${clientNetwork(req.ip ?? '')}`
    return charge('naming', key, cost, maxRequestsPerTimeSlot * NAMING_FACTOR)
  }

  return {
    chargeUser: (did) => charge('request', canonicalDid(did), 1, maxRequestsPerTimeSlot),
    chargeNaming: (req, did) => charged(req, did, 1),
    assertNaming: (req, did) => charged(req, did, 0)
  }
}

function isProxyTrusted(req: Request): boolean {
  const setting: unknown = req.app.get('trust proxy')
  return setting !== undefined && setting !== false && setting !== 0
}

/**
 * The network that a client address stands for: an IPv4 address itself, an IPv6 address its /64, of which one customer
 * has all.
 */
export function clientNetwork(address: string): string {
  const ipv4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (ipv4 !== undefined || isIP(address) !== 6) return ipv4 ?? address.slice(0, MAX_ADDRESS_LENGTH)
  const [head = '', tail = ''] = (address.split('%')[0] ?? '').toLowerCase().split('::')
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'))
  const missing = address.includes('::') ? 8 - groups(head).length - groups(tail).length : 0
  const all = [...groups(head), ...Array<string>(Math.max(0, missing)).fill('0'), ...groups(tail)]
  return `${all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`
}

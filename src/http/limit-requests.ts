import { isIP } from 'node:net'
import type { Request } from 'express'
import type { Settings } from '../config.js'
import { DidAuthError } from '../errors.js'
import type { Clock, Logger, QuotaCharge, Store } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'

/** The longest spelling of an IPv6 address. Behind a trusted proxy `req.ip` is whatever a header said. */
const MAX_ADDRESS_LENGTH = 45

const WITH_PORT = /^(?:\[([^\]]*)\](?::\d+)?|(\d+(?:\.\d+){3}):\d+)$/
const MAPPED_IPV4 = /^ffff:([0-9a-f]+):([0-9a-f]+)$/

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
 * has all. A port behind it, as some proxies write into X-Forwarded-For, does not count.
 */
export function clientNetwork(received: string): string {
  const address = withoutPort(received)
  if (isIP(address) !== 6) return address.slice(0, MAX_ADDRESS_LENGTH)
  // One spelling of the many: lower case, no zeros in front, IPv4 at the end in hexadecimal. It knows no zones.
  const [head = '', tail = ''] = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1).split('::')
  const ipv4 = head === '' ? MAPPED_IPV4.exec(tail) : null
  if (ipv4 !== null) return ipv4.slice(1).flatMap(bytesOf).join('.')
  const groups = head === '' ? [] : head.split(':')
  const behind = tail === '' ? [] : tail.split(':')
  while (groups.length + behind.length < 8) groups.push('0')
  return `${[...groups, ...behind].slice(0, 4).join(':')}::/64`
}

function withoutPort(address: string): string {
  const [, ipv6, ipv4] = WITH_PORT.exec(address) ?? []
  return ipv6 ?? ipv4 ?? address
}

function bytesOf(group: string): number[] {
  const value = parseInt(group, 16)
  return [value >> 8, value & 0xff]
}

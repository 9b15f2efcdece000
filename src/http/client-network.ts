import { isIP } from 'node:net'
import { findIpv6Site } from '../client-site.js'
import { toIdField } from '../error-answer.js'
import type { Caller } from '../flows/limits.js'
import type { HttpRequest } from '../http-messages.js'
import type { Client, DescribeSession, Logger } from '../ports.js'
import { toSessionDescription } from '../protocol/session.js'

/** Length of the longest IPv6 address. Behind a trusted proxy, an address can be any text of a header. */
const MAX_ADDRESS_LENGTH = 45

const WITH_PORT = /^(?:\[([^\]]*)\](?::\d+)?|(\d+(?:\.\d+){3}):\d+)$/

/** The first 96 bits of addresses that end with one of IPv4: mapped (RFC 4291), translated by a gateway (RFC 6052). */
const IPV4_PREFIXES: ReadonlySet<string> = new Set(['0:0:0:0:0:ffff', '64:ff9b:0:0:0:0'])

const FEW_TRUSTED = { event: 'trust-proxy-few' }

/** Factor by which the budget of a /48 is larger than that of a /64: a /48 may belong to one customer or to many. */
const SITE_FACTOR = 16

/** Whether a text is an IP address, with or without a port. Other texts tell no client from another. */
export function isClientAddress(received: string): boolean {
  const [, ipv6, ipv4] = WITH_PORT.exec(received) ?? []
  return isIP(ipv6 ?? ipv4 ?? received) !== 0
}

/** Returns the client of a request. */
export function createClient(request: Pick<HttpRequest, 'clientAddress' | 'isGone'>): Client {
  return { network: computeClientNetwork(request.clientAddress ?? ''), isGone: request.isGone }
}

/**
 * Creates the function that identifies the sender of a request. It warns once each: of a proxy that is not trusted, of
 * more proxies than are trusted, and of a client whose address is unknown.
 */
export function createCallerFinder(
  trustedOrigins: ReadonlySet<string>,
  logger: Logger,
  describeSession?: DescribeSession
): (request: HttpRequest) => Caller {
  const warned = new Set<string>()
  const warnOnce = (request: HttpRequest, { event }: { event: string }, message: string): void => {
    if (warned.has(event)) return
    warned.add(event)
    logger.warn({ event, ...toIdField(request.id) }, message)
  }
  return (request) => {
    const { unknownProxy } = request
    const isShared = unknownProxy !== undefined
    const client = createClient(request)
    if (isShared) warnOnce(request, { event: 'trust-proxy-off' }, unknownProxy)
    // The address of the header is computed only until the warning.
    if (!warned.has(FEW_TRUSTED.event) && request.hasUntrustedProxies === true) {
      const message = "X-Forwarded-For has more entries than the app's `trust proxy` covers"
      warnOnce(
        request,
        FEW_TRUSTED,
        `${message}: if your proxies sent them, raise it, because all callers share one address`
      )
    }
    const isUnknown = request.clientAddress === undefined
    if (isUnknown) {
      const message = 'clientAddress is no IP address: budgets of client networks are not applied'
      warnOnce(request, { event: 'client-address-unknown' }, message)
    } else if (!isClientAddress(request.clientAddress) && !request.isGone()) {
      const message =
        'a request has no IP address, as on a Unix socket without X-Forwarded-For: such callers share one budget'
      warnOnce(request, { event: 'client-address-unknown' }, message)
    }
    const networks = listCountedNetworks(client.network, isForeignPage(request, trustedOrigins) ? ' foreign' : '')
    const describe = describeSession && (() => describeClient(describeSession, request, logger))
    return { ...client, networks, isShared, isUnknown, describe }
  }
}

/** Describes the client of a request by the application's function. A failure is logged, and refuses no login. */
function describeClient(describe: DescribeSession, request: HttpRequest, logger: Logger): string | undefined {
  try {
    // Callers in JavaScript may return any value.
    const description = describe({ headers: request.headers }) as unknown
    if (description === undefined || description === null) return undefined
    if (typeof description === 'string') return toSessionDescription(description)
    // The rejection of an async function must not end the process.
    Promise.resolve(description).catch(() => undefined)
  } catch {
    // The cause is not logged, because it may quote a header.
  }
  logger.error(
    { event: 'session-description-failed', ...toIdField(request.id) },
    'describeSession threw, or returned no text'
  )
  return undefined
}

/** Whether an image, a form or a script of another site made a browser send it. @see Fetch Metadata Request Headers */
export function isForeignPage({ headers }: Pick<HttpRequest, 'headers'>, trustedOrigins: ReadonlySet<string>): boolean {
  const site = headers['sec-fetch-site']
  if (site !== 'cross-site' && site !== 'same-site') return false
  return headers.origin === undefined || !trustedOrigins.has(headers.origin)
}

/**
 * Computes the network of a client address: an IPv4 address itself, or the /64 of an IPv6 address, which belongs to one
 * customer. A port after the address, which some proxies write into X-Forwarded-For, does not count.
 */
export function computeClientNetwork(received: string): string {
  const [, ipv6, ipv4] = WITH_PORT.exec(received) ?? []
  const address = ipv6 ?? ipv4 ?? received
  if (isIP(address) !== 6) return address.slice(0, MAX_ADDRESS_LENGTH)
  // WHATWG URLs normalise the address: lower case, no leading zeros, embedded IPv4 in hexadecimal. They refuse zones.
  const [head = '', tail = ''] = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1).split('::')
  const groups = head === '' ? [] : head.split(':')
  const lastGroups = tail === '' ? [] : tail.split(':')
  while (groups.length + lastGroups.length < 8) groups.push('0')
  groups.push(...lastGroups)
  if (IPV4_PREFIXES.has(groups.slice(0, 6).join(':'))) return groups.slice(6).flatMap(parseGroup).join('.')
  return `${groups.slice(0, 4).join(':')}::/64`
}

function listCountedNetworks(network: string, suffix: string): Caller['networks'] {
  const smallest = { network: network + suffix, factor: 1 }
  const site = network.includes(':') ? findIpv6Site(network) : undefined
  return site === undefined ? [smallest] : [smallest, { network: site + suffix, factor: SITE_FACTOR }]
}

function parseGroup(group: string): number[] {
  const value = parseInt(group, 16)
  return [value >> 8, value & 0xff]
}

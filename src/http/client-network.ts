import { isIP } from 'node:net'
import type { Request, RequestHandler } from 'express'
import { findIpv6Site } from '../client-site.js'
import { runAsClient } from '../current-request.js'
import type { Caller } from '../flows/limits.js'
import type { Client, Logger } from '../ports.js'

/** Length of the longest IPv6 address. Behind a trusted proxy, `req.ip` can be any text of a header. */
const MAX_ADDRESS_LENGTH = 45

const WITH_PORT = /^(?:\[([^\]]*)\](?::\d+)?|(\d+(?:\.\d+){3}):\d+)$/

/** The first 96 bits of addresses that end with one of IPv4: mapped (RFC 4291), translated by a gateway (RFC 6052). */
const IPV4_PREFIXES: ReadonlySet<string> = new Set(['0:0:0:0:0:ffff', '64:ff9b:0:0:0:0'])

/** Factor by which the budget of a /48 is larger than that of a /64: one customer may have it all, or share it. */
const SITE_FACTOR = 16

/** Creates the client of a request, by the application's own `trust proxy`. */
export function createClient(req: Request): Client {
  return { network: computeClientNetwork(req.ip ?? ''), isGone: () => req.socket.destroyed }
}

/**
 * A middleware: all that comes behind it works for the client that sent the request, so that a store whose connections
 * are in use serves client networks in turn. `setupDidAuth` has it; it is for servers that use a store without.
 */
export const handleAsClient: RequestHandler = (req, _res, next) => runAsClient(() => createClient(req), next)

/** Makes the function that tells who sent a request. It warns once of a proxy that the application does not trust. */
export function createCallerFinder(trustedOrigins: ReadonlySet<string>, logger: Logger): (req: Request) => Caller {
  let hasWarned = false
  return (req) => {
    const isShared = isBehindUnknownProxy(req)
    if (isShared && !hasWarned) {
      hasWarned = true
      const message = "X-Forwarded-For seen, but the app's `trust proxy` is off: all callers share one address"
      logger.warn({ event: 'trust-proxy-off' }, message)
    }
    const client = createClient(req)
    const networks = listCountedNetworks(client.network, isForeignPage(req, trustedOrigins) ? ' foreign' : '')
    return { ...client, networks, isShared }
  }
}

/** Whether an image, a form or a script of another site made a browser send it. @see Fetch Metadata Request Headers */
export function isForeignPage({ headers }: Request, trustedOrigins: ReadonlySet<string>): boolean {
  const site = headers['sec-fetch-site']
  if (site !== 'cross-site' && site !== 'same-site') return false
  return headers.origin === undefined || !trustedOrigins.has(headers.origin)
}

/** Whether a proxy is in front that the application does not trust: then all clients share its address. */
function isBehindUnknownProxy(req: Request): boolean {
  if (req.headers['x-forwarded-for'] === undefined) return false
  const setting: unknown = req.app.get('trust proxy')
  return setting === undefined || setting === false || setting === 0
}

/**
 * The network of a client address: an IPv4 address itself, an IPv6 address its /64, of which one customer
 * has all. A port behind it, as some proxies write into X-Forwarded-For, does not count.
 */
export function computeClientNetwork(received: string): string {
  const [, ipv6, ipv4] = WITH_PORT.exec(received) ?? []
  const address = ipv6 ?? ipv4 ?? received
  if (isIP(address) !== 6) return address.slice(0, MAX_ADDRESS_LENGTH)
  // One spelling of the many: lower case, no zeros in front, IPv4 at the end in hexadecimal. It knows no zones.
  const [head = '', tail = ''] = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1).split('::')
  const groups = head === '' ? [] : head.split(':')
  const behind = tail === '' ? [] : tail.split(':')
  while (groups.length + behind.length < 8) groups.push('0')
  groups.push(...behind)
  if (IPV4_PREFIXES.has(groups.slice(0, 6).join(':'))) return groups.slice(6).flatMap(parseGroup).join('.')
  return `${groups.slice(0, 4).join(':')}::/64`
}

function listCountedNetworks(network: string, suffix: string): Caller['networks'] {
  const own = { network: network + suffix, factor: 1 }
  const site = findIpv6Site(network)
  return site === undefined ? [own] : [own, { network: site + suffix, factor: SITE_FACTOR }]
}

function parseGroup(group: string): number[] {
  const value = parseInt(group, 16)
  return [value >> 8, value & 0xff]
}

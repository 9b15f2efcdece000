import { isIP } from 'node:net'
import type { Request } from 'express'
import type { Client } from '../ports.js'

/** The longest spelling of an IPv6 address. Behind a trusted proxy `req.ip` can be any text of a header. */
const MAX_ADDRESS_LENGTH = 45

const WITH_PORT = /^(?:\[([^\]]*)\](?::\d+)?|(\d+(?:\.\d+){3}):\d+)$/
const MAPPED_IPV4 = /^ffff:([0-9a-f]+):([0-9a-f]+)$/

/** The client of a request, by the application's own `trust proxy`. */
export function clientOf(req: Request): Client {
  return { network: clientNetwork(req.ip ?? ''), isGone: () => req.socket.destroyed }
}

/** Whether a proxy is in front that the application does not trust: then all clients share its address. */
export function isBehindUnknownProxy(req: Request): boolean {
  if (req.headers['x-forwarded-for'] === undefined) return false
  const setting: unknown = req.app.get('trust proxy')
  return setting === undefined || setting === false || setting === 0
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

const IPV4 = /^(\d+\.\d+\.\d+)\.\d+$/
const IPV6_64 = /^([^:]+:[^:]+:[^:]+):[^:]+::\/64$/

/** Returns the /48 that contains an IPv6 client network: one customer may own all of it. Undefined for IPv4. */
export function findIpv6Site(network: string): string | undefined {
  const [, prefix] = IPV6_64.exec(network) ?? []
  return prefix && `${prefix}::/48`
}

/** Returns the site of a client network, which shares limits: the /48 of an IPv6 /64, the /24 of an IPv4 address. */
export function toSite(network: string): string {
  const [, prefix] = IPV4.exec(network) ?? []
  return findIpv6Site(network) ?? (prefix === undefined ? network : `${prefix}.0/24`)
}

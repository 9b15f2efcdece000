const IPV4 = /^(\d+\.\d+\.\d+)\.\d+$/
const IPV6_64 = /^([^:]+:[^:]+:[^:]+):[^:]+::\/64$/

/** Returns the /48 around a client network of IPv6, which one customer may have; undefined for any other. */
export function findIpv6Site(network: string): string | undefined {
  const [, prefix] = IPV6_64.exec(network) ?? []
  return prefix && `${prefix}::/48`
}

/** Returns what a client network shares scarce places with: the /48 around a /64, the /24 around an IPv4 address. */
export function toSite(network: string): string {
  const [, prefix] = IPV4.exec(network) ?? []
  return findIpv6Site(network) ?? (prefix === undefined ? network : `${prefix}.0/24`)
}

import { toSite } from '../client-site.js'

/**
 * Amounts that client networks use of something. One network may use `perNetwork`. All networks of its site (the /48 of
 * an IPv6 network, the /24 of an IPv4 address) may together use twice as much, because one client may own a site.
 */
export class NetworkShares {
  readonly #perNetwork: number
  readonly #byNetwork = new Map<string, number>()
  readonly #bySite = new Map<string, number>()

  constructor(perNetwork: number) {
    this.#perNetwork = perNetwork
  }

  /** Whether a network may use this amount in addition. @param network - a name without a site, as a DID, is its own */
  hasRoom(network: string, amount: number): boolean {
    const isNetworkFull = (this.#byNetwork.get(network) ?? 0) + amount > this.#perNetwork
    return !isNetworkFull && (this.#bySite.get(toSite(network)) ?? 0) + amount <= 2 * this.#perNetwork
  }

  /** Adds to the amount of a network, or subtracts from it. */
  add(network: string, amount: number): void {
    addTo(this.#byNetwork, network, amount)
    addTo(this.#bySite, toSite(network), amount)
  }
}

function addTo(amounts: Map<string, number>, key: string, amount: number): void {
  const total = (amounts.get(key) ?? 0) + amount
  if (total > 0) amounts.set(key, total)
  else amounts.delete(key)
}

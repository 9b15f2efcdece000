import { DidAuthError } from '../errors.js'
import type { Client, SignatureCache } from '../ports.js'
import { ExpiringCache } from '../caches.js'
import { toSite } from '../client-site.js'

/** Largest part of the requests in flight that the clients of one site may start: a quarter. */
const SITE_SHARE = 1 / 4

/**
 * Creates a function that sends requests to a remote party, and shares them in flight: equal ones are sent once. It
 * rejects with ERR_BUSY beyond `max` requests, of which one client network may start `maxPerNetwork`, and its site (/48
 * or /24) a quarter. Of the second half each site gets one, so that a few dozen addresses leave places for others.
 */
export function limitInFlightRequests<T>({ max, maxPerNetwork }: { max: number; maxPerNetwork: number }) {
  const byKey = new Map<string, { response: Promise<T>; network: string; site: string }>()
  return (key: string, { network }: Client, send: () => Promise<T>): Promise<T> => {
    const known = byKey.get(key)
    if (known !== undefined) return known.response
    const site = toSite(network)
    const fromSite = [...byKey.values()].filter((one) => one.site === site)
    const fromNetwork = fromSite.filter((one) => one.network === network)
    const siteLimit = byKey.size < max / 2 ? Math.floor(max * SITE_SHARE) : 1
    if (byKey.size >= max || fromNetwork.length >= maxPerNetwork || fromSite.length >= siteLimit) {
      return Promise.reject(new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 }))
    }
    const response = send().finally(() => byKey.delete(key))
    byKey.set(key, { response, network, site })
    return response
  }
}

/** Signed texts that are remembered, of about 1 KB each. */
const MAX_REMEMBERED = 5_000
/** A signer may be remote, and each signature may cost money. */
const SIGNATURES = { max: 200, maxPerNetwork: 20 }

/** Remembers signed texts in this process's memory. Equal ones that are requested at the same time are signed once. */
export function createSignatureCache(lifetimeSeconds: number): SignatureCache {
  const signed = new ExpiringCache<string>({ lifetimeSeconds, maxEntries: MAX_REMEMBERED })
  const share = limitInFlightRequests<string>(SIGNATURES)
  return {
    async signOnce(key, client, nowSeconds, sign) {
      const known = signed.get(key, nowSeconds)
      if (known !== undefined) return known.value
      return share(key, client, async () => {
        const text = await sign()
        signed.set(key, text, nowSeconds)
        return text
      })
    }
  }
}

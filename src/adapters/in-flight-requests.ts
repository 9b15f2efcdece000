import { DidAuthError } from '../errors.js'
import type { Client, SignatureCache } from '../ports.js'
import { ExpiringCache } from '../caches.js'
import { toSite } from '../client-site.js'
import { createSingleFlight } from '../lazy.js'

/** Maximum part of the requests in flight that the clients of one site may start. */
const SITE_SHARE = 1 / 4

/**
 * Creates a function that sends requests to a remote service and limits those in flight. Requests with the same key
 * share one in flight. At most `max` are in flight: `maxPerNetwork` per client network, and a quarter per site (/48 or
 * /24). If half of them are in use, each site may start only one, so that a few dozen addresses cannot block others.
 * The function rejects with ERR_BUSY beyond a limit. It is not a `ConcurrencyLimiter`, because it also counts sites,
 * and requests that may take seconds are refused instead of queued.
 */
export function limitInFlightRequests<T>({ max, maxPerNetwork }: { max: number; maxPerNetwork: number }) {
  const inFlight = new Set<{ network: string; site: string }>()
  const sendOnce = createSingleFlight<T>()
  const sendWithinLimits = (network: string, send: () => Promise<T>): Promise<T> => {
    const site = toSite(network)
    const fromSite = [...inFlight].filter((request) => request.site === site)
    const fromNetwork = fromSite.filter((request) => request.network === network)
    const siteLimit = inFlight.size < max / 2 ? Math.floor(max * SITE_SHARE) : 1
    if (inFlight.size >= max || fromNetwork.length >= maxPerNetwork || fromSite.length >= siteLimit) {
      // Thrown and not rejected, so that no other client shares this refusal.
      throw new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
    }
    const [request, response] = [{ network, site }, send()]
    inFlight.add(request)
    return response.finally(() => inFlight.delete(request))
  }
  return async (key: string, { network }: Client, send: () => Promise<T>): Promise<T> =>
    sendOnce(() => sendWithinLimits(network, send), key)
}

/** Maximum number of cached texts, of about 1 KB each. */
const MAX_CACHED_TEXTS = 5_000
/** Limits of signatures in flight: a signer may be remote, and each signature may cost money. */
const SIGNATURES = { max: 200, maxPerNetwork: 20 }

/** Creates a cache of signed texts in memory. Simultaneous requests with the same key share one signature. */
export function createSignatureCache(lifetimeSeconds: number): SignatureCache {
  const signed = new ExpiringCache<string>({ lifetimeSeconds, maxEntries: MAX_CACHED_TEXTS })
  const share = limitInFlightRequests<string>(SIGNATURES)
  return {
    async signOnce(key, client, nowSeconds, sign) {
      const cachedText = signed.get(key, nowSeconds)
      if (cachedText !== undefined) return cachedText.value
      return share(key, client, async () => {
        const text = await sign()
        signed.set(key, text, nowSeconds)
        return text
      })
    }
  }
}

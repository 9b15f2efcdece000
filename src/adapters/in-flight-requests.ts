import { DidAuthError } from '../errors.js'
import type { Client, SignatureCache } from '../ports.js'
import { ExpiringCache } from '../caches.js'

interface InFlightBounds {
  /** Requests in flight at once. */
  max: number
  /** Of these, how many one client network may have started. */
  maxPerNetwork: number
}

/** Requests to a remote party, shared in flight: equal ones are sent once, and their number is bounded. */
export class InFlightRequests<T> {
  readonly #bounds: InFlightBounds
  readonly #byKey = new Map<string, { response: Promise<T>; network: string }>()

  constructor(bounds: InFlightBounds) {
    this.#bounds = bounds
  }

  /** The response to the request `key`: of the one in flight, or of a new one. @throws DidAuthError ERR_BUSY */
  share(key: string, { network }: Client, send: () => Promise<T>): Promise<T> {
    const known = this.#byKey.get(key)
    if (known !== undefined) return known.response
    const { max, maxPerNetwork } = this.#bounds
    const ofNetwork = [...this.#byKey.values()].filter((one) => one.network === network)
    if (this.#byKey.size >= max || ofNetwork.length >= maxPerNetwork) {
      return Promise.reject(new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 }))
    }
    const response = send().finally(() => this.#byKey.delete(key))
    this.#byKey.set(key, { response, network })
    return response
  }
}

/** Signed texts that are remembered, of about 1 KB each. */
const MAX_REMEMBERED = 5_000
/** A signer may be remote, and each signature may cost money. */
const SIGNATURES = { max: 200, maxPerNetwork: 20 }

/** Remembers signed texts in this process's memory. Equal ones that are requested at the same time are signed once. */
export class MemorySignatureCache implements SignatureCache {
  readonly #signed: ExpiringCache<string>
  readonly #inFlight = new InFlightRequests<string>(SIGNATURES)

  constructor(lifetimeSeconds: number) {
    this.#signed = new ExpiringCache({ lifetimeSeconds, maxEntries: MAX_REMEMBERED })
  }

  async signOnce(key: string, client: Client, nowSeconds: number, sign: () => Promise<string>): Promise<string> {
    const known = this.#signed.get(key, nowSeconds)
    if (known !== undefined) return known.value
    return this.#inFlight.share(key, client, async () => {
      const text = await sign()
      this.#signed.set(key, text, nowSeconds)
      return text
    })
  }
}

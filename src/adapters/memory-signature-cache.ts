import type { Client, SignatureCache } from '../ports.js'
import { ExpiringCache } from './expiring-cache.js'
import { InFlightRequests } from './in-flight-requests.js'

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

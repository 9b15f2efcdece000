import { DidAuthError } from '../errors.js'
import type { Client, SignatureCache } from '../ports.js'
import { ExpiringCache } from './caches.js'

const CHECK_MILLISECONDS = 250

interface InFlightBounds {
  /** Requests in flight at once. */
  max: number
  /** Of these, how many one client network may have started. */
  maxPerNetwork: number
}

/**
 * Requests to a remote party, shared while they are in flight: equal ones are sent once, their number is bounded, and a
 * request is aborted when all its clients are gone. An aborted request counts until it has really ended.
 */
export class InFlightRequests<T> {
  readonly #bounds: InFlightBounds
  readonly #byKey = new Map<string, { response: Promise<T>; clients: Set<Client> }>()
  readonly #countByNetwork = new Map<string, number>()
  #count = 0

  constructor(bounds: InFlightBounds) {
    this.#bounds = bounds
  }

  /** The response to the request `key`: of the one in flight, or of a new one. @throws DidAuthError ERR_BUSY */
  share(key: string, client: Client, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const known = this.#byKey.get(key)
    if (known !== undefined) {
      known.clients.add(client)
      return known.response
    }
    const { network } = client
    if (this.#count >= this.#bounds.max || this.#countOf(network) >= this.#bounds.maxPerNetwork) {
      return Promise.reject(new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 }))
    }
    const aborter = new AbortController()
    const clients = new Set([client])
    const timer = setInterval(() => {
      if (![...clients].every((one) => one.isGone())) return
      aborter.abort(new Error('no client waits for the response any more'))
      forget()
    }, CHECK_MILLISECONDS).unref()
    const forget = (): void => {
      clearInterval(timer)
      if (this.#byKey.get(key) === inFlight) this.#byKey.delete(key)
    }
    this.#addTo(network, 1)
    const response = send(aborter.signal).finally(() => {
      this.#addTo(network, -1)
      forget()
    })
    const inFlight = { response, clients }
    this.#byKey.set(key, inFlight)
    return response
  }

  #countOf(network: string): number {
    return this.#countByNetwork.get(network) ?? 0
  }

  #addTo(network: string, number: 1 | -1): void {
    this.#count += number
    const count = this.#countOf(network) + number
    if (count === 0) this.#countByNetwork.delete(network)
    else this.#countByNetwork.set(network, count)
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

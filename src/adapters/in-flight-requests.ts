import { DidAuthError } from '../errors.js'
import type { Client } from '../ports.js'

const CHECK_MILLISECONDS = 250

export interface InFlightBounds {
  /** Requests in flight at once. */
  max: number
  /** Of these, how many one client network may have started. */
  maxPerNetwork: number
}

interface InFlight<T> {
  response: Promise<T>
  /** All clients that wait for the response. */
  clients: Set<Client>
}

/**
 * Requests to a remote party, shared while they are in flight: equal ones are sent once, their number is bounded, and a
 * request is aborted when all its clients are gone. An aborted request counts until it has really ended.
 */
export class InFlightRequests<T> {
  readonly #bounds: InFlightBounds
  readonly #byKey = new Map<string, InFlight<T>>()
  readonly #countByNetwork = new Map<string, number>()
  #count = 0

  constructor(bounds: InFlightBounds) {
    this.#bounds = bounds
  }

  /**
   * The response to the request `key`: of the one in flight, or of a new one that `send` starts.
   *
   * @param send - its signal aborts when no client waits any more
   * @throws DidAuthError ERR_BUSY when too many are in flight
   */
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

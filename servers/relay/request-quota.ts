import { createHmac } from 'node:crypto'
import { DidAuthError, memoryStore, type QuotaState, type QuotaStore } from 'express-did-auth'
import { LRUCache } from 'lru-cache'
import { ServerError } from '../http/server-error.js'
import { storageFailure } from '../storage/storage-error.js'

const KEY_CHARACTERS = 22
/** Requests that are charged at once: one fiftieth of the quota, at most so many. The store is a thread away. */
const MAX_CHARGED_AHEAD = 16
const AHEAD_PART = 50
const MAX_KEYS = 10_000

export interface RequestQuotaParts {
  store: Pick<QuotaStore, 'chargeQuota'>
  serviceUrl: string
  secret: string
  /** Requests of a DID in a time slot. */
  maxRequests: number
  timeSlotSeconds: number
}

/** Requests that were charged and not yet made. */
interface Ahead {
  left: number
  readonly resetsAtSeconds: number
}

/**
 * What each DID asked in a time slot, counted in the store, so that several processes count together.
 *
 * Requests are charged a few ahead. Those that are left when the process ends, or lie with another process, are lost to
 * the DID for the time slot: at most a fiftieth of its quota for each process.
 */
export class RequestQuota {
  readonly #parts: RequestQuotaParts
  readonly #hmacKey: Buffer
  readonly #charging = new Map<string, Promise<void>>()
  readonly #ahead = new LRUCache<string, Ahead>({ max: MAX_KEYS })
  readonly #chargedAtOnce: number
  /** Counts while the disk is full. */
  readonly #memory = memoryStore()

  constructor(parts: RequestQuotaParts) {
    this.#parts = parts
    this.#chargedAtOnce = Math.max(1, Math.min(MAX_CHARGED_AHEAD, Math.floor(parts.maxRequests / AHEAD_PART)))
    this.#hmacKey = createHmac('sha256', parts.secret).update(`quota-keys\n${parts.serviceUrl}`).digest()
  }

  /** The key of a DID's quota: an HMAC, as the library makes them, so that the store has no DIDs. */
  keyOf(canonicalDid: string): string {
    return createHmac('sha256', this.#hmacKey).update(canonicalDid).digest('base64url').slice(0, KEY_CHARACTERS)
  }

  /**
   * Counts a request.
   *
   * @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE
   */
  async charge(key: string, nowSeconds: number): Promise<void> {
    while (!this.#takeAhead(key, nowSeconds)) {
      await (this.#charging.get(key) ?? this.#chargeAhead(key, nowSeconds))
    }
  }

  #takeAhead(key: string, nowSeconds: number): boolean {
    const ahead = this.#ahead.get(key)
    if (ahead === undefined || ahead.left === 0 || nowSeconds >= ahead.resetsAtSeconds) return false
    ahead.left -= 1
    return true
  }

  /** One charge at a time for each DID: requests that come meanwhile wait for it. */
  #chargeAhead(key: string, nowSeconds: number): Promise<void> {
    const charging = this.#chargeStore(key, nowSeconds).finally(() => this.#charging.delete(key))
    this.#charging.set(key, charging)
    return charging
  }

  async #chargeStore(key: string, nowSeconds: number): Promise<void> {
    for (const cost of new Set([this.#chargedAtOnce, 1])) {
      const { isCharged, resetsAtSeconds } = await this.#count(key, nowSeconds, cost)
      if (isCharged) {
        this.#ahead.set(key, { left: cost, resetsAtSeconds })
        return
      }
      if (cost > 1) continue
      throw new DidAuthError('ERR_TOO_MANY_REQUESTS', { retryAfterSeconds: Math.max(1, resetsAtSeconds - nowSeconds) })
    }
  }

  async #count(key: string, nowSeconds: number, cost: number): Promise<QuotaState> {
    const { store, serviceUrl: service, maxRequests: limit, timeSlotSeconds } = this.#parts
    const charge = { service, kind: 'request', key, cost, limit, nowSeconds, timeSlotSeconds } as const
    try {
      return await store.chargeQuota(charge)
    } catch (cause) {
      // Reads need no disk, and what a request writes is refused by the store of files.
      const failure = storageFailure(cause)
      if (failure instanceof ServerError && failure.code === 'ERR_STORAGE_FULL') return this.#memory.chargeQuota(charge)
      throw new DidAuthError('ERR_STORE', { cause })
    }
  }
}

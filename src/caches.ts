export interface ExpiringCacheOptions {
  lifetimeSeconds: number
  maxEntries: number
  /** Bound of the sum of all weights. */
  maxWeight?: number
}

/** Values that expire, bounded in number, weight and time: the oldest is deleted first, expired ones at each access. */
export class ExpiringCache<V> {
  // Entries in the order of their expiry, because all live equally long.
  readonly #entries = new Map<string, { value: V; weight: number; sinceSeconds: number }>()
  readonly #options: ExpiringCacheOptions
  #weight = 0

  constructor(options: ExpiringCacheOptions) {
    this.#options = options
  }

  /** Expired entries included. */
  get size(): number {
    return this.#entries.size
  }

  /** @returns undefined when there is none in force */
  get(key: string, nowSeconds: number): { value: V; secondsLeft: number } | undefined {
    this.#dropExpired(nowSeconds)
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    return { value: entry.value, secondsLeft: entry.sinceSeconds + this.#options.lifetimeSeconds - nowSeconds }
  }

  set(key: string, value: V, nowSeconds: number, weight = 0): void {
    this.#dropExpired(nowSeconds)
    this.#drop(key)
    this.#entries.set(key, { value, weight, sinceSeconds: nowSeconds })
    this.#weight += weight
    const { maxEntries, maxWeight = Infinity } = this.#options
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= maxEntries && this.#weight <= maxWeight) return
      this.#drop(oldest)
    }
  }

  #dropExpired(nowSeconds: number): void {
    for (const [key, { sinceSeconds }] of this.#entries) {
      // An entry from the future was set before the clock was set back.
      if (sinceSeconds <= nowSeconds && nowSeconds < sinceSeconds + this.#options.lifetimeSeconds) return
      this.#drop(key)
    }
  }

  #drop(key: string): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0
    this.#entries.delete(key)
  }
}

/** Bound of each of the two generations. */
const GENERATION_SIZE = 5_000

/** A bounded map: when the younger of two generations is full, the elder is dropped. */
export class RecentEntries<T> {
  #younger = new Map<string, T>()
  #elder = new Map<string, T>()

  get(key: string): T | undefined {
    const value = this.#younger.get(key)
    if (value !== undefined) return value
    const older = this.#elder.get(key)
    if (older !== undefined) this.set(key, older)
    return older
  }

  set(key: string, value: T): void {
    if (this.#younger.size >= GENERATION_SIZE) {
      this.#elder = this.#younger
      this.#younger = new Map()
    }
    this.#younger.set(key, value)
  }

  clear(): void {
    this.#younger = new Map()
    this.#elder = new Map()
  }
}

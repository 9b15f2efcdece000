export interface ExpiringCacheOptions {
  lifetimeSeconds: number
  maxEntries: number
  /** Maximum sum of all weights. Default: unlimited. */
  maxWeight?: number
}

/** Cache with a lifetime, a maximum size and a maximum weight. A full cache deletes its oldest entry. */
export class ExpiringCache<V> {
  // Entries are in the order of expiry, because all have the same lifetime.
  readonly #entries = new Map<string, { value: V; weight: number; sinceSeconds: number }>()
  readonly #options: ExpiringCacheOptions
  #weight = 0

  constructor(options: ExpiringCacheOptions) {
    this.#options = options
  }

  /** Number of entries, including expired ones that are not deleted yet. */
  get size(): number {
    return this.#entries.size
  }

  /** Deletes expired entries. @returns the value and its remaining seconds; undefined if absent or expired */
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
      // An entry from the future also expires: the clock has been set back.
      if (sinceSeconds <= nowSeconds && nowSeconds < sinceSeconds + this.#options.lifetimeSeconds) return
      this.#drop(key)
    }
  }

  #drop(key: string): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0
    this.#entries.delete(key)
  }
}

/** Maximum size of each of the two generations. */
const GENERATION_SIZE = 5_000

/** A bounded map of two generations. When the younger one is full, it replaces the elder one, which is dropped. */
export class RecentEntries<T> {
  #younger = new Map<string, T>()
  #elder = new Map<string, T>()

  get(key: string): T | undefined {
    const value = this.#younger.get(key)
    if (value !== undefined) return value
    const elderValue = this.#elder.get(key)
    if (elderValue !== undefined) this.set(key, elderValue)
    return elderValue
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

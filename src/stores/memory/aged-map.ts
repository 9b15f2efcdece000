/**
 * A Map with fast access to its oldest entry. `map.entries().next()` would walk each time over the gaps that deleted
 * entries leave, milliseconds in a Map of a million entries. This one remembers its position and passes each gap once.
 */
export class AgedMap<V> {
  readonly #entries = new Map<string, V>()
  /** Place at which the search for the oldest entry continues. */
  #walk: MapIterator<[string, V]> | undefined
  #oldest: [key: string, value: V] | undefined
  /** Entries that were set or deleted since the walk began. */
  #changes = 0

  get size(): number {
    return this.#entries.size
  }

  get(key: string): V | undefined {
    return this.#entries.get(key)
  }

  /** Makes an entry the youngest, also where the key was there before. */
  set(key: string, value: V): void {
    this.delete(key)
    this.#entries.set(key, value)
    this.#endStaleWalk()
  }

  delete(key: string): void {
    if (this.#oldest?.[0] === key) this.#oldest = undefined
    if (this.#entries.delete(key)) this.#endStaleWalk()
  }

  /** Returns the entry that was set first. */
  oldest(): [key: string, value: V] | undefined {
    while (this.#oldest === undefined && this.#entries.size > 0) {
      this.#walk ??= this.#entries.entries()
      const place = this.#walk.next()
      if (place.done !== true) this.#oldest = place.value
      // An iterator that has reached the end never returns entries that are added later.
      else this.#walk = undefined
    }
    return this.#oldest
  }

  /** Ends an idle iterator: it prevents garbage collection of all tables that the Map has replaced since. */
  #endStaleWalk(): void {
    this.#changes += 1
    if (this.#changes <= this.#entries.size >> 2) return
    this.#walk = undefined
    this.#changes = 0
  }
}

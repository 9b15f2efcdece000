/**
 * A Map with fast access to its oldest entry. `map.entries().next()` skips the gaps of deleted entries on every call,
 * which takes milliseconds in a Map of a million entries. This class remembers its position and skips each gap once.
 * Do not call `clear`, which does not reset the position.
 */
export class AgedMap<V> extends Map<string, V> {
  /** Iterator at which the search for the oldest entry continues. */
  #walk: MapIterator<[string, V]> | undefined
  #oldest: [key: string, value: V] | undefined
  /** Entries that were set or deleted since the walk began. */
  #changes = 0

  /** Sets an entry and makes it the newest, also if the key already exists. */
  override set(key: string, value: V): this {
    this.delete(key)
    super.set(key, value)
    this.#endStaleWalk()
    return this
  }

  override delete(key: string): boolean {
    if (this.#oldest?.[0] === key) this.#oldest = undefined
    const isDeleted = super.delete(key)
    if (isDeleted) this.#endStaleWalk()
    return isDeleted
  }

  /** Returns the entry that was set first. */
  findOldest(): [key: string, value: V] | undefined {
    while (this.#oldest === undefined && this.size > 0) {
      this.#walk ??= this.entries()
      const step = this.#walk.next()
      if (step.done !== true) this.#oldest = step.value
      // An iterator that has reached the end never returns entries that are added later.
      else this.#walk = undefined
    }
    return this.#oldest
  }

  /** Drops an idle iterator. It would prevent garbage collection of all hash tables that the Map has replaced since. */
  #endStaleWalk(): void {
    this.#changes += 1
    if (this.#changes <= this.size >> 2) return
    this.#walk = undefined
    this.#changes = 0
  }
}

/**
 * Finds the oldest entry of a Map, again and again.
 *
 * `map.entries().next()` would do, but walks each time over the gaps that deleted entries leave at the front: in a Map
 * of a million that lives from its end that takes milliseconds. This one keeps its place and passes each gap once.
 */
export class OldestEntry<K, V extends object> {
  readonly #map: Map<K, V>
  #places: MapIterator<[K, V]>
  #found: [K, V] | undefined
  /** Size of the Map at which the walk begins anew. */
  #renewedAtSize = 0

  constructor(map: Map<K, V>) {
    this.#map = map
    this.#places = map.entries()
  }

  /** The entry that was set first of those that are there. A key that is deleted and set again needs a new value. */
  find(): [K, V] | undefined {
    // An iterator that stands still keeps alive each table that the Map has outgrown since.
    if (this.#map.size >= this.#renewedAtSize) this.#beginAnew()
    while (this.#found === undefined || this.#map.get(this.#found[0]) !== this.#found[1]) {
      if (this.#map.size === 0) return undefined
      const place = this.#places.next()
      this.#found = place.value
      // It came to the end, and would stay there whatever is added.
      if (place.done === true) this.#beginAnew()
    }
    return this.#found
  }

  #beginAnew(): void {
    this.#places = this.#map.entries()
    this.#found = undefined
    this.#renewedAtSize = this.#map.size + (this.#map.size >> 4) + 1
  }
}

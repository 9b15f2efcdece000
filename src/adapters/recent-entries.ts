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

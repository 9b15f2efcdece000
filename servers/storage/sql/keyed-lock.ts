/** Runs the work of one key one after the other, and that of different keys side by side. */
export class KeyedLock {
  readonly #last = new Map<unknown, Promise<unknown>>()

  /** @param key - undefined: at once @throws what the work throws */
  async run<T>(key: unknown, work: () => Promise<T>): Promise<T> {
    if (key === undefined) return work()
    const running = (this.#last.get(key) ?? Promise.resolve()).then(work, work)
    const last = running.catch(() => undefined)
    this.#last.set(key, last)
    try {
      return await running
    } finally {
      if (this.#last.get(key) === last) this.#last.delete(key)
    }
  }
}

/**
 * Runs the work of one owner one after the other, and that of different owners side by side. Their rows are locked in the
 * database as well; without turns, the waiting writes of one user would hold the connections of all.
 */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  /** @throws what the work throws */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#last.get(owner) ?? Promise.resolve()).then(work, work)
    const last = turn.catch(() => undefined)
    this.#last.set(owner, last)
    try {
      return await turn
    } finally {
      if (this.#last.get(owner) === last) this.#last.delete(owner)
    }
  }
}

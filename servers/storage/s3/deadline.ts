/** Aborts a request that waits for its other side too long. */
export class Deadline {
  readonly #controller = new AbortController()
  #timer: NodeJS.Timeout | undefined

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Waits from now on. Nothing after it expired: what is still uploaded then ends by itself. */
  restart(milliseconds: number): void {
    this.stop()
    if (this.#controller.signal.aborted) return
    this.#timer = setTimeout(() => {
      this.expire()
    }, milliseconds)
  }

  /** Nothing is waited for. */
  stop(): void {
    clearTimeout(this.#timer)
  }

  expire(): void {
    this.stop()
    this.#controller.abort()
  }
}

import { DidAuthError } from 'express-did-auth'

const MAX_INSIDE = 8
const MAX_WAITING = 256
/** Nobody waits for a first byte so long that the connection is taken for dead. */
const PATIENCE_MILLISECONDS = 5_000

/** Whoever asked has gone; there is nobody to tell. */
export class ReaderGone extends Error {
  override readonly name = 'ReaderGone'
}

/** Whoever an answer is for: its response. */
export interface Reader {
  readonly destroyed: boolean
}

interface Waiting {
  reader: Reader
  enter: () => void
  refuse: (error: Error) => void
}

/** Lets few answers be prepared at once, and few more wait: each may be thousands of entries. */
export class ReadingGate {
  readonly #inside = new Set<Reader>()
  #waiting: Waiting[] = []

  /** Whether who comes now would have to wait. */
  get isFull(): boolean {
    return this.#inside.size >= MAX_INSIDE
  }

  /** Prepares an answer when it is its turn. @throws DidAuthError ERR_BUSY; ReaderGone; whatever the work throws */
  async pass<T>(reader: Reader, prepare: () => Promise<T>): Promise<T> {
    if (this.isFull) await this.#wait(reader)
    else this.#inside.add(reader)
    try {
      if (reader.destroyed) throw new ReaderGone()
      return await prepare()
    } finally {
      this.#leave(reader)
    }
  }

  /** Waits for something slow that is done elsewhere; meanwhile another may have the place of the reader. */
  async outside<T>(reader: Reader, slow: Promise<T>): Promise<T> {
    const wasInside = this.#leave(reader)
    try {
      return await slow
    } finally {
      if (wasInside) this.#inside.add(reader)
    }
  }

  #wait(reader: Reader): Promise<void> {
    if (this.#waiting.length >= MAX_WAITING) this.#forgetGone()
    if (this.#waiting.length >= MAX_WAITING) return Promise.reject(busy())
    return new Promise((resolve, reject) => {
      const tooLate = setTimeout(() => {
        this.#waiting = this.#waiting.filter((one) => one !== waiting)
        reject(reader.destroyed ? new ReaderGone() : busy())
      }, PATIENCE_MILLISECONDS)
      const enter = (): void => {
        clearTimeout(tooLate)
        resolve()
      }
      const refuse = (error: Error): void => {
        clearTimeout(tooLate)
        reject(error)
      }
      const waiting = { reader, enter, refuse }
      this.#waiting.push(waiting)
    })
  }

  #forgetGone(): void {
    const gone = this.#waiting.filter(({ reader }) => reader.destroyed)
    this.#waiting = this.#waiting.filter(({ reader }) => !reader.destroyed)
    for (const { refuse } of gone) refuse(new ReaderGone())
  }

  #leave(reader: Reader): boolean {
    const wasInside = this.#inside.delete(reader)
    const next = this.isFull ? undefined : this.#waiting.shift()
    if (next === undefined) return wasInside
    this.#inside.add(next.reader)
    next.enter()
    return wasInside
  }
}

function busy(): DidAuthError {
  return new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
}

import { withAnswerLimit, type AnswerLimit } from './answer-limit.js'
import { ServerError, type ServerErrorCode } from '../http/server-error.js'

/** One call to a node: how much its answer may be, and why it was ended, when it was. */
export class IpfsCall implements AnswerLimit {
  maxBytes: number
  /** Rejects when the call is ended from here, whether or not its request heeds the signal. */
  readonly ended: Promise<never>
  readonly #aborter = new AbortController()
  readonly #releases: (() => void)[] = []
  readonly #deadline: NodeJS.Timeout
  #failure: ServerError | undefined
  #wentUnheard = (): boolean => false
  #reject: (failure: ServerError) => void = () => undefined

  constructor(maxBytes: number, deadlineMilliseconds: number) {
    this.maxBytes = maxBytes
    this.ended = new Promise((_resolve, reject) => {
      this.#reject = reject
    })
    // Nobody may be waiting for it any more.
    this.ended.catch(() => undefined)
    this.#deadline = this.endAfter(deadlineMilliseconds)
  }

  get signal(): AbortSignal {
    return this.#aborter.signal
  }

  /** Why the call was ended from here. Its request may fail for that in any way. */
  get failure(): ServerError | undefined {
    return this.#failure
  }

  /**
   * Carries out work that is one request, which may be sent twice. A node ends connections that were idle for long, and
   * what is sent on one in that moment meets a closed door: so it is sent again, as long as a kept connection broke
   * before a byte of the answer came. Each time costs a kept connection, so this comes to an end.
   */
  async send<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      this.#wentUnheard = () => false
      try {
        return await withAnswerLimit(this, work)
      } catch (error) {
        if (this.#failure !== undefined || !this.#wentUnheard()) throw error
      }
    }
  }

  /** Ends the call and its request, and so its connection. Only the first reason counts. */
  end(code: ServerErrorCode): void {
    if (this.#failure !== undefined) return
    this.#failure = new ServerError(code)
    this.#reject(this.#failure)
    this.#aborter.abort()
  }

  /** Ends the call with ERR_NODE_SLOW when it is not over by then. */
  endAfter(milliseconds: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.end('ERR_NODE_SLOW')
    }, milliseconds)
    this.onEnd(() => {
      clearTimeout(timer)
    })
    return timer
  }

  /** More of the answer came: the deadline counts from now. */
  restartDeadline(): void {
    this.#deadline.refresh()
  }

  refuse(): void {
    this.end('ERR_NODE_NONSENSE')
  }

  onSent(connection: { readonly bytesRead: number }): void {
    const bytesBefore = connection.bytesRead
    this.#wentUnheard = () => bytesBefore > 0 && connection.bytesRead === bytesBefore
  }

  onEnd(release: () => void): void {
    this.#releases.push(release)
  }

  /** To be called when the call is over, however it went. */
  release(): void {
    for (const release of this.#releases.splice(0)) release()
  }
}

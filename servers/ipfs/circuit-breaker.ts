import { limitMilliseconds } from '../config/time-limits.js'

/** Maximum time between two attempts of an open circuit breaker. */
export const MAX_OUTAGE_WAIT_SECONDS = limitMilliseconds.outageRetry / 1_000

/** Functions that a circuit breaker calls, and the maximum number of parallel calls without an outage. */
export interface CircuitBreakerOptions {
  maxCalls: number
  /** Called with the first failure of an outage. */
  onOpen: (error: unknown) => void
  /** Called when the next attempt is due. */
  onRetry: () => void
  /** Called with the first success after an outage. */
  onClose: () => void
}

/**
 * Circuit breaker for calls to a service. It opens after a failure. After 1, 2, 4 … 60 s it allows a single call: a
 * failure opens it again, and a success allows all calls.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  #maxCalls: number
  #isOutage = false
  #isStopped = false
  #failedAt = 0
  #waitSeconds = 1
  #retryTimer: NodeJS.Timeout | undefined

  constructor(options: CircuitBreakerOptions) {
    this.#options = options
    this.#maxCalls = options.maxCalls
  }

  /** Maximum number of parallel calls: 0 during an outage, and 1 when the next attempt is due or a caller may try. */
  get maxCalls(): number {
    return this.#maxCalls
  }

  /**
   * Returns whether a caller may start a call. From 5 s after a failure, it allows a single call, even if the next
   * attempt is due later.
   */
  tryAllowCall(): boolean {
    if (this.#maxCalls === 0 && performance.now() - this.#failedAt >= limitMilliseconds.outageRequest)
      this.#maxCalls = 1
    return this.#maxCalls > 0 && !this.#isStopped
  }

  /** Opens the circuit breaker after a failure. Further failures have no effect until the next attempt. */
  open(error: unknown): void {
    if (this.#isStopped || this.#maxCalls === 0) return
    this.#maxCalls = 0
    this.#failedAt = performance.now()
    clearTimeout(this.#retryTimer)
    this.#retryTimer = setTimeout(() => {
      this.#maxCalls = Math.max(1, this.#maxCalls)
      this.#options.onRetry()
    }, this.#waitSeconds * 1_000).unref()
    this.#waitSeconds = Math.min(this.#waitSeconds * 2, MAX_OUTAGE_WAIT_SECONDS)
    if (!this.#isOutage) this.#options.onOpen(error)
    this.#isOutage = true
  }

  /** Closes the circuit breaker after a success. */
  close(): void {
    this.#maxCalls = this.#options.maxCalls
    this.#waitSeconds = 1
    if (this.#isOutage) this.#options.onClose()
    this.#isOutage = false
  }

  /** Refuses further calls and cancels the next attempt. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#retryTimer)
  }
}

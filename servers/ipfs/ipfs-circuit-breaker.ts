import type { Logger } from 'pino'
import { codeOf } from '../config/startup-error.js'
import { ServerError } from '../http/server-error.js'
import { describeError } from '../observability/error-fields.js'

const FIRST_PROBE_SECONDS = 1
const MAX_PROBE_SECONDS = 60
/** A caller that waits for an answer has the node probed, but not more often than this. */
const ASKED_PROBE_MILLISECONDS = 5_000

/** What a circuit breaker is built of. */
export interface IpfsCircuitBreakerParts {
  ping: (signal: AbortSignal) => Promise<void>
  log: Logger
  /** Called when a probe was answered, so that calls may go on. */
  onClose: () => void
  nowMilliseconds?: () => number
}

/**
 * Whether the IPFS node may be called. A failed call opens the circuit: until a probe is answered, callers are told at
 * once that the node is unavailable. Probes follow by themselves after 1, 2, 4 … 60 s, so that a node that comes back meets
 * little load.
 */
export class IpfsCircuitBreaker {
  readonly #parts: IpfsCircuitBreakerParts
  readonly #nowMilliseconds: () => number
  readonly #stopped = new AbortController()
  #isOpen = false
  #timer: NodeJS.Timeout | undefined
  #probe: Promise<boolean> | undefined
  #probeSeconds = FIRST_PROBE_SECONDS
  #lastAskedAt = -Infinity
  /** Until a call succeeds: a node may answer probes and nothing else. */
  #isOutageLogged = false

  constructor(parts: IpfsCircuitBreakerParts) {
    this.#parts = parts
    this.#nowMilliseconds = parts.nowMilliseconds ?? (() => performance.now())
  }

  /** Whether calls are to wait. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** A call failed for a reason that concerns all calls. */
  open(error: unknown): void {
    if (this.#isOpen || this.#stopped.signal.aborted) return
    this.#isOpen = true
    this.#lastAskedAt = this.#nowMilliseconds()
    if (!this.#isOutageLogged) {
      const fields =
        error instanceof ServerError
          ? { event: 'ipfs-unavailable', reason: error.code, code: codeOf(error.cause) }
          : { event: 'pins-failed', ...describeError(error) }
      this.#parts.log.warn(fields, 'pins wait')
    }
    this.#isOutageLogged = true
    this.#probeLater()
  }

  /** A call succeeded. */
  recordSuccess(): void {
    this.#probeSeconds = FIRST_PROBE_SECONDS
    if (!this.#isOutageLogged || this.#isOpen) return
    this.#isOutageLogged = false
    this.#parts.log.info({ event: 'ipfs-available' }, 'pins go on')
  }

  /**
   * Whether calls may be made now. Where the circuit is open and the node was not asked for 5 s, it is probed at once; callers
   * of the same time share that probe.
   */
  async allows(): Promise<boolean> {
    if (!this.#isOpen) return !this.#stopped.signal.aborted
    const isDue = this.#nowMilliseconds() - this.#lastAskedAt >= ASKED_PROBE_MILLISECONDS
    return this.#probe ?? (isDue ? this.#probeNow() : false)
  }

  /** Ends probes. Calls are not allowed any more. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#stopped.abort()
  }

  #probeLater(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#probeNow(), this.#probeSeconds * 1_000).unref()
    this.#probeSeconds = Math.min(this.#probeSeconds * 2, MAX_PROBE_SECONDS)
  }

  #probeNow(): Promise<boolean> {
    this.#probe ??= this.#ping().finally(() => (this.#probe = undefined))
    return this.#probe
  }

  async #ping(): Promise<boolean> {
    if (this.#isStopped()) return false
    this.#lastAskedAt = this.#nowMilliseconds()
    try {
      await this.#parts.ping(this.#stopped.signal)
    } catch {
      if (!this.#isStopped()) this.#probeLater()
      return false
    }
    if (this.#isStopped()) return false
    clearTimeout(this.#timer)
    this.#isOpen = false
    this.#parts.onClose()
    return true
  }

  #isStopped(): boolean {
    return this.#stopped.signal.aborted
  }
}

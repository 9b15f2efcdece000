import type { Logger } from 'pino'
import { codeOf } from '../../shared/environment/start-error.js'
import { describeError } from '../../shared/watch/describe-error.js'
import { ServerError } from '../../shared/http/server-error.js'

const FIRST_PROBE_SECONDS = 1
const MAX_PROBE_SECONDS = 60

/**
 * Whether the IPFS node can be asked. One that failed is probed, ever more rarely, so that no write waits for it and no
 * load falls on it while it comes back.
 */
export class NodeOutage {
  readonly #ping: (signal: AbortSignal) => Promise<void>
  readonly #log: Logger
  readonly #onAnswer: () => void
  readonly #stopped = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #probeSeconds = FIRST_PROBE_SECONDS
  #isAway = false
  /** An outage is over only when work got done: a node may answer probes and nothing else. */
  #isTold = false
  #doneCount = 0

  /** @param onAnswer - called when a probe was answered */
  constructor(parts: { ping: (signal: AbortSignal) => Promise<void>; log: Logger; onAnswer: () => void }) {
    this.#ping = parts.ping
    this.#log = parts.log
    this.#onAnswer = parts.onAnswer
  }

  get isAway(): boolean {
    return this.#isAway
  }

  /** A call failed for a reason that concerns all calls. */
  begin(error: unknown): void {
    if (this.#isAway || this.#stopped.signal.aborted) return
    this.#isAway = true
    if (!this.#isTold) {
      const isOfNode = error instanceof ServerError
      const fields = isOfNode
        ? { event: 'ipfs-node-away', reason: error.code, code: codeOf(error.cause) }
        : { event: 'pins-failed', ...describeError(error) }
      this.#log.warn(fields, 'pins wait')
    }
    this.#isTold = true
    this.#probeLater()
  }

  /** A call was answered well. */
  workDone(): void {
    this.#doneCount += 1
    this.#probeSeconds = FIRST_PROBE_SECONDS
  }

  /** Nothing is left to do. */
  allDone(): void {
    if (this.#isAway) return
    if (this.#isTold) this.#log.info({ event: 'ipfs-node-back', drained: this.#doneCount }, 'pins go on')
    this.#isTold = false
    this.#doneCount = 0
    this.#probeSeconds = FIRST_PROBE_SECONDS
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#stopped.abort()
  }

  #probeLater(): void {
    this.#timer = setTimeout(() => void this.#probe(), this.#probeSeconds * 1_000).unref()
    this.#probeSeconds = Math.min(this.#probeSeconds * 2, MAX_PROBE_SECONDS)
  }

  async #probe(): Promise<void> {
    const { signal } = this.#stopped
    try {
      await this.#ping(signal)
    } catch {
      if (!signal.aborted) this.#probeLater()
      return
    }
    if (signal.aborted) return
    this.#isAway = false
    this.#onAnswer()
  }
}

import type { Clock } from 'express-did-auth'
import { waitAtMost } from 'express-did-auth/server-kit'
import type { Logger } from 'pino'
import { getErrorCode } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import { ServerError } from '../http/server-error.js'
import type { ContentReads, PinLedger, PinTask } from '../content/content-store.js'
import { describeError } from '../observability/error-fields.js'
import { CircuitBreaker, MAX_OUTAGE_WAIT_SECONDS } from './circuit-breaker.js'
import type { IpfsNode } from './ipfs-node.js'

/** Parts of the pin worker. */
export interface PinWorkerParts {
  ledger: PinLedger
  store: Pick<ContentReads, 'readContents'>
  node: Pick<IpfsNode, 'add' | 'unpin'>
  log: Logger
  clock: Clock
}

const MAX_CALLS = 4
const MAX_JOBS = 1_000
/** Interval of reading the ledger for tasks that another process abandoned or that are due for a retry. */
const POLL_MILLISECONDS = 10_000
/** Duration of a lease. */
const LEASE_SECONDS = limitMilliseconds.pinLease / 1_000
const MAX_RETRY_SECONDS = limitMilliseconds.pinRetry / 1_000
/** Number of first attempts of a task whose timeout counts as an outage. Later, the pin itself is the problem. */
const OUTAGE_ATTEMPTS = 3

/**
 * Synchronizes the pins of the IPFS node with the ledger: immediately if the node is available, otherwise later, even
 * after a crash. A lease prevents other workers, in this process and in others, from taking the same task.
 *
 * A circuit breaker opens after each failure of the node, the ledger or the store that does not concern one pin only.
 * Callers then learn immediately that the pin is pending.
 */
export class PinWorker {
  readonly #parts: PinWorkerParts
  /** Jobs by cid: callers wait for them, or their call is in flight. No single flight: an outage releases callers. */
  readonly #jobs = new Map<string, { outcome: Promise<boolean>; resolve: (isDone: boolean) => void }>()
  /** Cids of jobs whose call has not started. */
  #urgent: string[] = []
  readonly #inFlight = new Map<string, Promise<void>>()
  /** Whether the ledger may contain further due tasks. */
  #hasBacklog = false
  #isClaiming = false
  #isStopping = false
  #timer: NodeJS.Timeout | undefined
  readonly #breaker: CircuitBreaker

  constructor(parts: PinWorkerParts) {
    this.#parts = parts
    const { log } = parts
    this.#breaker = new CircuitBreaker({
      maxCalls: MAX_CALLS,
      onOpen: (error) => log.warn(describeOutage(error), 'pinning failed; it is paused and will be retried'),
      onRetry: this.#work,
      onClose: () => log.info({ event: 'ipfs-available' }, 'pinning works again and continues')
    })
  }

  /** Starts to carry out the open tasks of the ledger, including retries and tasks that another process abandoned. */
  start(): void {
    this.#timer = setInterval(this.#work, POLL_MILLISECONDS).unref()
    this.#parts.ledger.retryNow(this.#parts.clock.nowSeconds()).then(this.#work, this.#fail)
  }

  /**
   * Carries out the open tasks of these cids now.
   *
   * @returns whether the pins are as desired; false if that takes more than 2 s, or is pending
   */
  async settle(cids: readonly string[]): Promise<boolean> {
    if (cids.length + this.#jobs.size > MAX_JOBS) return cids.length === 0
    try {
      return (await waitAtMost(limitMilliseconds.pinWait, this.#settle(cids))) ?? false
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** Stops the worker. Waits at most 2 s for calls in flight. Unfinished tasks stay in the ledger. */
  async stop(): Promise<void> {
    this.#isStopping = true
    clearInterval(this.#timer)
    this.#breaker.stop()
    this.#releaseCallers()
    await waitAtMost(limitMilliseconds.pinWait, Promise.all(this.#inFlight.values()))
  }

  async #settle(cids: readonly string[]): Promise<boolean> {
    if (cids.length === 0) return true
    const deadlineAt = performance.now() + limitMilliseconds.pinWait
    while (performance.now() < deadlineAt && this.#breaker.tryAllowCall()) {
      const outcomes = await Promise.all(cids.map((cid) => this.#enqueue(cid)))
      // Another write may have changed the desired state in the meantime.
      if (await this.#parts.ledger.areSettled(cids)) return true
      if (!outcomes.every(Boolean)) return false
    }
    return false
  }

  #enqueue(cid: string): Promise<boolean> {
    const job = this.#jobs.get(cid)
    if (job !== undefined) return job.outcome
    this.#urgent.push(cid)
    void this.#claimAndRun()
    return this.#addJob(cid)
  }

  #addJob(cid: string): Promise<boolean> {
    let resolve = (_isDone: boolean): void => undefined
    const outcome = new Promise<boolean>((settle) => (resolve = settle))
    this.#jobs.set(cid, { outcome, resolve })
    return outcome
  }

  #endJob(cid: string, isDone: boolean): void {
    this.#jobs.get(cid)?.resolve(isDone)
    this.#jobs.delete(cid)
  }

  readonly #work = (): void => {
    this.#hasBacklog = true
    void this.#claimAndRun()
  }

  /** Claims tasks while fewer calls than the maximum are in flight: first urgent tasks, then due tasks. */
  async #claimAndRun(): Promise<void> {
    if (this.#isClaiming) return
    this.#isClaiming = true
    try {
      while (this.#inFlight.size < this.#breaker.maxCalls && (this.#urgent.length > 0 || this.#hasBacklog)) {
        if (this.#isStopping) break
        await this.#claim()
      }
    } catch (error) {
      this.#fail(error)
    } finally {
      this.#isClaiming = false
    }
  }

  async #claim(): Promise<void> {
    const limit = this.#breaker.maxCalls - this.#inFlight.size
    const cids = this.#urgent.splice(0, limit)
    if (cids.length === 0) this.#hasBacklog = false
    const request = { limit, nowSeconds: this.#parts.clock.nowSeconds(), leaseSeconds: LEASE_SECONDS }
    const claimed = this.#parts.ledger.claim(cids.length === 0 ? request : { ...request, cids })
    const tasks = await claimed.catch((error: unknown) => {
      for (const cid of cids) this.#endJob(cid, false)
      throw error
    })
    if (cids.length === 0 && tasks.length === limit) this.#hasBacklog = true
    for (const task of tasks) this.#run(task)
    // These cids have no open task, or their task waits for a retry, or another process has leased it.
    for (const cid of cids) if (!this.#inFlight.has(cid)) this.#endJob(cid, false)
  }

  #run(task: PinTask): void {
    if (!this.#jobs.has(task.cid)) void this.#addJob(task.cid)
    const work = this.#carryOut(task)
      .catch((error: unknown) => this.#fail(error))
      .then((isDone) => {
        this.#inFlight.delete(task.cid)
        this.#endJob(task.cid, isDone)
        void this.#claimAndRun()
      })
    this.#inFlight.set(task.cid, work)
  }

  async #carryOut(task: PinTask): Promise<boolean> {
    const { ledger, store, node, log } = this.#parts
    let wasCalled = false
    try {
      const isPin = task.desired === 'pinned'
      const [content] = isPin ? await store.readContents([task.cid]) : []
      if (isPin && content === undefined) throw new ServerError('ERR_CONTENT_MISSING')
      const bytes = await content?.bytes()
      wasCalled = true
      await (bytes === undefined ? node.unpin(task.cid) : node.add(task.cid, bytes))
    } catch (error) {
      const code = getErrorCode(error)
      const isPinTooLarge = code === 'ERR_IPFS_TIMEOUT' && task.attempts >= OUTAGE_ATTEMPTS
      const concernsPin = code === 'ERR_IPFS_BAD_RESPONSE' || code === 'ERR_CONTENT_MISSING' || isPinTooLarge
      if (!concernsPin) this.#fail(error)
      // During an outage, a task is due again when the next attempt starts.
      const wait = Math.min(2 ** task.attempts, concernsPin ? MAX_RETRY_SECONDS : MAX_OUTAGE_WAIT_SECONDS)
      const retryAtSeconds = this.#parts.clock.nowSeconds() + (concernsPin ? wait : wait - 1)
      const isPostponed = await ledger.postpone(task, retryAtSeconds, wasCalled)
      // If the content was removed in the meantime, this is not a failure.
      if (!isPostponed) this.#hasBacklog = true
      else if (concernsPin) log.error({ event: 'pin-failed', reason: code }, 'a pin failed and will be retried')
      return !isPostponed
    }
    this.#breaker.close()
    if (!(await ledger.finish(task, this.#parts.clock.nowSeconds()))) this.#hasBacklog = true
    return true
  }

  readonly #fail = (error: unknown): false => {
    this.#breaker.open(error)
    this.#releaseCallers()
    return false
  }

  /** Releases callers that wait for an unavailable node. Calls in flight continue. */
  #releaseCallers(): void {
    for (const cid of this.#urgent) this.#endJob(cid, false)
    this.#urgent = []
    for (const { resolve } of this.#jobs.values()) resolve(false)
    this.#hasBacklog = true
  }
}

/** Describes the first failure of an outage for the log. */
function describeOutage(error: unknown): object {
  if (!(error instanceof ServerError)) return { event: 'pins-failed', ...describeError(error) }
  return { event: 'ipfs-unavailable', reason: error.code, code: getErrorCode(error.cause) }
}

import type { Clock } from 'express-did-auth'
import { waitAtMost } from 'express-did-auth/server-kit'
import type { Logger } from 'pino'
import { getErrorCode } from '../config/startup-error.js'
import { ServerError } from '../http/server-error.js'
import type { ContentReads, PinLedger, PinTask } from '../storage/content-store.js'
import { describeError } from '../observability/error-fields.js'
import type { IpfsNode } from './ipfs-node.js'

/** Dependencies of the pin worker. */
export interface PinWorkerParts {
  ledger: PinLedger
  store: Pick<ContentReads, 'readContents'>
  node: Pick<IpfsNode, 'add' | 'unpin'>
  log: Logger
  clock: Clock
}

const MAX_CALLS = 4
const MAX_JOBS = 1_000
const WAIT_MILLISECONDS = 2_000
/** Interval of reading the ledger for tasks that another process left, or that failed and are due again. */
const POLL_MILLISECONDS = 10_000
/** Duration of a lease: longer than a call may take. */
const LEASE_SECONDS = 20
const MAX_RETRY_SECONDS = 3_600
const MAX_OUTAGE_WAIT_SECONDS = 60
/** Number of timeouts of a task that count as an outage. Further ones mean that this pin is too much for the node. */
const TIMEOUTS_OF_AN_OUTAGE = 3
/** Minimum time after a failure before a caller may start a call during an outage. */
const CALLER_WAIT_MILLISECONDS = 5_000

/**
 * Synchronizes the IPFS node's pins with the ledger: at once if the node answers, otherwise later, also after kill -9.
 * The lease of a task keeps other workers from it, in this process and in others.
 *
 * It is a circuit breaker: after a failure that concerns all calls it makes none, and callers learn at once that the
 * pin is done later. It tries one call after 1, 2, 4 … 60 s, and after a success it resumes all.
 */
export class PinWorker {
  readonly #parts: PinWorkerParts
  /** Jobs by cid: those for which callers wait, and those whose call is running. */
  readonly #jobs = new Map<string, { outcome: Promise<boolean>; resolve: (isDone: boolean) => void }>()
  /** Cids of jobs that have no call yet. */
  #urgent: string[] = []
  readonly #underWay = new Map<string, Promise<void>>()
  /** Whether the ledger may have more tasks that are due. */
  #hasBacklog = false
  #isClaiming = false
  #isStopping = false
  #timer: NodeJS.Timeout | undefined
  /** Maximum number of parallel calls: none during an outage, and one when the next attempt is due. */
  #maxCalls = MAX_CALLS
  #isOutage = false
  #failedAt = 0
  #waitSeconds = 1
  #tryTimer: NodeJS.Timeout | undefined

  constructor(parts: PinWorkerParts) {
    this.#parts = parts
  }

  /** Carries out what the ledger has open, and from then on what fails or another process leaves. */
  start(): void {
    this.#timer = setInterval(this.#work, POLL_MILLISECONDS).unref()
    this.#parts.ledger.retryNow(this.#parts.clock.nowSeconds()).then(this.#work, this.#fail)
  }

  /**
   * Carries out the open tasks of these cids now.
   *
   * @returns true when the node has them as desired; false, when that takes more than 2 s, or is done later
   */
  async settle(cids: readonly string[]): Promise<boolean> {
    if (cids.length + this.#jobs.size > MAX_JOBS) return cids.length === 0
    try {
      return (await waitAtMost(WAIT_MILLISECONDS, this.#settle(cids))) ?? false
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** Waits 2 s at most. What is left stays in the ledger. */
  async stop(): Promise<void> {
    this.#isStopping = true
    clearInterval(this.#timer)
    clearTimeout(this.#tryTimer)
    this.#releaseCallers()
    await waitAtMost(WAIT_MILLISECONDS, Promise.all(this.#underWay.values()))
  }

  async #settle(cids: readonly string[]): Promise<boolean> {
    if (cids.length === 0) return true
    const endsAt = performance.now() + WAIT_MILLISECONDS
    while (performance.now() < endsAt && this.#mayCall()) {
      const outcomes = await Promise.all(cids.map((cid) => this.#enqueue(cid)))
      // The desired state may have changed again meanwhile.
      if (await this.#parts.ledger.areSettled(cids)) return true
      if (!outcomes.every(Boolean)) return false
    }
    return false
  }

  #mayCall(): boolean {
    if (this.#maxCalls === 0 && performance.now() - this.#failedAt >= CALLER_WAIT_MILLISECONDS) this.#maxCalls = 1
    return this.#maxCalls > 0 && !this.#isStopping
  }

  #enqueue(cid: string): Promise<boolean> {
    const present = this.#jobs.get(cid)
    if (present !== undefined) return present.outcome
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

  /** Claims tasks while calls are free: first those that callers wait for, then those that are due. */
  async #claimAndRun(): Promise<void> {
    if (this.#isClaiming) return
    this.#isClaiming = true
    try {
      while (this.#underWay.size < this.#maxCalls && (this.#urgent.length > 0 || this.#hasBacklog)) {
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
    const limit = this.#maxCalls - this.#underWay.size
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
    // Nothing is open for these, or they wait after a failure, or another process has them.
    for (const cid of cids) if (!this.#underWay.has(cid)) this.#endJob(cid, false)
  }

  #run(task: PinTask): void {
    if (!this.#jobs.has(task.cid)) void this.#addJob(task.cid)
    const work = this.#carryOut(task)
      .catch((error: unknown) => this.#fail(error))
      .then((isDone) => {
        this.#underWay.delete(task.cid)
        this.#endJob(task.cid, isDone)
        void this.#claimAndRun()
      })
    this.#underWay.set(task.cid, work)
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
      const isTooMuch = code === 'ERR_IPFS_TIMEOUT' && task.attempts >= TIMEOUTS_OF_AN_OUTAGE
      const isOfPin = code === 'ERR_IPFS_BAD_RESPONSE' || code === 'ERR_CONTENT_MISSING' || isTooMuch
      if (!isOfPin) this.#fail(error)
      // The wait in an outage is not longer than the time until the next attempt.
      const wait = Math.min(2 ** task.attempts, isOfPin ? MAX_RETRY_SECONDS : MAX_OUTAGE_WAIT_SECONDS)
      const retryAtSeconds = this.#parts.clock.nowSeconds() + (isOfPin ? wait : wait - 1)
      const isPostponed = await ledger.postpone(task, retryAtSeconds, wasCalled)
      // Content that was removed meanwhile is no failure.
      if (!isPostponed) this.#hasBacklog = true
      else if (isOfPin) log.error({ event: 'pin-failed', reason: code }, 'pinning failed, it will be retried')
      return !isPostponed
    }
    this.#endOutage()
    if (!(await ledger.finish(task, this.#parts.clock.nowSeconds()))) this.#hasBacklog = true
    return true
  }

  readonly #fail = (error: unknown): false => {
    if (!this.#isStopping && this.#maxCalls > 0) this.#beginOutage(error)
    this.#releaseCallers()
    return false
  }

  #beginOutage(error: unknown): void {
    this.#maxCalls = 0
    this.#failedAt = performance.now()
    clearTimeout(this.#tryTimer)
    this.#tryTimer = setTimeout(() => {
      this.#maxCalls = Math.max(1, this.#maxCalls)
      this.#work()
    }, this.#waitSeconds * 1_000).unref()
    this.#waitSeconds = Math.min(this.#waitSeconds * 2, MAX_OUTAGE_WAIT_SECONDS)
    if (this.#isOutage) return
    this.#isOutage = true
    const fields =
      error instanceof ServerError
        ? { event: 'ipfs-unavailable', reason: error.code, code: getErrorCode(error.cause) }
        : { event: 'pins-failed', ...describeError(error) }
    this.#parts.log.warn(fields, 'pinning is paused')
  }

  #endOutage(): void {
    this.#maxCalls = MAX_CALLS
    this.#waitSeconds = 1
    if (this.#isOutage) this.#parts.log.info({ event: 'ipfs-available' }, 'pinning continues')
    this.#isOutage = false
  }

  /** Callers do not wait for a node that is unavailable. Calls in progress continue. */
  #releaseCallers(): void {
    for (const cid of this.#urgent) this.#endJob(cid, false)
    this.#urgent = []
    for (const { resolve } of this.#jobs.values()) resolve(false)
    this.#hasBacklog = true
  }
}

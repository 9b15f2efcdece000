import { setImmediate as turn } from 'node:timers/promises'
import type { Logger } from 'pino'
import { ServerError } from '../../shared/http/server-error.js'
import { NodeOutage } from './node-outage.js'
import { PinTurn, type PinTurnGiver, type PinTurnParts } from './pin-turn.js'
import { within } from '../within.js'

/** What the outbox is built of. */
export interface PinOutboxParts extends Omit<PinTurnParts, 'nowSeconds'> {
  log: Logger
  nowSeconds?: () => number
}

const MAX_CALLS = 4
/** Cids that may wait for a turn in memory; the table keeps the others. */
const MAX_WAITING = 1_000
const BATCH = 100
const SETTLE_MILLISECONDS = 2_000
const STOP_MILLISECONDS = 2_000
/** How often the table is looked at for what another process left there, or what failed and is due again. */
const LOOK_MILLISECONDS = 10_000

interface Task {
  isSettled: Promise<boolean>
  resolve: (isSettled: boolean) => void
}

/**
 * Brings the IPFS node's pins in step with the intents: at once when the node answers, later when it does not, also
 * after kill -9. One cid has one turn at a time, so that its calls never overtake each other.
 */
export class PinOutbox {
  readonly #parts: PinTurnParts
  readonly #log: Logger
  readonly #outage: NodeOutage
  readonly #giver: PinTurnGiver
  /** What is urgent or under way. */
  readonly #tasks = new Map<string, Task>()
  #urgent: string[] = []
  #batch: string[] = []
  readonly #underWay = new Set<Promise<void>>()
  readonly #whenIdle = new Set<() => void>()
  #timer: NodeJS.Timeout | undefined
  #isStopping = false
  #isClosed = false

  constructor({ log, nowSeconds = () => Math.floor(Date.now() / 1_000), ...parts }: PinOutboxParts) {
    this.#parts = { ...parts, nowSeconds }
    this.#log = log
    const onAnswer = (): void => {
      this.#pump()
    }
    this.#outage = new NodeOutage({ ping: (signal) => parts.node.ping(signal), log, onAnswer })
    this.#giver = {
      mayCall: () => !this.#outage.isAway && !this.#isStopping,
      isClosed: () => this.#isClosed,
      failed: (error) => {
        this.#fail(error)
      }
    }
  }

  /**
   * Tries to carry out now what was committed for these cids. True when the node is as wanted; false when that takes more
   * than 2 s, or the node is known to be away: then it goes on by itself. Never rejects.
   */
  async settle(cids: readonly string[]): Promise<boolean> {
    // To ask for each would take long, and most are open.
    if (cids.length > MAX_WAITING) return false
    try {
      const open = [...new Set(cids)].filter((cid) => this.#parts.intents.isOpen(cid))
      if (open.length === 0) return true
      if (!this.#giver.mayCall() || this.#tasks.size + open.length > MAX_WAITING) return false
      const all = Promise.all(open.map((cid) => this.#enqueue(cid)))
      this.#pump()
      return (await within(SETTLE_MILLISECONDS, all))?.every(Boolean) ?? false
    } catch (error) {
      this.#fail(error)
      return false
    }
  }

  /** Carries out what is left from before, also what waits, and from then on what fails or another process leaves. */
  start(): void {
    const { intents, nowSeconds } = this.#parts
    const pump = (): void => {
      this.#pump()
    }
    this.#timer = setInterval(pump, LOOK_MILLISECONDS).unref()
    pump()
    intents.takeOver(nowSeconds()).then(pump, (error: unknown) => {
      this.#fail(error)
    })
  }

  /** Waits until nothing is due, the node is away, or the time is over. */
  async drain(milliseconds: number): Promise<void> {
    const idle = new Promise<void>((resolve) => this.#whenIdle.add(resolve))
    this.#pump()
    await within(milliseconds, idle)
  }

  /** Waits for calls under way, at most 2 s. What is left stays in the table. */
  async stop(): Promise<void> {
    this.#isStopping = true
    clearInterval(this.#timer)
    this.#outage.stop()
    this.#giveUpWaiting()
    await within(STOP_MILLISECONDS, Promise.all(this.#underWay))
    this.#isClosed = true
    // A commit may be waiting for its turn, and the database is closed after us.
    await turn()
  }

  #enqueue(cid: string): Promise<boolean> {
    const task = this.#tasks.get(cid)
    if (task !== undefined) return task.isSettled
    this.#urgent.push(cid)
    return this.#addTask(cid).isSettled
  }

  #addTask(cid: string): Task {
    const task: Task = { isSettled: Promise.resolve(false), resolve: () => undefined }
    task.isSettled = new Promise((resolve) => (task.resolve = resolve))
    this.#tasks.set(cid, task)
    return task
  }

  #pump(): void {
    try {
      while (this.#underWay.size < MAX_CALLS && this.#giver.mayCall()) {
        const cid = this.#next()
        if (cid === undefined) break
        const work = this.#work(cid, this.#tasks.get(cid) ?? this.#addTask(cid))
        this.#underWay.add(work)
        void work.then(() => {
          this.#underWay.delete(work)
          this.#pump()
        })
      }
    } catch (error) {
      this.#fail(error)
    }
    if (this.#underWay.size > 0) return
    this.#outage.allDone()
    for (const resolve of this.#whenIdle) resolve()
    this.#whenIdle.clear()
  }

  #next(): string | undefined {
    const urgent = this.#urgent.shift()
    if (urgent !== undefined) return urgent
    const { intents, nowSeconds } = this.#parts
    if (this.#batch.length === 0) this.#batch = intents.due(nowSeconds(), BATCH)
    let cid = this.#batch.shift()
    while (cid !== undefined && this.#tasks.has(cid)) cid = this.#batch.shift()
    return cid
  }

  async #work(cid: string, task: Task): Promise<void> {
    const pinTurn = new PinTurn(this.#parts, this.#giver, cid)
    let isSettled = false
    try {
      let result = pinTurn.step()
      while (typeof result !== 'boolean') {
        await result
        result = pinTurn.step()
      }
      isSettled = result
    } catch (error) {
      this.#fail(error)
    }
    // In the same breath as the last look at the table: who comes later gets a turn of its own.
    this.#tasks.delete(cid)
    if (isSettled) this.#outage.workDone()
    task.resolve(isSettled)
  }

  #fail(error: unknown): void {
    if (error instanceof ServerError && (error.code === 'ERR_NODE_NONSENSE' || error.code === 'ERR_CONTENT_LOST')) {
      this.#log.error({ event: 'pin-failed', reason: error.code }, 'a pin waits')
      return
    }
    this.#outage.begin(error)
    this.#giveUpWaiting()
  }

  /** Nobody waits for a node that is away; what is under way goes on. */
  #giveUpWaiting(): void {
    for (const { resolve } of this.#tasks.values()) resolve(false)
    for (const cid of this.#urgent) this.#tasks.delete(cid)
    this.#urgent = []
    this.#batch = []
  }
}

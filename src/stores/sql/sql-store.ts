import type { QuotaStore, Store } from '../../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../protocol/challenge.js'
import { SweepClock } from '../sweep-clock.js'
import type { Dialect } from './dialect.js'
import type { RunVerb, StoreQuery } from './query.js'
import * as sessionVerbs from './session-verbs.js'
import * as storeVerbs from './store-verbs.js'
import type { FullTables, TableBounds } from './store-verbs.js'

/** Bounds of the pause between two sweeps, in seconds. The pause is random, so that instances do not sweep together. */
const [SHORTEST_PAUSE, LONGEST_PAUSE] = [40, 80]
/** Time limit for the sweep of one table, so that instances take turns. */
const TABLE_MILLISECONDS = 2_000
/** Time for which challenge uses of a closed window are still stored. */
const GRACE_SECONDS = 30

/** Deletes rows in batches of `limit` until a batch is smaller, the time limit has passed, or the store is closed. */
export type RepeatDeletion = (deleteBatch: (limit: number) => Promise<number>) => Promise<void>

/** Threads that own a SQLite file, or connections to PostgreSQL. */
export interface SqlEngine {
  readonly run: RunVerb<Dialect>
  readonly bounds: TableBounds
  /** Interval at which the sizes of the tables are read, in seconds of the monotonic clock. */
  readonly sizeSeconds: number
  /** Maximum number of rows that one verb of a sweep deletes. */
  readonly sweepRows: number
  readonly quotas: QuotaStore & {
    /** Deletes quotas above the bound, beginning with those that end first. */
    trim?(repeat: RepeatDeletion): Promise<void>
    /** Deletes quotas that ended before a time. */
    deleteEnded?(repeat: RepeatDeletion, endSeconds: number): Promise<void>
  }
  close(): Promise<void>
}

/** Clock and grace period, which tests replace. */
export type SweepTimes = { readonly clock?: SweepClock; readonly graceSeconds?: number }

/** Creates the function that runs verbs in this thread. `single` never repeats a statement. */
export function createRun(repeatable: StoreQuery, single: StoreQuery): RunVerb<Dialect> {
  return (verb, ...args) => verb.run(verb.isRepeatable ? repeatable : single, ...args)
}

/** Creates a store of sessions, challenge uses and quotas in SQL, on either engine. */
export function createSqlStore(engine: SqlEngine, times?: SweepTimes): Store {
  const { run, quotas } = engine
  const upkeep = new Upkeep(engine, times)
  return {
    async createSession(session) {
      upkeep.runIfDue(session.nowSeconds)
      return run(sessionVerbs.createSession, session, (await upkeep.findFullTables()).sessions)
    },
    async findSession(service, sessionId) {
      const row = await run(sessionVerbs.findSession, service, sessionId)
      return row && sessionVerbs.parseStoredSession(row)
    },
    rotateRefreshToken(rotation) {
      upkeep.runIfDue(rotation.nowSeconds)
      return run(sessionVerbs.rotateRefreshToken, rotation)
    },
    endSession: (...args) => run(sessionVerbs.endSession, ...args),
    revokeSessions: (...args) => run(sessionVerbs.revokeSessions, ...args),
    listSessions: async (...args) => (await run(sessionVerbs.listSessions, ...args)).map(sessionVerbs.parseSession),
    listEndedSessions: (...args) => run(sessionVerbs.listEndedSessions, ...args),
    countChallengeUses: (key) => run(storeVerbs.countChallengeUses, key),
    async consumeChallenge(use) {
      upkeep.runIfDue(use.nowSeconds, use)
      return run(storeVerbs.consumeChallenge, use, (await upkeep.findFullTables()).challengeUses)
    },
    chargeQuota(charge) {
      upkeep.runIfDue(charge.nowSeconds)
      return quotas.chargeQuota(charge)
    },
    ping() {
      upkeep.runIfDue()
      return run(storeVerbs.ping)
    },
    async close() {
      await upkeep.close()
      await engine.close()
    }
  }
}

/**
 * Sweeps the tables and reads their sizes, without a timer. Verbs start this work when it is due, without waiting
 * for it.
 */
class Upkeep {
  readonly #engine: SqlEngine
  readonly #clock: SweepClock
  readonly #graceSeconds: number
  #full: Promise<FullTables> | undefined
  #sizesReadAt = -Infinity
  #nowSeconds = -Infinity
  #sweptAtSeconds = -Infinity
  #pauseSeconds = 0
  #sweeping: Promise<void> | undefined
  #isClosed = false

  constructor(engine: SqlEngine, { clock = new SweepClock(), graceSeconds = GRACE_SECONDS }: SweepTimes = {}) {
    this.#engine = engine
    this.#clock = clock
    this.#graceSeconds = graceSeconds
  }

  findFullTables(): Promise<FullTables> {
    return this.#full ?? this.#readSizes()
  }

  /** Starts work that is due by the caller's time, also after the clock was set back. */
  runIfDue(nowSeconds = this.#nowSeconds, window?: { window: number; expiresAtSeconds: number }): void {
    if (window !== undefined) this.#clock.observeWindow(window)
    this.#nowSeconds = nowSeconds
    if (this.#sweeping !== undefined || this.#isClosed || nowSeconds === -Infinity) return
    const areSizesDue = performance.now() - this.#sizesReadAt >= this.#engine.sizeSeconds * 1000
    const isSweepDue = Math.abs(nowSeconds - this.#sweptAtSeconds) >= this.#pauseSeconds
    if (!areSizesDue && !isSweepDue) return
    this.#sweeping = this.#maintain(nowSeconds, isSweepDue)
      // The engine is unavailable, and the verbs report it. The next attempt is made when the work is due again.
      .catch(() => undefined)
      .finally(() => (this.#sweeping = undefined))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#sweeping
  }

  async #maintain(nowSeconds: number, isSweepDue: boolean): Promise<void> {
    const { run, quotas } = this.#engine
    await this.#readSizes()
    // A failure, such as a statement timeout, must not prevent the sweep.
    await quotas.trim?.(this.#repeat).catch(() => undefined)
    if (!isSweepDue) return
    this.#sweptAtSeconds = nowSeconds
    this.#pauseSeconds = SHORTEST_PAUSE + Math.random() * (LONGEST_PAUSE - SHORTEST_PAUSE)
    const sweepSeconds = this.#clock.sweepSeconds(nowSeconds)
    if (sweepSeconds === -Infinity) return
    // The clock may be set back during the sweep. Rows that have not expired by the new time must stay.
    const endSeconds = (): number => Math.min(sweepSeconds, this.#nowSeconds)
    await this.#repeat((limit) => run(sessionVerbs.deleteExpiredSessions, endSeconds(), limit))
    await this.#repeat((limit) => run(sessionVerbs.deleteEndedSessions, endSeconds(), limit))
    await this.#repeat((limit) => run(storeVerbs.deleteClosedUses, this.#graceSeconds, limit))
    if (this.#isClosed) return
    await run(storeVerbs.closeWindows, endSeconds() - USES_OUTLIVE_WINDOW_SECONDS, this.#graceSeconds)
    await quotas.deleteEnded?.(this.#repeat, endSeconds())
    const { sessions, challengeUses } = await this.findFullTables()
    if (sessions || challengeUses) await this.#readSizes()
  }

  #readSizes(): Promise<FullTables> {
    this.#sizesReadAt = performance.now()
    const { run, bounds } = this.#engine
    const previous = this.#full ?? { sessions: false, challengeUses: false }
    // Ignore the error: if the engine is unavailable, the verbs throw it.
    return (this.#full = run(storeVerbs.findFullTables, bounds).catch(() => previous))
  }

  readonly #repeat: RepeatDeletion = async (deleteBatch) => {
    const deadlineAt = performance.now() + TABLE_MILLISECONDS
    const { sweepRows } = this.#engine
    while (!this.#isClosed && performance.now() < deadlineAt) {
      if ((await deleteBatch(sweepRows)) < sweepRows) return
    }
  }
}

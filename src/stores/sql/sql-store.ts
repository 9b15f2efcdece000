import type { QuotaStore, Store } from '../../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../protocol/challenge.js'
import { SweepClock } from '../sweep-clock.js'
import type { VerbMethods } from './query.js'
import { parseSession, parseStoredSession } from './session-verbs.js'
import type { FullTables, StoreVerbs, TableBounds } from './store-verbs.js'

/** Seconds between two sweeps: each instance draws its own, so that they do not coincide. */
const [SHORTEST_PAUSE, LONGEST_PAUSE] = [40, 80]
/** Time limit for the sweep of one table, so that instances take turns. */
const MILLISECONDS_A_TABLE = 2_000
/** Time for which the uses of a closed window stay. */
const GRACE_SECONDS = 30

/** Deletes rows, `limit` at a time, until there are fewer, the time of a table is over, or the store is closed. */
export type RepeatDeletion = (deleteSome: (limit: number) => Promise<number>) => Promise<void>

/** A thread that owns a file of SQLite, or connections to PostgreSQL. */
export interface SqlEngine {
  readonly verbs: VerbMethods<StoreVerbs>
  readonly bounds: TableBounds
  /** Seconds of the monotonic clock between two looks at the sizes of the tables. */
  readonly sizeSeconds: number
  /** Rows that one verb of a sweep deletes. */
  readonly sweepRows: number
  readonly quotas: QuotaStore & {
    /** Deletes quotas that are over the bound: those that end first. */
    trim?(repeat: RepeatDeletion): Promise<void>
    /** Deletes quotas that ended before a time. */
    deleteEnded?(repeat: RepeatDeletion, endSeconds: number): Promise<void>
  }
  close(): Promise<void>
}

/** Clock and grace period, which tests replace. */
export type SweepTimes = { readonly clock?: SweepClock; readonly graceSeconds?: number }

/** Creates a store of sessions, uses of challenges and quotas in SQL, on either engine. */
export function createSqlStore(engine: SqlEngine, times?: SweepTimes): Store {
  const { verbs, quotas } = engine
  const upkeep = new Upkeep(engine, times)
  return {
    async createSession(session) {
      upkeep.see(session.nowSeconds)
      return verbs.createSession(session, (await upkeep.full()).sessions)
    },
    async findSession(service, sessionId) {
      const row = await verbs.findSession(service, sessionId)
      return row && parseStoredSession(row)
    },
    rotateRefreshToken(rotation) {
      upkeep.see(rotation.nowSeconds)
      return verbs.rotateRefreshToken(rotation)
    },
    endSession: verbs.endSession,
    revokeSessions: verbs.revokeSessions,
    listSessions: async (...args) => (await verbs.listSessions(...args)).map(parseSession),
    countChallengeUses: verbs.countChallengeUses,
    async consumeChallenge(use) {
      upkeep.see(use.nowSeconds, use)
      return verbs.consumeChallenge(use, (await upkeep.full()).challengeUses)
    },
    chargeQuota(charge) {
      upkeep.see(charge.nowSeconds)
      return quotas.chargeQuota(charge)
    },
    ping() {
      upkeep.see()
      return verbs.ping()
    },
    async close() {
      await upkeep.end()
      await engine.close()
    }
  }
}

/** Sweeps, and looks at the sizes of tables, without a timer: verbs start what is due, and none waits for it. */
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

  full(): Promise<FullTables> {
    return this.#full ?? this.#readSizes()
  }

  /** Starts what is due, by the caller's time; also after the clock was set back. */
  see(nowSeconds = this.#nowSeconds, window?: { window: number; expiresAtSeconds: number }): void {
    if (window !== undefined) this.#clock.observeWindow(window)
    this.#nowSeconds = nowSeconds
    if (this.#sweeping !== undefined || this.#isClosed || nowSeconds === -Infinity) return
    const areSizesDue = performance.now() - this.#sizesReadAt >= this.#engine.sizeSeconds * 1000
    const isSweepDue = Math.abs(nowSeconds - this.#sweptAtSeconds) >= this.#pauseSeconds
    if (!areSizesDue && !isSweepDue) return
    this.#sweeping = this.#maintain(nowSeconds, isSweepDue)
      // The engine is unavailable, which the verbs say. It is tried again when it is due again.
      .catch(() => undefined)
      .finally(() => (this.#sweeping = undefined))
  }

  async end(): Promise<void> {
    this.#isClosed = true
    await this.#sweeping
  }

  async #maintain(nowSeconds: number, isSweepDue: boolean): Promise<void> {
    const { verbs, quotas } = this.#engine
    await this.#readSizes()
    // A failure, such as the time of a statement, must not keep the sweep from its work.
    await quotas.trim?.(this.#repeat).catch(() => undefined)
    if (!isSweepDue) return
    this.#sweptAtSeconds = nowSeconds
    this.#pauseSeconds = SHORTEST_PAUSE + Math.random() * (LONGEST_PAUSE - SHORTEST_PAUSE)
    const sweepSeconds = this.#clock.sweepSeconds(nowSeconds)
    if (sweepSeconds === -Infinity) return
    // A clock that was set back meanwhile counts: rows that it does not call expired stay.
    const endSeconds = (): number => Math.min(sweepSeconds, this.#nowSeconds)
    await this.#repeat((limit) => verbs.deleteExpiredSessions(endSeconds(), limit))
    await this.#repeat((limit) => verbs.deleteClosedUses(this.#graceSeconds, limit))
    if (this.#isClosed) return
    await verbs.closeWindows(endSeconds() - USES_OUTLIVE_WINDOW_SECONDS, this.#graceSeconds)
    await quotas.deleteEnded?.(this.#repeat, endSeconds())
    const { sessions, challengeUses } = await this.full()
    if (sessions || challengeUses) await this.#readSizes()
  }

  #readSizes(): Promise<FullTables> {
    this.#sizesReadAt = performance.now()
    const { verbs, bounds } = this.#engine
    const known = this.#full ?? { sessions: false, challengeUses: false }
    // Ignore the error: if the engine is unavailable, the verbs throw it.
    return (this.#full = verbs.findFullTables(bounds).catch(() => known))
  }

  readonly #repeat: RepeatDeletion = async (deleteSome) => {
    const end = performance.now() + MILLISECONDS_A_TABLE
    const { sweepRows } = this.#engine
    while (!this.#isClosed && performance.now() < end) {
      if ((await deleteSome(sweepRows)) < sweepRows) return
    }
  }
}

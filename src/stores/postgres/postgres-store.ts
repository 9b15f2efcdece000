import type {
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  NewSession,
  QuotaCharge,
  QuotaState,
  Rotation,
  Store
} from '../../ports.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import { SweepClock } from '../sweep-clock.js'
import { ChallengeUseTable } from './challenge-use-table.js'
import { Maintenance } from './maintenance.js'
import { migratePostgres } from './migrate-postgres.js'
import { PostgresDatabase, type PostgresDatabaseOptions } from './postgres-database.js'
import type { PostgresPool } from './postgres-pool.js'
import { QuotaTable } from './quota-table.js'
import { ServiceIds } from './row-keys.js'
import { MIGRATIONS, SCHEMA_TABLE } from './schema.js'
import { SessionTable } from './session-table.js'
import { Sweep } from './sweep.js'
import { TableSizes } from './table-sizes.js'

/** The connection and the bounds of a PostgreSQL store. */
export interface PostgresStoreOptions extends PostgresDatabaseOptions {
  /** Whether the store makes its tables and brings them up to date. Default true; else `migrateStore` does it. */
  migrate?: boolean
  /** Sessions kept, about: checked every 10 s. Beyond it those that were never refreshed are evicted first. Default 10,000,000. */
  maxSessions?: number
  /** Uses of challenges kept, about. Beyond it new logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Quotas kept of each kind, about. Beyond it those that end first are deleted. Default 1,000,000. */
  maxQuotas?: number
}

/** A write that changes nothing: what refuses it, or a standby that it waits for in vain, would do so to a login. */
const PING = {
  name: 'did_auth_ping',
  text: "UPDATE did_auth_numbers SET number = number WHERE name = 'usesForgottenUntil'"
}

/** How long the uses of a window that was closed for good stay, see `Sweep`. */
const GRACE_SECONDS = 30

/**
 * Everything in one database of PostgreSQL that any number of instances share. Each verb that changes something is one
 * statement, so that no instance ever waits for another's answer.
 */
export class PostgresStore implements Store {
  readonly #database: PostgresDatabase
  readonly #isOwnDatabase: boolean
  readonly #mode: 'apply' | 'check'
  readonly #sizes: TableSizes
  readonly #sessions: SessionTable
  readonly #challengeUses: ChallengeUseTable
  readonly #quotas: QuotaTable
  readonly #clock: SweepClock
  readonly #maintenance: Maintenance
  #opening: Promise<void> | undefined
  #isOpen = false

  /** @param times - of tests, whose clocks jump: as of `SweepClock` and `Sweep` */
  constructor(
    source: string | PostgresPool | PostgresDatabase,
    options: PostgresStoreOptions = {},
    times: { sustainedSeconds?: number; graceSeconds?: number } = {}
  ) {
    const { migrate = true, maxSessions = 10_000_000, maxChallengeUses = 1_000_000, maxQuotas = 1_000_000 } = options
    this.#isOwnDatabase = !(source instanceof PostgresDatabase)
    this.#database = source instanceof PostgresDatabase ? source : new PostgresDatabase(source, options)
    this.#mode = migrate ? 'apply' : 'check'
    const bounds = {
      did_auth_sessions: maxSessions,
      did_auth_challenge_uses: maxChallengeUses,
      did_auth_request_quotas: maxQuotas,
      did_auth_anonymous_quotas: maxQuotas
    }
    const services = new ServiceIds(this.#database)
    this.#sizes = new TableSizes(this.#database, bounds)
    this.#sessions = new SessionTable(this.#database, services, this.#sizes)
    this.#challengeUses = new ChallengeUseTable(this.#database, services, this.#sizes)
    this.#quotas = new QuotaTable(this.#database, services)
    this.#clock = new SweepClock(undefined, times.sustainedSeconds)
    const sweep = new Sweep(this.#database, times.graceSeconds ?? GRACE_SECONDS)
    this.#maintenance = new Maintenance(this.#clock, sweep, this.#sizes, bounds)
  }

  async createSession(session: NewSession): Promise<number> {
    await this.#opened(session.nowSeconds)
    return this.#sessions.create(session)
  }

  async findSession(service: string, sessionId: string): Promise<StoredSession | undefined> {
    await this.#opened()
    return this.#sessions.find(service, sessionId)
  }

  async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict> {
    await this.#opened(rotation.nowSeconds)
    return this.#sessions.rotate(rotation)
  }

  async endSession(
    service: string,
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number
  ): Promise<boolean> {
    await this.#opened(nowSeconds)
    return this.#sessions.end(service, sessionId, state, nowSeconds)
  }

  async revokeSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<number> {
    await this.#opened(nowSeconds)
    return this.#sessions.revokeAll(service, canonicalDid, nowSeconds)
  }

  async listSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]> {
    await this.#opened(nowSeconds)
    return this.#sessions.list(service, canonicalDid, nowSeconds)
  }

  async countChallengeUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> {
    await this.#opened()
    return this.#challengeUses.countUses(key)
  }

  async consumeChallenge(use: ChallengeUse): Promise<'consumed' | 'taken' | 'full'> {
    this.#clock.observeWindow(use)
    await this.#opened(use.nowSeconds)
    return this.#challengeUses.consume(use)
  }

  async chargeQuota(charge: QuotaCharge): Promise<QuotaState> {
    await this.#opened(charge.nowSeconds)
    return this.#quotas.charge(charge)
  }

  /** Resolves when the tables are there and a row of them was written. */
  async ping(): Promise<void> {
    await this.#opened()
    await this.#database.query(PING, [], { isRepeatable: true })
  }

  /** Ends sweeps and closes the pool, unless that was given. */
  async close(): Promise<void> {
    await this.#maintenance.close()
    if (this.#isOwnDatabase) await this.#database.close()
  }

  /** The first verb looks after the tables. A database that is unavailable at the start is tried again by the next. */
  async #opened(nowSeconds?: number): Promise<void> {
    if (this.#opening === undefined) {
      this.#opening = this.#open()
      this.#opening.catch(() => {
        this.#opening = undefined
      })
    }
    if (!this.#isOpen) await this.#database.inTime(this.#opening)
    if (nowSeconds !== undefined) this.#maintenance.see(nowSeconds)
  }

  async #open(): Promise<void> {
    await migratePostgres(this.#database, MIGRATIONS, { schemaTable: SCHEMA_TABLE, mode: this.#mode })
    await this.#sizes.read()
    this.#isOpen = true
  }
}

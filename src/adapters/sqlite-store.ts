import type {
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  NewSession,
  QuotaCharge,
  QuotaState,
  Rotation,
  Store
} from '../ports.js'
import type { RefreshVerdict, Session } from '../protocol/session.js'
import * as challengeUses from './sql-challenge-uses.js'
import * as quotas from './sql-quotas.js'
import * as sessions from './sql-sessions.js'
import { sqliteDialect, sqlText } from './sql-text.js'
import type { SqlVerb } from './sql-verb.js'
import { SqliteConnection } from './sqlite-connection.js'
import { isFile, openSqliteDatabase, setBusyTimeout, type SqliteDatabase } from './sqlite-database.js'
import { createTables } from './sqlite-schema.js'

/** Bounds of a SQLite store. */
export interface SqliteStoreOptions {
  /** Sessions kept; the one that would end first goes first. Default 10,000,000. */
  maxSessions?: number
  /** Uses of challenges kept; beyond it new logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Quotas kept of each kind; the one that ends first goes first. Default 1,000,000. */
  maxQuotas?: number
}

/** Short, because the whole process waits; longer waits are left to `SqliteConnection.write`. */
const BUSY_MILLISECONDS = 50

const { forUpdate } = sqliteDialect

/** Everything in one SQLite file that several processes of one machine may share, and that outlives them. */
export class SqliteStore implements Store {
  readonly #maxSessions: number
  readonly #maxChallengeUses: number
  readonly #maxQuotas: number
  /** Sessions and uses of challenges: what was acknowledged survives the loss of power. */
  readonly #durable: SqliteConnection
  /** Quotas: each request writes one, and losing some with the power does no harm. */
  readonly #quick: SqliteConnection
  readonly #isOwner: boolean

  constructor(file: string | SqliteDatabase, options: SqliteStoreOptions = {}) {
    this.#maxSessions = options.maxSessions ?? 10_000_000
    this.#maxChallengeUses = options.maxChallengeUses ?? 1_000_000
    this.#maxQuotas = options.maxQuotas ?? 1_000_000
    this.#isOwner = typeof file === 'string'
    const database = typeof file === 'string' ? openSqliteDatabase(file, 'FULL') : file
    this.#durable = new SqliteConnection(database)
    try {
      this.#durable.transact(createTables())
      const second = typeof file === 'string' && isFile(file) ? openSqliteDatabase(file, 'NORMAL') : undefined
      this.#quick = second === undefined ? this.#durable : new SqliteConnection(second)
      if (this.#isOwner) setBusyTimeout(database, BUSY_MILLISECONDS)
      if (second !== undefined) setBusyTimeout(second, BUSY_MILLISECONDS)
    } catch (error) {
      if (this.#isOwner) this.#durable.close()
      throw error
    }
  }

  async createSession(session: NewSession): Promise<void> {
    await this.#durable.write(() => sessions.createSession(session, this.#maxSessions))
  }

  async findSession(service: string, refreshTokenHash: string): Promise<Session | undefined> {
    return this.#durable.read(sessions.findSession(service, refreshTokenHash))
  }

  async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict | 'unknown'> {
    return this.#durable.write(() => sessions.rotateRefreshToken(rotation, forUpdate))
  }

  async endSession(
    service: string,
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number
  ): Promise<boolean> {
    return this.#durable.write(() => sessions.endSession(service, sessionId, state, nowSeconds))
  }

  async revokeSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<number> {
    return this.#durable.write(() => sessions.revokeSessions(service, canonicalDid, nowSeconds))
  }

  async listSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]> {
    return this.#durable.read(sessions.listSessions(service, canonicalDid, nowSeconds))
  }

  async countChallengeUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> {
    return this.#durable.read(challengeUses.countChallengeUses(key))
  }

  async useChallenge(use: ChallengeUse): Promise<'used' | 'taken' | 'full'> {
    return this.#durable.write(() => challengeUses.useChallenge(use, this.#maxChallengeUses, forUpdate))
  }

  async chargeQuota(charge: QuotaCharge): Promise<QuotaState> {
    return this.#quick.write(() => quotas.chargeQuota(charge, this.#maxQuotas))
  }

  async ping(): Promise<void> {
    await this.#durable.write(readVersion)
  }

  /** Closes what it opened; a database that was given is its giver's to close. */
  async close(): Promise<void> {
    if (!this.#isOwner) return
    this.#quick.close()
    this.#durable.close()
  }
}

/** In a transaction that could write: a file that only can be read is of no use. */
function* readVersion(): SqlVerb<void> {
  yield [sqlText.version]
}

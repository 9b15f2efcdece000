import type {
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  Logger,
  NewSession,
  QuotaCharge,
  QuotaState,
  Rotation,
  Store
} from '../../ports.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import { assertFileName, isFile, OPENING_MILLISECONDS } from './better-sqlite3.js'
import { prepareTables } from './prepare-tables.js'
import { parseStateRow, toChargeRow, type StateRow } from './quota-row.js'
import { parseSession, parseStoredSession, type SessionRow, type StoredSessionRow } from './session-row.js'
import { chooseEngine, openConnection, withCode, type EngineName } from './sqlite-engine.js'
import { startWorker } from './start-worker.js'
import { WorkerClient } from './worker-client.js'
import type { WorkerRole, WorkerSettings } from './worker-message.js'

/** Bounds of a SQLite store. */
export interface SqliteStoreOptions {
  /** Sessions kept; beyond it those that were never refreshed are evicted first. Default 10,000,000. */
  maxSessions?: number
  /** Uses of challenges kept; beyond it new logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Quotas kept of each kind; beyond it the one that ends first is deleted. Default 1,000,000. */
  maxQuotas?: number
  /** Receives a warning when the disk is full and quotas are counted in memory. Default: a process warning, once. */
  logger?: Pick<Logger, 'warn'>
}

/**
 * Everything in one SQLite file that several processes of one machine may share, and that outlives them. Quotas lie in a
 * second file beside it.
 *
 * Two threads work on the database: one commits sessions and uses, and waits for the disk; the other reads and counts quotas,
 * so that a request does not wait for the disk because of another user's login.
 */
export class SqliteStore implements Store {
  readonly #durable: WorkerClient
  readonly #quick: WorkerClient

  /**
   * @param engine - which SQLite to use, for tests; the best one by default
   * @param sustainedSeconds - as of `SweepClock`; 0 in tests, whose clocks jump
   */
  constructor(
    file: string,
    options: SqliteStoreOptions = {},
    engine: EngineName = chooseEngine(),
    sustainedSeconds?: number
  ) {
    const bounds = {
      maxSessions: options.maxSessions ?? 10_000_000,
      maxChallengeUses: options.maxChallengeUses ?? 1_000_000,
      maxQuotas: options.maxQuotas ?? 1_000_000
    }
    assertUsable(file, engine)
    const onNotice = quotaWarning(file, options.logger)
    const start = (role: WorkerRole): WorkerClient => {
      const settings: WorkerSettings = { file, engine, role, bounds, sustainedSeconds }
      return new WorkerClient({ start: () => startWorker(new URL('./worker.js', import.meta.url), settings), onNotice })
    }
    if (isFile(file)) {
      this.#durable = start('durable')
      this.#quick = start('quick')
    } else {
      this.#durable = start('all')
      this.#quick = this.#durable
    }
  }

  async createSession(session: NewSession): Promise<number> {
    return (await this.#durable.call('createSession', session)) as number
  }

  async findSession(service: string, sessionId: string): Promise<StoredSession | undefined> {
    const row = (await this.#quick.call('findSession', service, sessionId)) as StoredSessionRow | undefined
    return row && parseStoredSession(row)
  }

  async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict> {
    return (await this.#durable.call('rotateRefreshToken', rotation)) as RefreshVerdict
  }

  async endSession(
    service: string,
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number
  ): Promise<boolean> {
    return (await this.#durable.call('endSession', service, sessionId, state, nowSeconds)) as boolean
  }

  async revokeSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<number> {
    return (await this.#durable.call('revokeSessions', service, canonicalDid, nowSeconds)) as number
  }

  async listSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]> {
    const rows = (await this.#quick.call('listSessions', service, canonicalDid, nowSeconds)) as SessionRow[]
    return rows.map(parseSession)
  }

  async findMigratedSessionId(service: string, refreshTokenHash: string): Promise<string | undefined> {
    return (await this.#quick.call('findMigratedSessionId', service, refreshTokenHash)) as string | undefined
  }

  async countChallengeUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> {
    return (await this.#quick.call('countChallengeUses', key)) as Record<ChallengeFlow, number>
  }

  async consumeChallenge(use: ChallengeUse): Promise<'consumed' | 'taken' | 'full'> {
    return (await this.#durable.call('consumeChallenge', use)) as 'consumed' | 'taken' | 'full'
  }

  async chargeQuota(charge: QuotaCharge): Promise<QuotaState> {
    return parseStateRow((await this.#quick.call('chargeQuota', toChargeRow(charge))) as StateRow)
  }

  /** Asks each thread, and writes to the file of sessions. */
  async ping(): Promise<void> {
    await Promise.all([this.#durable.call('ping'), this.#quick.call('countChallengeUses', NO_KEY)])
  }

  async close(): Promise<void> {
    await Promise.all([this.#durable.close(), this.#quick.close()])
  }
}

/** One warning for a store, whichever of its threads sees the full disk first. */
function quotaWarning(file: string, logger: SqliteStoreOptions['logger']): () => void {
  let hasWarned = false
  return () => {
    if (hasWarned) return
    hasWarned = true
    const message = 'the disk is full: quotas are counted in memory'
    if (logger === undefined) process.emitWarning(`express-did-auth: ${message} (${file})`)
    else logger.warn({ event: 'quotas-in-memory' }, message)
  }
}

const NO_KEY: ChallengeUseKey = { service: '', did: '', window: 0 }

/**
 * Opens the file for a moment, on the caller's thread, so that what is wrong with it is known at once; and creates its
 * tables, or brings them up to date.
 */
function assertUsable(file: unknown, engine: EngineName): void {
  assertFileName(file)
  const options = { synchronous: 'FULL', busyMilliseconds: OPENING_MILLISECONDS } as const
  const connection = openConnection(isFile(file) ? file : ':memory:', engine, options)
  try {
    prepareTables(connection)
  } catch (error) {
    throw withCode(error)
  } finally {
    connection.close()
  }
}

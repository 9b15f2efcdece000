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
import { MemoryStore } from '../memory/memory-store.js'
import { assertFileName, isFile, OPENING_MILLISECONDS } from './better-sqlite3.js'
import { prepareTables } from './prepare-tables.js'
import { parseSession, parseStoredSession, type SessionRow, type StoredSessionRow } from './session-row.js'
import { chooseEngine, openConnection, withCode, type EngineName } from './sqlite-engine.js'
import { startWorker } from './start-worker.js'
import { WorkerClient } from './worker-client.js'
import type { WorkerSettings } from './worker-message.js'

/** Bounds of a SQLite store. */
export interface SqliteStoreOptions {
  /** Sessions kept; beyond it those that were never refreshed are evicted first. Default 10,000,000. */
  maxSessions?: number
  /** Uses of challenges kept; beyond it new logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Quotas kept in memory, of each kind; beyond it the one that began first is deleted. Default 100,000. */
  maxQuotas?: number
}

/**
 * Sessions and uses of challenges in one SQLite file that several processes of one machine may share, and that outlives
 * them. A thread works on it, and waits for the disk there. Quotas lie in the memory of each process: atomic, not durable.
 */
export class SqliteStore implements Store {
  readonly #worker: WorkerClient
  readonly #quotas: MemoryStore

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
      maxChallengeUses: options.maxChallengeUses ?? 1_000_000
    }
    assertUsable(file, engine)
    const settings: WorkerSettings = { file, engine, bounds, sustainedSeconds }
    this.#worker = new WorkerClient({ start: () => startWorker(new URL('./worker.js', import.meta.url), settings) })
    this.#quotas = new MemoryStore(options.maxQuotas === undefined ? {} : { maxQuotas: options.maxQuotas })
  }

  async createSession(session: NewSession): Promise<number> {
    return (await this.#worker.call('createSession', session)) as number
  }

  async findSession(service: string, sessionId: string): Promise<StoredSession | undefined> {
    const row = (await this.#worker.call('findSession', service, sessionId)) as StoredSessionRow | undefined
    return row && parseStoredSession(row)
  }

  async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict> {
    return (await this.#worker.call('rotateRefreshToken', rotation)) as RefreshVerdict
  }

  async endSession(
    service: string,
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number
  ): Promise<boolean> {
    return (await this.#worker.call('endSession', service, sessionId, state, nowSeconds)) as boolean
  }

  async revokeSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<number> {
    return (await this.#worker.call('revokeSessions', service, canonicalDid, nowSeconds)) as number
  }

  async listSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]> {
    const rows = (await this.#worker.call('listSessions', service, canonicalDid, nowSeconds)) as SessionRow[]
    return rows.map(parseSession)
  }

  async countChallengeUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> {
    return (await this.#worker.call('countChallengeUses', key)) as Record<ChallengeFlow, number>
  }

  async consumeChallenge(use: ChallengeUse): Promise<'consumed' | 'taken' | 'full'> {
    return (await this.#worker.call('consumeChallenge', use)) as 'consumed' | 'taken' | 'full'
  }

  async chargeQuota(charge: QuotaCharge): Promise<QuotaState> {
    return this.#quotas.chargeQuota(charge)
  }

  /** Writes to the file. */
  async ping(): Promise<void> {
    await this.#worker.call('ping')
  }

  async close(): Promise<void> {
    await this.#worker.close()
  }
}

/**
 * Opens the file for a moment, on the caller's thread, so that what is wrong with it is known at once; and creates its
 * tables.
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

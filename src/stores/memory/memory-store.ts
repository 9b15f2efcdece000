import type {
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  NewSession,
  QuotaCharge,
  QuotaState,
  QuotaStore,
  Rotation,
  Store
} from '../../ports.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import { SweepClock } from '../sweep-clock.js'
import { MemoryChallengeUses } from './memory-challenge-uses.js'
import { memoryQuotas } from './memory-quotas.js'
import { MemorySessions } from './memory-sessions.js'

/** Bounds of a memory store. */
export interface MemoryStoreOptions {
  /** Sessions held; beyond it those that were never refreshed are evicted first. Default 1,000,000. */
  maxSessions?: number
  /** Uses of challenges held; beyond it new logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Quotas held of each kind; beyond it the one that began first is deleted. Default 100,000. */
  maxQuotas?: number
  /** Seconds by a monotonic clock, for tests. Default: `performance.now()`. */
  monotonicSeconds?: () => number
}

/** Each verb runs to its end without a pause, which is what makes it atomic. */
export class MemoryStore implements Store {
  readonly #sessions: MemorySessions
  readonly #challengeUses: MemoryChallengeUses
  readonly #quotas: QuotaStore

  constructor(options: MemoryStoreOptions = {}) {
    const clock = new SweepClock(options.monotonicSeconds)
    this.#sessions = new MemorySessions(options.maxSessions ?? 1_000_000, clock)
    this.#challengeUses = new MemoryChallengeUses(options.maxChallengeUses ?? 1_000_000, clock)
    this.#quotas = memoryQuotas(options.maxQuotas ?? 100_000)
  }

  async createSession(session: NewSession): Promise<number> {
    return this.#sessions.create(session)
  }

  async findSession(service: string, sessionId: string): Promise<StoredSession | undefined> {
    return this.#sessions.find(service, sessionId)
  }

  async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict> {
    return this.#sessions.rotate(rotation)
  }

  async endSession(
    service: string,
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number
  ): Promise<boolean> {
    return this.#sessions.end(service, sessionId, state, nowSeconds)
  }

  async revokeSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<number> {
    return this.#sessions.revokeAll(service, canonicalDid, nowSeconds)
  }

  async listSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]> {
    return this.#sessions.list(service, canonicalDid, nowSeconds)
  }

  async countChallengeUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> {
    return this.#challengeUses.count(key)
  }

  async consumeChallenge(use: ChallengeUse): Promise<'consumed' | 'taken' | 'full'> {
    return this.#challengeUses.consume(use)
  }

  chargeQuota(charge: QuotaCharge): Promise<QuotaState> {
    return this.#quotas.chargeQuota(charge)
  }

  async ping(): Promise<void> {
    // Memory is always available.
  }

  async close(): Promise<void> {
    // A memory store has no resources to release.
  }
}

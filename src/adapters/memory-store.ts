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
import { MemoryChallengeUses } from './memory-challenge-uses.js'
import { MemoryQuotas } from './memory-quotas.js'
import { MemorySessions } from './memory-sessions.js'

/** Bounds of a memory store. */
export interface MemoryStoreOptions {
  /** Sessions held; the one refreshed longest ago goes first. Default 1,000,000. */
  maxSessions?: number
  /** Uses of challenges held; beyond it new logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Quotas held of each kind; the one that began first goes first. Default 100,000. */
  maxQuotas?: number
}

/**
 * Everything in this process's memory, bounded in count and time, and forgotten at restart.
 *
 * Each verb runs to its end without a pause, which is what makes it atomic.
 */
export class MemoryStore implements Store {
  readonly #sessions: MemorySessions
  readonly #challengeUses: MemoryChallengeUses
  readonly #quotas: Record<QuotaCharge['kind'], MemoryQuotas>

  constructor(options: MemoryStoreOptions = {}) {
    this.#sessions = new MemorySessions(options.maxSessions ?? 1_000_000)
    this.#challengeUses = new MemoryChallengeUses(options.maxChallengeUses ?? 1_000_000)
    const maxQuotas = options.maxQuotas ?? 100_000
    this.#quotas = { request: new MemoryQuotas(maxQuotas), naming: new MemoryQuotas(maxQuotas) }
  }

  async createSession(session: NewSession): Promise<void> {
    this.#sessions.create(session)
  }

  async findSession(service: string, refreshTokenHash: string): Promise<Session | undefined> {
    return this.#sessions.find(service, refreshTokenHash)
  }

  async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict | 'unknown'> {
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

  async useChallenge(use: ChallengeUse): Promise<'used' | 'taken' | 'full'> {
    return this.#challengeUses.use(use)
  }

  async chargeQuota(charge: QuotaCharge): Promise<QuotaState> {
    return this.#quotas[charge.kind].charge(charge)
  }

  async ping(): Promise<void> {
    // Memory is always there.
  }

  async close(): Promise<void> {
    // Nothing is held open.
  }
}

import type { NewSession, Rotation } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import {
  judgeRefresh,
  MAX_SESSIONS_PER_DID,
  type RefreshVerdict,
  type Session,
  type StoredSession
} from '../../protocol/session.js'
import type { SweepClock } from '../sweep-clock.js'
import { AgedMap } from './memory-aged-map.js'
import { SessionRecord } from './memory-session-record.js'

/** Expired sessions that are deleted when one is created: never a long pause. */
const PURGED_AT_ONCE = 2

/** Sessions of one service. */
export class ServiceSessions {
  readonly #maxSessions: number
  readonly #clock: SweepClock
  /** By id, in the order of creation. They are the first to be evicted, so that sessions of new DIDs evict no returning user. */
  readonly #neverRefreshed = new AgedMap<SessionRecord>()
  /** By id, in the order of their last refresh. */
  readonly #refreshed = new AgedMap<SessionRecord>()
  readonly #newestOf = new Map<string, SessionRecord>()

  constructor(maxSessions: number, clock: SweepClock) {
    this.#maxSessions = maxSessions
    this.#clock = clock
  }

  /** Adds a session and answers how many others were evicted because the store is full. */
  create(session: NewSession): number {
    const { nowSeconds } = session
    const user = canonicalDid(session.did)
    this.#deleteExpired(this.#clock.sweepSeconds(nowSeconds))
    this.#trimSessionsOf(user, nowSeconds)
    const evicted = this.#evict(nowSeconds)
    const record = new SessionRecord(session, user)
    record.older = this.#newestOf.get(user)
    this.#neverRefreshed.set(record.sessionId, record)
    this.#newestOf.set(user, record)
    return evicted
  }

  find(sessionId: string): StoredSession | undefined {
    return this.#recordOf(sessionId)?.toStoredSession()
  }

  rotate(rotation: Rotation): RefreshVerdict {
    const record = this.#recordOf(rotation.sessionId)
    if (record === undefined) return 'unknown'
    const verdict = judgeRefresh(record, rotation)
    if (verdict === 'rotate') {
      record.rotate(rotation)
      this.#neverRefreshed.delete(record.sessionId)
      this.#refreshed.set(record.sessionId, record)
    }
    if (verdict === 'reused') record.state = 'revoked'
    return verdict
  }

  end(sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    const record = this.#recordOf(sessionId)
    if (record === undefined || !record.isActive(nowSeconds)) return false
    record.state = state
    return true
  }

  list(user: string, nowSeconds: number): Session[] {
    return this.#chainOf(user)
      .filter((record) => record.isActive(nowSeconds))
      .map((record) => record.toSession())
  }

  #recordOf(sessionId: string): SessionRecord | undefined {
    return this.#neverRefreshed.get(sessionId) ?? this.#refreshed.get(sessionId)
  }

  #delete(record: SessionRecord): void {
    this.#neverRefreshed.delete(record.sessionId)
    this.#refreshed.delete(record.sessionId)
    this.#unchain(record)
  }

  #chainOf(user: string): SessionRecord[] {
    const chain: SessionRecord[] = []
    for (let record = this.#newestOf.get(user); record !== undefined; record = record.older) chain.push(record)
    return chain
  }

  #unchain(record: SessionRecord): void {
    const user = canonicalDid(record.did)
    const chain = this.#chainOf(user)
    const newer = chain[chain.indexOf(record) - 1]
    if (newer !== undefined) newer.older = record.older
    else if (record.older !== undefined) this.#newestOf.set(user, record.older)
    else this.#newestOf.delete(user)
  }

  /** A chain stays short: expired sessions are dropped first, then ended ones, then the oldest. */
  #trimSessionsOf(user: string, nowSeconds: number): void {
    const chain = this.#chainOf(user)
    if (chain.length < MAX_SESSIONS_PER_DID) return
    const isOver = (record: SessionRecord): boolean => nowSeconds >= record.expiresAtSeconds
    const last =
      chain.findLast(isOver) ?? chain.findLast((record) => record.state !== 'active') ?? chain[chain.length - 1]
    if (last !== undefined) this.#delete(last)
  }

  #deleteExpired(sweepSeconds: number): void {
    for (let purged = 0; purged < PURGED_AT_ONCE; purged += 1) {
      const oldest = [this.#neverRefreshed.oldest()?.[1], this.#refreshed.oldest()?.[1]]
      const expired = oldest.find((record) => record !== undefined && sweepSeconds >= record.expiresAtSeconds)
      if (expired === undefined) return
      this.#delete(expired)
    }
  }

  #evict(nowSeconds: number): number {
    if (this.#neverRefreshed.size + this.#refreshed.size < this.#maxSessions) return 0
    const record = (this.#neverRefreshed.oldest() ?? this.#refreshed.oldest())?.[1]
    if (record === undefined) return 0
    this.#delete(record)
    return record.isActive(nowSeconds) ? 1 : 0
  }
}

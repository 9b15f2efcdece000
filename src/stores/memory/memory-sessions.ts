import { Buffer } from 'node:buffer'
import type { NewSession, Rotation } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import type { JsonObject } from '../../protocol/json.js'
import { judgeRefresh, MAX_SESSIONS_PER_DID } from '../../protocol/session.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import { packReplacedToken, REPLACED_BYTES, createStoredSession } from '../replaced-tokens.js'
import type { SweepClock } from '../sweep-clock.js'
import { AgedMap } from './aged-map.js'

/** Expired sessions that are deleted when one is created: never a long pause. */
const PURGED_AT_ONCE = 2

/** Sessions of one service. */
export class MemorySessions {
  readonly #maxSessions: number
  readonly #clock: SweepClock
  /** Sessions by id, in the order of creation. Evicted first, so that new DIDs evict no returning user. */
  readonly #neverRefreshed = new AgedMap<SessionRecord>()
  /** Sessions by id, in the order of their last refresh. */
  readonly #refreshed = new AgedMap<SessionRecord>()
  /** The head of each user's chain. */
  readonly #newestOf = new Map<string, SessionRecord>()

  constructor(maxSessions: number, clock: SweepClock) {
    this.#maxSessions = maxSessions
    this.#clock = clock
  }

  create({ sessionId, did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds }: NewSession): number {
    const user = canonicalDid(did)
    this.#deleteExpired(this.#clock.sweepSeconds(nowSeconds))
    this.#trimSessionsOf(user, nowSeconds)
    const evicted = this.#evict(nowSeconds)
    const record: SessionRecord = {
      // V8 stores a concatenated id as a tree of its parts until it is copied, which needs more memory.
      sessionId: Buffer.from(sessionId).toString(),
      // One string is both key and value if the spellings agree.
      did: did === user ? user : did,
      state: 'active',
      tokenClaims: tokenClaims && JSON.stringify(tokenClaims),
      createdAtSeconds: nowSeconds,
      rotatedAtSeconds: nowSeconds,
      expiresAtSeconds,
      refreshTokenHash,
      replaced: '',
      older: this.#newestOf.get(user)
    }
    this.#neverRefreshed.set(record.sessionId, record)
    this.#newestOf.set(user, record)
    return evicted
  }

  find(sessionId: string): StoredSession | undefined {
    const record = this.#recordOf(sessionId)
    return record && toStoredSession(record)
  }

  rotate(rotation: Rotation): RefreshVerdict {
    const record = this.#recordOf(rotation.sessionId)
    if (record === undefined) return 'unknown'
    const verdict = judgeRefresh(toStoredSession(record), rotation)
    if (verdict === 'rotate') {
      const { nextHash, tokenClaims, nowSeconds, nextExpiresAtSeconds } = rotation
      const token = packReplacedToken(record.refreshTokenHash, nowSeconds).toString('latin1')
      record.replaced = (token + record.replaced).slice(0, REPLACED_BYTES)
      record.refreshTokenHash = nextHash
      record.tokenClaims = tokenClaims && JSON.stringify(tokenClaims)
      record.rotatedAtSeconds = nowSeconds
      record.expiresAtSeconds = nextExpiresAtSeconds
      this.#neverRefreshed.delete(record.sessionId)
      this.#refreshed.set(record.sessionId, record)
    }
    if (verdict === 'reused') record.state = 'revoked'
    return verdict
  }

  end(sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    const record = this.#recordOf(sessionId)
    if (record === undefined || !isActive(record, nowSeconds)) return false
    record.state = state
    return true
  }

  revokeAll(user: string, nowSeconds: number): number {
    const active = this.#activeOf(user, nowSeconds)
    for (const record of active) record.state = 'revoked'
    return active.length
  }

  list(user: string, nowSeconds: number): Session[] {
    return this.#activeOf(user, nowSeconds).map(toSession)
  }

  #recordOf(sessionId: string): SessionRecord | undefined {
    return this.#neverRefreshed.get(sessionId) ?? this.#refreshed.get(sessionId)
  }

  #delete(record: SessionRecord): void {
    this.#neverRefreshed.delete(record.sessionId)
    this.#refreshed.delete(record.sessionId)
    const user = canonicalDid(record.did)
    const chain = this.#chainOf(user)
    const newer = chain[chain.indexOf(record) - 1]
    if (newer !== undefined) newer.older = record.older
    else if (record.older !== undefined) this.#newestOf.set(user, record.older)
    else this.#newestOf.delete(user)
  }

  #chainOf(user: string): SessionRecord[] {
    const chain: SessionRecord[] = []
    for (let record = this.#newestOf.get(user); record !== undefined; record = record.older) chain.push(record)
    return chain
  }

  #activeOf(user: string, nowSeconds: number): SessionRecord[] {
    return this.#chainOf(user).filter((record) => isActive(record, nowSeconds))
  }

  /** Shortens the user's chain: drops expired sessions first, then ended ones, then the oldest. */
  #trimSessionsOf(user: string, nowSeconds: number): void {
    const chain = this.#chainOf(user)
    if (chain.length < MAX_SESSIONS_PER_DID) return
    const expired = chain.findLast((record) => nowSeconds >= record.expiresAtSeconds)
    const last = expired ?? chain.findLast((record) => record.state !== 'active') ?? chain.at(-1)
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
    return isActive(record, nowSeconds) ? 1 : 0
  }
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** A session in memory: flat and small, because there may be a million. */
interface SessionRecord extends Writable<Omit<StoredSession, 'tokenClaims' | 'replacedTokens'>> {
  /** JSON, which is small and cannot be changed from outside. */
  tokenClaims: string | undefined
  /** Output of `packReplacedToken`, one character per byte: a Buffer would need more memory than its content. */
  replaced: string
  /** The user's session before this one: each user's sessions are a chain, the newest first. */
  older: SessionRecord | undefined
}

function isActive({ state, expiresAtSeconds }: SessionRecord, nowSeconds: number): boolean {
  return state === 'active' && nowSeconds < expiresAtSeconds
}

/** Returns a copy that a caller may keep. */
function toSession({ sessionId, did, state, tokenClaims, ...times }: SessionRecord): Session {
  const { createdAtSeconds, rotatedAtSeconds, expiresAtSeconds } = times
  const claims = tokenClaims === undefined ? undefined : (JSON.parse(tokenClaims) as JsonObject)
  return { sessionId, did, state, tokenClaims: claims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds }
}

function toStoredSession(record: SessionRecord): StoredSession {
  return createStoredSession(toSession(record), record.refreshTokenHash, record.replaced, 'latin1')
}

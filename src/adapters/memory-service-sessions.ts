import type { NewSession, Rotation } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'
import type { JsonObject } from '../protocol/json.js'
import {
  judgeRefresh,
  MAX_REPLACED_TOKENS,
  MAX_SESSIONS_PER_DID,
  type RefreshVerdict,
  type Session
} from '../protocol/session.js'
import { OldestEntry } from './memory-oldest-entry.js'

/** A session as held: flat and small, because there may be a million. */
interface SessionRecord {
  readonly sessionId: string
  readonly did: string
  state: Session['state']
  /** JSON, because it is small, and nobody can change it from outside. */
  readonly tokenClaims: string | undefined
  readonly createdAtSeconds: number
  rotatedAtSeconds: number
  expiresAtSeconds: number
  refreshTokenHash: string
  replaced: ReplacedToken[] | undefined
  /** The user's session before this one: each user's sessions are a chain, the newest first. */
  older: SessionRecord | undefined
}

interface ReplacedToken {
  readonly hash: string
  readonly atSeconds: number
}

/** Expired sessions that go when one comes: never a long pause. */
const PURGED_AT_ONCE = 2

/** Sessions of one service. */
export class ServiceSessions {
  readonly #maxSessions: number
  /** By the hash of the current refresh token, in the order of issue: the first is the one that ends first. */
  readonly #byHash = new Map<string, SessionRecord>()
  readonly #oldest = new OldestEntry(this.#byHash)
  readonly #byReplacedHash = new Map<string, SessionRecord>()
  readonly #oldestReplaced = new OldestEntry(this.#byReplacedHash)
  readonly #byId = new Map<string, SessionRecord>()
  readonly #newestOf = new Map<string, SessionRecord>()

  constructor(maxSessions: number) {
    this.#maxSessions = maxSessions
  }

  create({ sessionId, did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds }: NewSession): void {
    const user = canonicalDid(did)
    this.#makeRoom(nowSeconds)
    this.#makeRoomOf(user, nowSeconds)
    const record: SessionRecord = {
      sessionId,
      // One string serves as key and as value where the spellings agree.
      did: did === user ? user : did,
      state: 'active',
      tokenClaims: tokenClaims && JSON.stringify(tokenClaims),
      createdAtSeconds: nowSeconds,
      rotatedAtSeconds: nowSeconds,
      expiresAtSeconds,
      refreshTokenHash,
      replaced: undefined,
      older: this.#newestOf.get(user)
    }
    this.#byHash.set(refreshTokenHash, record)
    this.#byId.set(sessionId, record)
    this.#newestOf.set(user, record)
  }

  find(hash: string): Session | undefined {
    const record = this.#byHash.get(hash) ?? this.#byReplacedHash.get(hash)
    return record && toSession(record)
  }

  rotate(rotation: Rotation): RefreshVerdict | 'unknown' {
    const { presentedHash, nowSeconds, graceSeconds } = rotation
    const record = this.#byHash.get(presentedHash) ?? this.#byReplacedHash.get(presentedHash)
    if (record === undefined) return 'unknown'
    const { state, expiresAtSeconds } = record
    const replacedAtSeconds = record.replaced?.find(({ hash }) => hash === presentedHash)?.atSeconds
    const verdict = judgeRefresh({ state, expiresAtSeconds, replacedAtSeconds }, nowSeconds, graceSeconds)
    if (verdict === 'rotate') this.#replace(record, rotation)
    if (verdict === 'reused') record.state = 'revoked'
    return verdict
  }

  end(sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    const record = this.#byId.get(sessionId)
    if (record === undefined || !isActive(record, nowSeconds)) return false
    record.state = state
    return true
  }

  list(user: string, nowSeconds: number): Session[] {
    return this.#chainOf(user)
      .filter((record) => isActive(record, nowSeconds))
      .map(toSession)
  }

  #replace(record: SessionRecord, { nextHash, nowSeconds, nextExpiresAtSeconds }: Rotation): void {
    const replaced = (record.replaced ??= [])
    replaced.push({ hash: record.refreshTokenHash, atSeconds: nowSeconds })
    this.#byReplacedHash.set(record.refreshTokenHash, record)
    if (replaced.length > MAX_REPLACED_TOKENS) this.#forgetFirstReplaced(record)
    // One for each session that fits in: else they could take far more room than the sessions.
    const oldest = this.#byReplacedHash.size > this.#maxSessions ? this.#oldestReplaced.find() : undefined
    if (oldest !== undefined) this.#forgetFirstReplaced(oldest[1])
    this.#byHash.delete(record.refreshTokenHash)
    this.#byHash.set(nextHash, record)
    record.refreshTokenHash = nextHash
    record.rotatedAtSeconds = nowSeconds
    record.expiresAtSeconds = nextExpiresAtSeconds
  }

  #forgetFirstReplaced({ replaced }: SessionRecord): void {
    const first = replaced?.shift()
    if (first !== undefined) this.#byReplacedHash.delete(first.hash)
  }

  #forget(record: SessionRecord): void {
    this.#byHash.delete(record.refreshTokenHash)
    this.#byId.delete(record.sessionId)
    for (const { hash } of record.replaced ?? []) this.#byReplacedHash.delete(hash)
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

  /** A chain stays short: what is over anyway goes first, then the oldest. */
  #makeRoomOf(user: string, nowSeconds: number): void {
    const chain = this.#chainOf(user)
    if (chain.length < MAX_SESSIONS_PER_DID) return
    const isOver = (record: SessionRecord): boolean => nowSeconds >= record.expiresAtSeconds
    const last =
      chain.findLast(isOver) ?? chain.findLast((record) => record.state !== 'active') ?? chain[chain.length - 1]
    if (last !== undefined) this.#forget(last)
  }

  /** Drops expired sessions, and the one refreshed longest ago where there is no room. */
  #makeRoom(nowSeconds: number): void {
    for (let purged = 0; purged < PURGED_AT_ONCE; purged += 1) {
      const record = this.#oldest.find()?.[1]
      if (record === undefined) return
      if (nowSeconds < record.expiresAtSeconds && this.#byHash.size < this.#maxSessions) return
      this.#forget(record)
    }
  }
}

function isActive(record: SessionRecord, nowSeconds: number): boolean {
  return record.state === 'active' && nowSeconds < record.expiresAtSeconds
}

function toSession(record: SessionRecord): Session {
  const { sessionId, did, state, tokenClaims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds } = record
  return {
    sessionId,
    did,
    state,
    tokenClaims: tokenClaims === undefined ? undefined : (JSON.parse(tokenClaims) as JsonObject),
    createdAtSeconds,
    rotatedAtSeconds,
    expiresAtSeconds
  }
}

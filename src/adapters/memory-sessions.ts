import type { NewSession, Rotation } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'
import {
  judgeRefresh,
  MAX_REPLACED_TOKENS,
  MAX_SESSIONS_PER_DID,
  type RefreshVerdict,
  type Session
} from '../protocol/session.js'

/** A session as held: flat and small, because there may be a million. */
interface SessionRecord {
  sessionId: string
  did: string
  state: Session['state']
  tokenClaims: Session['tokenClaims']
  createdAtSeconds: number
  rotatedAtSeconds: number
  expiresAtSeconds: number
  refreshTokenHash: string
  replaced: ReplacedToken[] | undefined
  /** The user's session before this one: each user's active sessions are a chain, the newest first. */
  older: SessionRecord | undefined
}

interface ReplacedToken {
  hash: string
  atSeconds: number
}

/** Sessions of all services, each service's apart. */
export class MemorySessions {
  readonly #maxSessions: number
  readonly #services = new Map<string, ServiceSessions>()

  constructor(maxSessions: number) {
    this.#maxSessions = maxSessions
  }

  create(session: NewSession): void {
    let sessions = this.#services.get(session.service)
    if (sessions === undefined) {
      sessions = new ServiceSessions(this.#maxSessions)
      this.#services.set(session.service, sessions)
    }
    sessions.create(session)
  }

  find(service: string, hash: string): Session | undefined {
    return this.#services.get(service)?.find(hash)
  }

  rotate(rotation: Rotation): RefreshVerdict | 'unknown' {
    return this.#services.get(rotation.service)?.rotate(rotation) ?? 'unknown'
  }

  end(service: string, sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    return this.#services.get(service)?.end(sessionId, state, nowSeconds) ?? false
  }

  revokeAll(service: string, did: string, nowSeconds: number): number {
    const active = this.list(service, did, nowSeconds)
    return active.filter(({ sessionId }) => this.end(service, sessionId, 'revoked', nowSeconds)).length
  }

  list(service: string, did: string, nowSeconds: number): Session[] {
    return this.#services.get(service)?.list(did, nowSeconds) ?? []
  }
}

class ServiceSessions {
  readonly #maxSessions: number
  /** By the hash of the current refresh token, in the order of issue: the first is the one that ends first. */
  readonly #byHash = new Map<string, SessionRecord>()
  readonly #byReplacedHash = new Map<string, SessionRecord>()
  readonly #byId = new Map<string, SessionRecord>()
  readonly #newestOf = new Map<string, SessionRecord>()

  constructor(maxSessions: number) {
    this.#maxSessions = maxSessions
  }

  create({ sessionId, did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds }: NewSession): void {
    this.#makeRoom(nowSeconds)
    const user = canonicalDid(did)
    const record: SessionRecord = {
      sessionId,
      // One string serves as key and as value where the spellings agree.
      did: did === user ? user : did,
      state: 'active',
      tokenClaims,
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
    const oldest = this.#chainOf(user)[MAX_SESSIONS_PER_DID]
    if (oldest !== undefined) this.#forget(oldest)
  }

  find(hash: string): Session | undefined {
    const record = this.#byHash.get(hash) ?? this.#byReplacedHash.get(hash)
    return record && toSession(record)
  }

  rotate(rotation: Rotation): RefreshVerdict | 'unknown' {
    const { presentedHash, nowSeconds } = rotation
    const record = this.#byHash.get(presentedHash) ?? this.#byReplacedHash.get(presentedHash)
    if (record === undefined) return 'unknown'
    const replacedAtSeconds = record.replaced?.find(({ hash }) => hash === presentedHash)?.atSeconds
    const verdict = judgeRefresh({ ...record, replacedAtSeconds }, nowSeconds, rotation.graceSeconds)
    if (verdict === 'rotate') this.#replace(record, rotation)
    if (verdict === 'reused') this.#close(record, 'revoked')
    return verdict
  }

  end(sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    const record = this.#byId.get(sessionId)
    if (record === undefined || !isActive(record, nowSeconds)) return false
    this.#close(record, state)
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
    if (replaced.length > MAX_REPLACED_TOKENS) this.#byReplacedHash.delete(replaced.shift()?.hash ?? '')
    this.#byHash.delete(record.refreshTokenHash)
    this.#byHash.set(nextHash, record)
    record.refreshTokenHash = nextHash
    record.rotatedAtSeconds = nowSeconds
    record.expiresAtSeconds = nextExpiresAtSeconds
  }

  /** Ends a session. Its mark stays until it would have expired; what is no longer needed goes at once. */
  #close(record: SessionRecord, state: 'loggedOut' | 'revoked'): void {
    record.state = state
    record.tokenClaims = undefined
    this.#unchain(record)
    this.#forgetReplaced(record)
  }

  #forget(record: SessionRecord): void {
    this.#byHash.delete(record.refreshTokenHash)
    this.#byId.delete(record.sessionId)
    this.#unchain(record)
    this.#forgetReplaced(record)
  }

  #forgetReplaced(record: SessionRecord): void {
    for (const { hash } of record.replaced ?? []) this.#byReplacedHash.delete(hash)
    record.replaced = undefined
  }

  #chainOf(user: string): SessionRecord[] {
    const chain: SessionRecord[] = []
    for (let record = this.#newestOf.get(user); record !== undefined; record = record.older) chain.push(record)
    return chain
  }

  #unchain(record: SessionRecord): void {
    const user = canonicalDid(record.did)
    const chain = this.#chainOf(user)
    const index = chain.indexOf(record)
    if (index < 0) return
    const newer = chain[index - 1]
    if (newer !== undefined) newer.older = record.older
    else if (record.older !== undefined) this.#newestOf.set(user, record.older)
    else this.#newestOf.delete(user)
    record.older = undefined
  }

  /** Drops up to two expired sessions, and the one refreshed longest ago where there is no room: never a long pause. */
  #makeRoom(nowSeconds: number): void {
    let looked = 0
    for (const record of this.#byHash.values()) {
      const isOver = record.expiresAtSeconds <= nowSeconds
      if ((!isOver && this.#byHash.size < this.#maxSessions) || looked === 2) return
      this.#forget(record)
      looked += 1
    }
  }
}

function isActive(record: SessionRecord, nowSeconds: number): boolean {
  return record.state === 'active' && nowSeconds < record.expiresAtSeconds
}

function toSession(record: SessionRecord): Session {
  const { sessionId, did, state, tokenClaims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds } = record
  return { sessionId, did, state, tokenClaims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds }
}

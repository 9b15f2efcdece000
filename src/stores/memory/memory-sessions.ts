import { Buffer } from 'node:buffer'
import type { EndRecord, EndedSession, NewSession, Rotation, SessionStore } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import type { JsonObject } from '../../protocol/json.js'
import { judgeRefresh, MAX_SESSIONS_PER_DID } from '../../protocol/session.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import { packReplacedToken, parseReplacedTokens, REPLACED_BYTES } from '../replaced-tokens.js'
import type { SweepClock } from '../sweep-clock.js'
import { EndedSessions } from './ended-sessions.js'

/** Maximum number of expired sessions that are deleted when one is created, so that there is never a long pause. */
const PURGED_AT_ONCE = 2

/** Creates the sessions of a memory store, which are bounded for each service. */
export function createMemorySessions(maxSessions: number, clock: SweepClock): SessionStore {
  const sessionsByService = new Map<string, ServiceSessions>()
  const getSessions = (service: string): ServiceSessions => {
    const sessions = sessionsByService.get(service) ?? new ServiceSessions(maxSessions, clock)
    sessionsByService.set(service, sessions)
    return sessions
  }
  return {
    createSession: async (session) => getSessions(session.service).createSession(session),
    findSession: async (service, ...args) => getSessions(service).findSession(...args),
    rotateRefreshToken: async (rotation) => getSessions(rotation.service).rotateRefreshToken(rotation),
    endSession: async (service, ...args) => getSessions(service).endSession(...args),
    revokeSessions: async (service, ...args) => getSessions(service).revokeSessions(...args),
    listSessions: async (service, ...args) => getSessions(service).listSessions(...args),
    listEndedSessions: async (service, ...args) => getSessions(service).listEndedSessions(...args)
  }
}

/** Sessions of one service. Each verb runs synchronously to its end, and is therefore atomic. */
class ServiceSessions {
  readonly #maxSessions: number
  readonly #clock: SweepClock
  /** Sessions by id, in the order of creation. They are evicted first, so that new DIDs evict no returning user. */
  readonly #neverRefreshed = new AgedMap<SessionRecord>()
  /** Sessions by id, in the order of their last refresh. */
  readonly #refreshed = new AgedMap<SessionRecord>()
  /** Newest session of each user: the head of the user's chain. */
  readonly #newestByUser = new Map<string, SessionRecord>()
  readonly #ended: EndedSessions

  constructor(maxSessions: number, clock: SweepClock) {
    this.#maxSessions = maxSessions
    this.#clock = clock
    this.#ended = new EndedSessions(maxSessions)
  }

  createSession(session: NewSession): number {
    const { sessionId, did, refreshTokenHash, tokenClaims, description } = session
    const { nowSeconds, expiresAtSeconds, listUntilSeconds } = session
    const user = canonicalDid(did)
    this.#deleteExpired(this.#clock.sweepSeconds(nowSeconds))
    this.#drop(this.#findSurplus(user, nowSeconds), nowSeconds, listUntilSeconds)
    const isEvicted = this.#drop(this.#findEvicted(), nowSeconds, listUntilSeconds)
    const record: SessionRecord = {
      // V8 stores a concatenated string as a tree of its parts, which needs more memory. Copying flattens it.
      sessionId: Buffer.from(sessionId).toString(),
      // If the spellings are equal, key and value share one string.
      did: did === user ? user : did,
      state: 'active',
      tokenClaims: tokenClaims && JSON.stringify(tokenClaims),
      createdAtSeconds: nowSeconds,
      rotatedAtSeconds: nowSeconds,
      expiresAtSeconds,
      description,
      refreshTokenHash,
      replaced: '',
      older: this.#newestByUser.get(user)
    }
    this.#neverRefreshed.set(record.sessionId, record)
    this.#newestByUser.set(user, record)
    return Number(isEvicted)
  }

  findSession(sessionId: string): StoredSession | undefined {
    const record = this.#findRecord(sessionId)
    return record && toStoredSession(record)
  }

  rotateRefreshToken(rotation: Rotation): RefreshVerdict {
    const record = this.#findRecord(rotation.sessionId)
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
    if (verdict === 'reused') this.#end(record, 'revoked', rotation.nowSeconds, rotation.listUntilSeconds)
    return verdict
  }

  endSession(
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number,
    listUntilSeconds?: EndRecord
  ): boolean {
    const record = this.#findRecord(sessionId)
    if (record === undefined || !isActive(record, nowSeconds)) return false
    this.#end(record, state, nowSeconds, listUntilSeconds)
    return true
  }

  revokeSessions(user: string, nowSeconds: number, listUntilSeconds?: EndRecord): number {
    const active = this.#listActive(user, nowSeconds)
    for (const record of active) this.#end(record, 'revoked', nowSeconds, listUntilSeconds)
    return active.length
  }

  listSessions(user: string, nowSeconds: number): Session[] {
    return this.#listActive(user, nowSeconds).map(toSession)
  }

  listEndedSessions(sinceSeconds: number, limit: number): EndedSession[] {
    return this.#ended.list(sinceSeconds, limit)
  }

  #findRecord(sessionId: string): SessionRecord | undefined {
    return this.#neverRefreshed.get(sessionId) ?? this.#refreshed.get(sessionId)
  }

  #end(record: SessionRecord, state: 'loggedOut' | 'revoked', nowSeconds: number, listUntilSeconds: EndRecord): void {
    record.state = state
    this.#recordEnd(record, nowSeconds, listUntilSeconds)
  }

  #recordEnd({ sessionId }: SessionRecord, nowSeconds: number, listUntilSeconds: EndRecord): void {
    if (listUntilSeconds === undefined) return
    this.#ended.add(sessionId, nowSeconds, listUntilSeconds, this.#clock.sweepSeconds(nowSeconds))
  }

  /** Deletes a session to make room for another. @returns whether it was active */
  #drop(record: SessionRecord | undefined, nowSeconds: number, listUntilSeconds: EndRecord): boolean {
    if (record === undefined) return false
    this.#delete(record)
    const wasActive = isActive(record, nowSeconds)
    if (wasActive) this.#recordEnd(record, nowSeconds, listUntilSeconds)
    return wasActive
  }

  #delete(record: SessionRecord): void {
    this.#neverRefreshed.delete(record.sessionId)
    this.#refreshed.delete(record.sessionId)
    const user = canonicalDid(record.did)
    const chain = this.#listChain(user)
    const newer = chain[chain.indexOf(record) - 1]
    if (newer !== undefined) newer.older = record.older
    else if (record.older !== undefined) this.#newestByUser.set(user, record.older)
    else this.#newestByUser.delete(user)
  }

  #listChain(user: string): SessionRecord[] {
    const chain: SessionRecord[] = []
    for (let record = this.#newestByUser.get(user); record !== undefined; record = record.older) chain.push(record)
    return chain
  }

  #listActive(user: string, nowSeconds: number): SessionRecord[] {
    return this.#listChain(user).filter((record) => isActive(record, nowSeconds))
  }

  /** Finds the session to delete if a user has too many: an expired one, else one that has ended, else the oldest. */
  #findSurplus(user: string, nowSeconds: number): SessionRecord | undefined {
    const chain = this.#listChain(user)
    if (chain.length < MAX_SESSIONS_PER_DID) return undefined
    const expired = chain.findLast((record) => nowSeconds >= record.expiresAtSeconds)
    return expired ?? chain.findLast((record) => record.state !== 'active') ?? chain.at(-1)
  }

  #deleteExpired(sweepSeconds: number): void {
    for (let purged = 0; purged < PURGED_AT_ONCE; purged += 1) {
      const candidates = [this.#neverRefreshed.findOldest()?.[1], this.#refreshed.findOldest()?.[1]]
      const expired = candidates.find((record) => record !== undefined && sweepSeconds >= record.expiresAtSeconds)
      if (expired === undefined) return
      this.#delete(expired)
    }
  }

  /** Finds the session to delete if the store is full. */
  #findEvicted(): SessionRecord | undefined {
    if (this.#neverRefreshed.size + this.#refreshed.size < this.#maxSessions) return undefined
    return (this.#neverRefreshed.findOldest() ?? this.#refreshed.findOldest())?.[1]
  }
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** A session in memory. It is flat and small, because there may be a million. */
interface SessionRecord extends Writable<Omit<StoredSession, 'tokenClaims' | 'replacedTokens'>> {
  /** Claims as JSON text, which is small and immutable. */
  tokenClaims: string | undefined
  /** Output of `packReplacedToken` as a string of one character per byte. A Buffer would need more memory. */
  replaced: string
  /** Next older session of the user. Each user's sessions form a chain, the newest first. */
  older: SessionRecord | undefined
}

function isActive({ state, expiresAtSeconds }: SessionRecord, nowSeconds: number): boolean {
  return state === 'active' && nowSeconds < expiresAtSeconds
}

/** Returns a copy, which later changes of the record do not affect. */
function toSession({ sessionId, did, state, tokenClaims, description, ...times }: SessionRecord): Session {
  const { createdAtSeconds, rotatedAtSeconds, expiresAtSeconds } = times
  const claims = tokenClaims === undefined ? undefined : (JSON.parse(tokenClaims) as JsonObject)
  const fields = { sessionId, did, state, tokenClaims: claims, description }
  return { ...fields, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds }
}

function toStoredSession(record: SessionRecord): StoredSession {
  const { refreshTokenHash, replaced } = record
  return {
    ...toSession(record),
    refreshTokenHash,
    get replacedTokens() {
      return parseReplacedTokens(Buffer.from(replaced, 'latin1'))
    }
  }
}

/**
 * A Map with fast access to its oldest entry. `map.entries().next()` skips the gaps of deleted entries on every call,
 * which takes milliseconds in a Map of a million entries. This class remembers its position and skips each gap once.
 * Do not call `clear`, which does not reset the position.
 */
export class AgedMap<V> extends Map<string, V> {
  /** Iterator at which the search for the oldest entry continues. */
  #walk: MapIterator<[string, V]> | undefined
  #oldest: [key: string, value: V] | undefined
  /** Entries that were deleted since the walk began. */
  #deletions = 0

  /** Sets an entry and makes it the newest, also if the key already exists. */
  override set(key: string, value: V): this {
    this.delete(key)
    return super.set(key, value)
  }

  override delete(key: string): boolean {
    if (this.#oldest?.[0] === key) this.#oldest = undefined
    const isDeleted = super.delete(key)
    if (isDeleted) this.#endStaleWalk()
    return isDeleted
  }

  /** Returns the entry that was set first. */
  findOldest(): [key: string, value: V] | undefined {
    while (this.#oldest === undefined && this.size > 0) {
      this.#walk ??= this.entries()
      const step = this.#walk.next()
      if (step.done !== true) this.#oldest = step.value
      // An iterator that has reached the end never returns entries that are added later.
      else this.#walk = undefined
    }
    return this.#oldest
  }

  /** Drops an idle iterator. It would prevent garbage collection of all hash tables that the Map has replaced since. */
  #endStaleWalk(): void {
    this.#deletions += 1
    if (this.#deletions <= this.size >> 2) return
    this.#walk = undefined
    this.#deletions = 0
  }
}

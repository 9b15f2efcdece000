import type { NewSession, Rotation, SessionStore } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import { judgeRefresh, type RefreshVerdict, type Session, type StoredSession } from '../../protocol/session.js'
import type { SweepClock } from '../sweep-clock.js'
import type { RedisConnection } from './redis-connection.js'
import { USER_TAG_CHARACTERS, userOf, type RedisKeys } from './redis-keys.js'
import { RedisPart } from './redis-part.js'
import type { ReplicatedWrites } from './replicated-writes.js'
import { parseSession, writeClaims, writeReplaced, writeSession, writeState } from './session-record.js'
import { CREATE, END, LIST, REVOKE_ALL, ROTATE } from './session-scripts.js'

/** Seconds that Redis keeps sessions after the end of the last, for instances whose clocks are behind. */
const CLOCK_SKEW_SECONDS = 60
/** Redis adds it to its clock, and refuses what has no 64 bits: about 950 years. */
const MAX_MILLISECONDS = 3e13

/** The tag of a user, that each of the user's session ids begins with. */
export function userTagOf(canonical: string): string {
  return userOf(canonical).slice(0, USER_TAG_CHARACTERS)
}

/** What {@link RedisSessions} works on. */
export interface RedisSessionParts {
  connection: RedisConnection
  writes: ReplicatedWrites
  keys: RedisKeys
  /** {@link userTagOf}; tests whose session ids are made up have another. */
  tagOf: (canonicalDid: string) => string
  /** Says which sessions have expired for good. */
  clock: SweepClock
}

/**
 * Sessions in Redis. The id of a session names its user, so that each verb is one script on one key, in a cluster as well.
 * Redis deletes a user's sessions after the last of them has expired.
 */
export class RedisSessions extends RedisPart implements SessionStore {
  readonly #parts: RedisSessionParts

  constructor(parts: RedisSessionParts) {
    super(parts.connection, parts.keys)
    this.#parts = parts
  }

  /** @returns 0: Redis evicts nothing, it refuses what has no space */
  async createSession(session: NewSession): Promise<number> {
    const { service, sessionId, nowSeconds } = session
    const did = canonicalDid(session.did)
    if (!sessionId.startsWith(this.#parts.tagOf(did))) {
      throw new TypeError('express-did-auth: the id of a session has to begin with the tag of its user')
    }
    const [before, after] = writeSession(session, userOf(did))
    const sweepSeconds = Math.max(0, this.#parts.clock.sweepSeconds(nowSeconds))
    const milliseconds = millisecondsLeft(nowSeconds, session.expiresAtSeconds)
    const args = [sessionId, before, after, userOf(did), nowSeconds, sweepSeconds, milliseconds]
    await this.#parts.writes.run(CREATE, this.#keyOf(service, sessionId), args)
    return 0
  }

  async findSession(service: string, sessionId: string): Promise<StoredSession | undefined> {
    const key = this.#keyOf(service, sessionId)
    const record = await this.connection.verb((send) => send(key, ['HGET', key, sessionId]))
    return typeof record === 'string' ? parseSession(sessionId, record).session : undefined
  }

  async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict> {
    const { service, sessionId, presentedHash, nextHash, tokenClaims, nowSeconds, nextExpiresAtSeconds } = rotation
    const replaced = writeReplaced(presentedHash, nowSeconds)
    const milliseconds = millisecondsLeft(nowSeconds, nextExpiresAtSeconds)
    const times = [nowSeconds, nextExpiresAtSeconds, milliseconds]
    const args = [sessionId, presentedHash, nextHash, replaced, writeClaims(tokenClaims), ...times]
    const answer = await this.#parts.writes.run(ROTATE, this.#keyOf(service, sessionId), args)
    if (answer === 1) return 'rotate'
    if (typeof answer !== 'string') return 'unknown'
    const verdict = judgeRefresh(parseSession(sessionId, answer).session, rotation)
    if (verdict !== 'reused') return verdict
    // Somebody may have ended it in between, and then it is not this call that does.
    return (await this.endSession(service, sessionId, 'revoked', nowSeconds)) ? 'reused' : 'ended'
  }

  async endSession(
    service: string,
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number
  ): Promise<boolean> {
    const args = [sessionId, writeState(state), nowSeconds]
    return (await this.#parts.writes.run(END, this.#keyOf(service, sessionId), args)) === 1
  }

  async revokeSessions(service: string, did: string, nowSeconds: number): Promise<number> {
    const key = this.#parts.keys.sessions(service, this.#parts.tagOf(did))
    return Number(await this.#parts.writes.run(REVOKE_ALL, key, [userOf(did), nowSeconds]))
  }

  async listSessions(service: string, did: string, nowSeconds: number): Promise<Session[]> {
    const key = this.#parts.keys.sessions(service, this.#parts.tagOf(did))
    const answer = await this.connection.verb((send) => LIST.run(send, key, []))
    const fields = answer as string[]
    const records = fields.flatMap((id, index) =>
      index % 2 === 1 || id === '#' ? [] : [parseSession(id, fields[index + 1] ?? '')]
    )
    return records
      .filter(({ user, session }) => user === userOf(did) && isActive(session, nowSeconds))
      .sort((one, other) => other.number - one.number)
      .map(({ session: { refreshTokenHash: _hash, replacedTokens: _replaced, ...session } }) => session)
  }

  #keyOf(service: string, sessionId: string): string {
    return this.#parts.keys.sessions(service, sessionId.slice(0, USER_TAG_CHARACTERS))
  }
}

function isActive({ state, expiresAtSeconds }: Session, nowSeconds: number): boolean {
  return state === 'active' && nowSeconds < expiresAtSeconds
}

function millisecondsLeft(nowSeconds: number, expiresAtSeconds: number): number {
  const seconds = Math.max(0, expiresAtSeconds - nowSeconds) + CLOCK_SKEW_SECONDS
  return Math.min(Math.ceil(seconds * 1000), MAX_MILLISECONDS)
}

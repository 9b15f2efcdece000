import { Buffer } from 'node:buffer'
import type { NewSession, Rotation, SessionStore } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import type { JsonObject } from '../../protocol/json.js'
import { judgeRefresh, type RefreshVerdict, type StoredSession } from '../../protocol/session.js'
import { packReplacedToken, parseReplacedTokens } from '../replaced-tokens.js'
import type { SweepClock } from '../sweep-clock.js'
import type { RedisConnection } from './redis-connection.js'
import { sessionsKey, userOf, type userTagOf } from './redis-keys.js'
import { CREATE, END, LIST, REVOKE_ALL, ROTATE } from './session-scripts.js'

/** Seconds that Redis keeps sessions after the end of the last, for instances whose clocks are behind. */
const CLOCK_SKEW_SECONDS = 60
/** Redis adds it to its clock, and refuses what has no 64 bits: about 950 years. */
const MAX_MILLISECONDS = 3e13

/** The states, as they are written: by their first letters. */
const STATES = { a: 'active', l: 'loggedOut', r: 'revoked' } as const

/**
 * Sessions in Redis. The id of a session names its user, so that each verb is one script on one key, in a cluster as
 * well. Redis deletes a user's sessions after the last of them has expired.
 */
export function redisSessions(redis: RedisConnection, tagOf: typeof userTagOf, clock: SweepClock): SessionStore {
  const endSession: SessionStore['endSession'] = async (service, sessionId, state, nowSeconds) =>
    (await redis.write(END, sessionsKey(service, sessionId), [sessionId, state.charAt(0), nowSeconds])) === 1

  return {
    endSession,

    /** @returns 0: Redis evicts nothing, it refuses what has no space */
    async createSession(session: NewSession): Promise<number> {
      const { service, sessionId, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds } = session
      const did = canonicalDid(session.did)
      if (!sessionId.startsWith(tagOf(did))) {
        throw new TypeError('express-did-auth: the id of a session has to begin with the tag of its user')
      }
      // The script writes the number of the session between both.
      const before = ['a', nowSeconds, nowSeconds, expiresAtSeconds].join('\n')
      const after = [userOf(did), refreshTokenHash, '', JSON.stringify(session.did), toJson(tokenClaims)].join('\n')
      const sweepSeconds = Math.max(0, clock.sweepSeconds(nowSeconds))
      const times = [nowSeconds, sweepSeconds, millisecondsLeft(nowSeconds, expiresAtSeconds)]
      await redis.write(CREATE, sessionsKey(service, sessionId), [sessionId, before, after, userOf(did), ...times])
      return 0
    },

    async findSession(service, sessionId) {
      const record = await redis.send('HGET', sessionsKey(service, sessionId), sessionId)
      return typeof record === 'string' ? parseSession(sessionId, record).session : undefined
    },

    async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict> {
      const { service, sessionId, presentedHash, nextHash, tokenClaims, nowSeconds, nextExpiresAtSeconds } = rotation
      const replaced = packReplacedToken(presentedHash, nowSeconds).toString('base64url')
      const tokens = [presentedHash, nextHash, replaced, toJson(tokenClaims)]
      const times = [nowSeconds, nextExpiresAtSeconds, millisecondsLeft(nowSeconds, nextExpiresAtSeconds)]
      const answer = await redis.write(ROTATE, sessionsKey(service, sessionId), [sessionId, ...tokens, ...times])
      if (answer === 1) return 'rotate'
      if (typeof answer !== 'string') return 'unknown'
      const verdict = judgeRefresh(parseSession(sessionId, answer).session, rotation)
      if (verdict !== 'reused') return verdict
      // Somebody may have ended it in between, and then it is not this call that does.
      return (await endSession(service, sessionId, 'revoked', nowSeconds)) ? 'reused' : 'ended'
    },

    async revokeSessions(service, did, nowSeconds) {
      return Number(await redis.write(REVOKE_ALL, sessionsKey(service, tagOf(did)), [userOf(did), nowSeconds]))
    },

    async listSessions(service, did, nowSeconds) {
      const fields = (await redis.run(LIST, sessionsKey(service, tagOf(did)), [])) as string[]
      return fields
        .flatMap((id, index) => (index % 2 === 1 || id === '#' ? [] : [parseSession(id, fields[index + 1] ?? '')]))
        .filter(({ user, session: { state, expiresAtSeconds } }) => {
          return user === userOf(did) && state === 'active' && nowSeconds < expiresAtSeconds
        })
        .sort((one, other) => other.number - one.number)
        .map(({ session: { refreshTokenHash: _hash, replacedTokens: _replaced, ...session } }) => session)
    }
  }
}

function millisecondsLeft(nowSeconds: number, expiresAtSeconds: number): number {
  const seconds = Math.max(0, expiresAtSeconds - nowSeconds) + CLOCK_SKEW_SECONDS
  return Math.min(Math.ceil(seconds * 1000), MAX_MILLISECONDS)
}

function toJson(claims: JsonObject | undefined): string {
  return claims === undefined ? '' : JSON.stringify(claims)
}

function parseSession(sessionId: string, record: string): { session: StoredSession; number: number; user: string } {
  const [state, created, rotated, expires, number, user = '', hash = '', replaced = '', did = '""', claims = ''] =
    record.split('\n')
  return {
    session: {
      sessionId,
      did: JSON.parse(did) as string,
      state: STATES[state as keyof typeof STATES],
      tokenClaims: claims === '' ? undefined : (JSON.parse(claims) as JsonObject),
      createdAtSeconds: Number(created),
      rotatedAtSeconds: Number(rotated),
      expiresAtSeconds: Number(expires),
      refreshTokenHash: hash,
      replacedTokens: parseReplacedTokens(Buffer.from(replaced, 'base64url'))
    },
    number: Number(number),
    user
  }
}

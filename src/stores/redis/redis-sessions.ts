import type { EndedSession, EndRecord, NewSession, Rotation, SessionStore } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import type { JsonObject } from '../../protocol/json.js'
import { judgeRefresh, MAX_REPLACED_TOKENS, MAX_SESSIONS_PER_DID } from '../../protocol/session.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import { packReplacedToken, parseReplacedTokens, REPLACED_BYTES } from '../replaced-tokens.js'
import type { SweepClock } from '../sweep-clock.js'
import { createRedisScript, type RedisConnection, type RedisScript } from './redis-connection.js'
import { createEndedKey, createSessionsKey, toUserId, type toUserTag } from './redis-keys.js'

/** Time for which Redis stores sessions after the last has expired, for instances whose clocks are behind. */
const CLOCK_SKEW_SECONDS = 60
/** Maximum number of records of ended sessions that are deleted when one is added. */
const PURGED_AT_ONCE = 2
/** Maximum lifetime of a key, about 950 years. Redis adds it to its clock, and the sum must fit into 64 bits. */
const MAX_MILLISECONDS = 3e13

/** States of a session, which are stored as their first letters. */
const STATES = { a: 'active', l: 'loggedOut', r: 'revoked' } as const

/** Characters of earlier replaced tokens, in base64url, that remain when one more is added. */
const REMAINING_CHARACTERS = (REPLACED_BYTES / 3) * 4 * (1 - 1 / MAX_REPLACED_TOKENS)
const DAY_MILLISECONDS = 86_400_000

/**
 * Functions of all scripts. KEYS[1] is a hash: the sessions of one user tag by id, and the newest number under '#'.
 * Times are the caller's; the clock of Redis is used only for the lifetime of the key. A session is a text of ten
 * or eleven lines: state, created, rotated, expires, number, user, hash of the refresh token, replaced tokens, DID,
 * claims, description. The last three are JSON, which contains no line break.
 *
 * `rewrite` deletes before it writes: a full Redis accepts writes of a script that has already deleted, so that users
 * can still refresh and log out. Scripts also rewrite unchanged sessions: after a lost answer, a repetition must wait
 * for the replicas as well, and WAIT covers only writes of its own connection. `extend` extends the lifetime of the key
 * by a day more than needed, so that few refreshes have to do so.
 *
 * KEYS[2] is a sorted set: the ended sessions of the service by the time at which they ended, each with the time until
 * which it is listed. It is absent if no end is recorded. `recordEnd` is called after a deletion, so that a full Redis
 * accepts its write too. Its arguments begin at ARGV[first]: listed until, time until which a sweep may delete, and
 * lifetime of the key in milliseconds.
 */
const SHARED = `
local key = KEYS[1]
local function parse(record)
  local lines = {}
  for line in string.gmatch(record .. '\\n', '(.-)\\n') do lines[#lines + 1] = line end
  return lines
end
local function isActive(lines, now) return lines[1] == 'a' and now < tonumber(lines[4]) end
local function join(lines) return table.concat(lines, '\\n') end
local function rewrite(id, record)
  redis.call('HDEL', key, id)
  redis.call('HSET', key, id, record)
end
local function extend(milliseconds)
  if redis.call('PTTL', key) < tonumber(milliseconds) then
    redis.call('PEXPIRE', key, string.format('%.0f', milliseconds + ${String(DAY_MILLISECONDS)}))
  end
end
local function recordEnd(id, now, first)
  local ended = KEYS[2]
  if not ended then return end
  for _, member in ipairs(redis.call('ZRANGE', ended, 0, ${String(PURGED_AT_ONCE - 1)})) do
    local listUntil = tonumber(string.match(member, '^%d+'))
    if listUntil <= tonumber(ARGV[first + 1]) then redis.call('ZREM', ended, member) end
  end
  redis.call('ZADD', ended, now, ARGV[first] .. ' ' .. id)
  if redis.call('PTTL', ended) < tonumber(ARGV[first + 2]) then redis.call('PEXPIRE', ended, ARGV[first + 2]) end
end
local function each(visit)
  local fields = redis.call('HGETALL', key)
  for index = 1, #fields, 2 do
    if fields[index] ~= '#' then visit(fields[index], fields[index + 1]) end
  end
end
`

/**
 * Creates a session. ARGV: session id, lines before its number, lines after it, user, now, time until which a sweep may
 * delete, lifetime of the key in milliseconds, arguments of `recordEnd`. If the user has 50 sessions, it deletes an
 * expired one first, then one that has ended, then the oldest.
 */
const CREATE = createRedisScript(`${SHARED}
local now, sweep = tonumber(ARGV[5]), tonumber(ARGV[6])
local others = {}
each(function (id, record)
  local lines = parse(record)
  local expires = tonumber(lines[4])
  if id == ARGV[1] then return end
  if expires <= sweep then redis.call('HDEL', key, id)
  elseif lines[6] == ARGV[4] then
    local rank = 2
    if expires <= now then rank = 0 elseif lines[1] ~= 'a' then rank = 1 end
    others[#others + 1] = { id = id, rank = rank, number = tonumber(lines[5]) }
  end
end)
table.sort(others, function (left, right)
  if left.rank ~= right.rank then return left.rank < right.rank end
  return left.number < right.number
end)
for index = 1, #others - ${String(MAX_SESSIONS_PER_DID - 1)} do
  redis.call('HDEL', key, others[index].id)
  if others[index].rank == 2 then recordEnd(others[index].id, ARGV[5], 8) end
end
local number = redis.call('HINCRBY', key, '#', 1)
redis.call('HSET', key, ARGV[1], join({ ARGV[2], string.format('%.0f', number), ARGV[3] }))
extend(ARGV[7])
return 1
`)

/**
 * Rotates a refresh token. ARGV: session id, presented hash, next hash, presented token as a replaced one, claims, now,
 * next expiry, lifetime of the key in milliseconds. Returns 1 if it has rotated, false if there is no such session, and
 * otherwise the unchanged session, for `judgeRefresh`.
 */
const ROTATE = createRedisScript(`${SHARED}
local record = redis.call('HGET', key, ARGV[1])
if not record then return false end
local lines = parse(record)
if lines[7] ~= ARGV[2] or not isActive(lines, tonumber(ARGV[6])) then
  if lines[7] == ARGV[3] then rewrite(ARGV[1], record) end
  return record
end
lines[3], lines[4], lines[7], lines[10] = ARGV[6], ARGV[7], ARGV[3], ARGV[5]
lines[8] = ARGV[4] .. string.sub(lines[8], 1, ${String(REMAINING_CHARACTERS)})
rewrite(ARGV[1], join(lines))
extend(ARGV[8])
return 1
`)

/** Ends a session. ARGV: session id, new state, now, arguments of `recordEnd`. Returns 1 if it was active. */
const END = createRedisScript(`${SHARED}
local record = redis.call('HGET', key, ARGV[1])
if not record then return 0 end
local lines = parse(record)
if not isActive(lines, tonumber(ARGV[3])) then
  rewrite(ARGV[1], record)
  return 0
end
lines[1] = ARGV[2]
rewrite(ARGV[1], join(lines))
recordEnd(ARGV[1], ARGV[3], 4)
return 1
`)

/**
 * Revokes all sessions of a user. ARGV: user, now, arguments of `recordEnd`. Returns the number of sessions that were
 * active.
 */
const REVOKE_ALL = createRedisScript(`${SHARED}
local revoked = 0
each(function (id, record)
  local lines = parse(record)
  if lines[6] ~= ARGV[1] then return end
  if not isActive(lines, tonumber(ARGV[2])) then rewrite(id, record) return end
  lines[1] = 'r'
  rewrite(id, join(lines))
  recordEnd(id, ARGV[2], 3)
  revoked = revoked + 1
end)
return revoked
`)

/** Lists ids and sessions in turn. As a script, it gives an array even if the client converts hashes to objects. */
const LIST = createRedisScript(`return redis.call('HGETALL', KEYS[1])`)

/** Lists ended sessions: the member of each and the time at which it ended, in turn. ARGV: since, limit - 1. */
const LIST_ENDED = createRedisScript(`
local last = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', ARGV[2], 1)
return redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], last[2] or '+inf', 'WITHSCORES')
`)

/**
 * Creates the store of sessions. A session id begins with the tag of its user, so that each verb is one script on one
 * key, in a cluster too. Redis deletes a user's sessions after the last of them has expired.
 */
export function createRedisSessions(
  redis: RedisConnection,
  toTag: typeof toUserTag,
  clock: SweepClock,
  recordsEnds: boolean
): SessionStore {
  const sweepSecondsAt = (nowSeconds: number): number => Math.max(0, clock.sweepSeconds(nowSeconds))

  /** Runs a script that may end sessions. `listUntilSeconds` adds the key and the arguments that record their ends. */
  const write = (
    script: RedisScript,
    key: string,
    args: readonly (string | number)[],
    { service, nowSeconds, listUntilSeconds }: Pick<NewSession, 'service' | 'nowSeconds' | 'listUntilSeconds'>
  ): Promise<unknown> => {
    if (!recordsEnds || listUntilSeconds === undefined) return redis.write(script, key, args)
    const times = [sweepSecondsAt(nowSeconds), computeMillisecondsLeft(nowSeconds, listUntilSeconds)]
    return redis.write(script, key, [...args, listUntilSeconds, ...times], [createEndedKey(service)])
  }

  const endSession = async (
    service: string,
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number,
    listUntilSeconds?: EndRecord
  ): Promise<boolean> => {
    const args = [sessionId, state.charAt(0), nowSeconds]
    const record = { service, nowSeconds, listUntilSeconds }
    return (await write(END, createSessionsKey(service, sessionId), args, record)) === 1
  }

  const listEndedSessions = async (service: string, sinceSeconds: number, limit: number): Promise<EndedSession[]> => {
    const fields = (await redis.run(LIST_ENDED, createEndedKey(service), [sinceSeconds, limit - 1])) as string[]
    return fields.flatMap((member, index) => {
      const sessionId = member.slice(member.indexOf(' ') + 1)
      return index % 2 === 1 ? [] : [{ sessionId, endedAtSeconds: Number(fields[index + 1]) }]
    })
  }

  return {
    endSession,
    ...(recordsEnds && { listEndedSessions }),

    async createSession(session: NewSession): Promise<number> {
      const { service, sessionId, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds } = session
      const did = canonicalDid(session.did)
      if (!sessionId.startsWith(toTag(did))) {
        throw new TypeError('express-did-auth: the id of a session has to begin with the tag of its user')
      }
      // The script inserts the number of the session between the two.
      const before = ['a', nowSeconds, nowSeconds, expiresAtSeconds].join('\n')
      const texts = [JSON.stringify(session.did), toJson(tokenClaims)]
      if (session.description !== undefined) texts.push(toJson(session.description))
      const after = [toUserId(did), refreshTokenHash, '', ...texts].join('\n')
      const times = [nowSeconds, sweepSecondsAt(nowSeconds), computeMillisecondsLeft(nowSeconds, expiresAtSeconds)]
      const args = [sessionId, before, after, toUserId(did), ...times]
      await write(CREATE, createSessionsKey(service, sessionId), args, session)
      // Nothing is evicted: a full Redis refuses new sessions.
      return 0
    },

    async findSession(service, sessionId) {
      const record = await redis.send('HGET', createSessionsKey(service, sessionId), sessionId)
      return typeof record === 'string' ? parseStoredSession(sessionId, record) : undefined
    },

    async rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict> {
      const { service, sessionId, presentedHash, nextHash, tokenClaims, nowSeconds, nextExpiresAtSeconds } = rotation
      const replaced = packReplacedToken(presentedHash, nowSeconds).toString('base64url')
      const tokens = [presentedHash, nextHash, replaced, toJson(tokenClaims)]
      const times = [nowSeconds, nextExpiresAtSeconds, computeMillisecondsLeft(nowSeconds, nextExpiresAtSeconds)]
      const answer = await redis.write(ROTATE, createSessionsKey(service, sessionId), [sessionId, ...tokens, ...times])
      if (answer === 1) return 'rotate'
      if (typeof answer !== 'string') return 'unknown'
      const verdict = judgeRefresh(parseStoredSession(sessionId, answer), rotation)
      if (verdict !== 'reused') return verdict
      // Another call may have ended the session in the meantime.
      const isRevoked = await endSession(service, sessionId, 'revoked', nowSeconds, rotation.listUntilSeconds)
      return isRevoked ? 'reused' : 'ended'
    },

    async revokeSessions(service, did, nowSeconds, listUntilSeconds) {
      const record = { service, nowSeconds, listUntilSeconds }
      const key = createSessionsKey(service, toTag(did))
      return Number(await write(REVOKE_ALL, key, [toUserId(did), nowSeconds], record))
    },

    async listSessions(service, did, nowSeconds) {
      const fields = (await redis.run(LIST, createSessionsKey(service, toTag(did)), [])) as string[]
      return fields
        .flatMap((id, index) => (index % 2 === 1 || id === '#' ? [] : [parseSession(id, fields[index + 1] ?? '')]))
        .filter(({ user, session }) => user === toUserId(did) && session.state === 'active')
        .filter(({ session }) => nowSeconds < session.expiresAtSeconds)
        .sort((left, right) => right.number - left.number)
        .map(({ session }) => session)
    }
  }
}

function computeMillisecondsLeft(nowSeconds: number, expiresAtSeconds: number): number {
  const seconds = Math.max(0, expiresAtSeconds - nowSeconds) + CLOCK_SKEW_SECONDS
  return Math.min(Math.ceil(seconds * 1000), MAX_MILLISECONDS)
}

function toJson(value: JsonObject | string | undefined): string {
  return value === undefined ? '' : JSON.stringify(value)
}

function parseStoredSession(sessionId: string, record: string): StoredSession {
  const { session, hash, replaced } = parseSession(sessionId, record)
  return {
    ...session,
    refreshTokenHash: hash,
    get replacedTokens() {
      return parseReplacedTokens(Buffer.from(replaced, 'base64url'))
    }
  }
}

function parseSession(sessionId: string, record: string) {
  const [state, created, rotated, expires, number, user = '', hash = '', replaced = '', ...texts] = record.split('\n')
  const [did = '""', claims = '', description] = texts
  const session: Session = {
    sessionId,
    did: JSON.parse(did) as string,
    state: STATES[state as keyof typeof STATES],
    tokenClaims: claims === '' ? undefined : (JSON.parse(claims) as JsonObject),
    createdAtSeconds: Number(created),
    rotatedAtSeconds: Number(rotated),
    expiresAtSeconds: Number(expires),
    description: description === undefined ? undefined : (JSON.parse(description) as string)
  }
  return { session, number: Number(number), user, hash, replaced }
}

import type { NewSession, Rotation, SessionStore } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import type { JsonObject } from '../../protocol/json.js'
import { judgeRefresh, MAX_REPLACED_TOKENS, MAX_SESSIONS_PER_DID } from '../../protocol/session.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import { packReplacedToken, REPLACED_BYTES, createStoredSession } from '../replaced-tokens.js'
import type { SweepClock } from '../sweep-clock.js'
import { createRedisScript, type RedisConnection } from './redis-connection.js'
import { createSessionsKey, toUserId, type toUserTag } from './redis-keys.js'

/** Seconds that Redis stores sessions after the end of the last, for instances whose clocks are behind. */
const CLOCK_SKEW_SECONDS = 60
/** Redis adds it to its clock, and refuses what has no 64 bits: about 950 years. */
const MAX_MILLISECONDS = 3e13

/** Written by their first letters. */
const STATES = { a: 'active', l: 'loggedOut', r: 'revoked' } as const

/** Characters of the replaced tokens, in base64url, that are stored next to a new one. */
const REPLACED_KEPT = (REPLACED_BYTES / 3) * 4 * (1 - 1 / MAX_REPLACED_TOKENS)
const DAY_MILLISECONDS = 86_400_000

/**
 * KEYS[1] is a hash: the sessions of one user tag by id, and the newest number under '#'. Times are the caller's;
 * Redis's own clock counts only how long a key is stored. A session is a text of ten lines: state, created, rotated,
 * expires, number, user, hash of the refresh token, replaced tokens, DID, claims. DID and claims are JSON, which has no
 * line break.
 *
 * `rewrite` deletes first: a full Redis lets a script through that has written before, so that users who are logged in
 * refresh and log out there. It also writes sessions that stay as they are: a caller whose first answer was lost may
 * rely on what it did, and WAIT waits only for writes of its own connection. `keep` prolongs the key, by a day more
 * than is needed, so that few refreshes have to.
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
local function keep(milliseconds)
  if redis.call('PTTL', key) < tonumber(milliseconds) then
    redis.call('PEXPIRE', key, string.format('%.0f', milliseconds + ${String(DAY_MILLISECONDS)}))
  end
end
local function each(visit)
  local fields = redis.call('HGETALL', key)
  for index = 1, #fields, 2 do
    if fields[index] ~= '#' then visit(fields[index], fields[index + 1]) end
  end
end
`

/**
 * ARGV: session id, lines before its number, lines after it, user, now, end of what a sweep may delete, milliseconds to
 * keep it. Beyond 50 sessions of the user it deletes expired ones first, then those that ended, then the oldest.
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
table.sort(others, function (one, other)
  if one.rank ~= other.rank then return one.rank < other.rank end
  return one.number < other.number
end)
for index = 1, #others - ${String(MAX_SESSIONS_PER_DID - 1)} do redis.call('HDEL', key, others[index].id) end
local number = redis.call('HINCRBY', key, '#', 1)
redis.call('HSET', key, ARGV[1], join({ ARGV[2], string.format('%.0f', number), ARGV[3] }))
keep(ARGV[7])
return 1
`)

/**
 * ARGV: session id, presented hash, next hash, presented token as a replaced one, claims, now, next end, milliseconds
 * to keep it. Answers 1 when it rotated, else the unchanged session, for `judgeRefresh`.
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
lines[8] = ARGV[4] .. string.sub(lines[8], 1, ${String(REPLACED_KEPT)})
rewrite(ARGV[1], join(lines))
keep(ARGV[8])
return 1
`)

/** ARGV: session id, new state, now. Answers 1 when the session was active. */
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
return 1
`)

/** ARGV: user, now. Answers how many sessions of the user were active. */
const REVOKE_ALL = createRedisScript(`${SHARED}
local revoked = 0
each(function (id, record)
  local lines = parse(record)
  if lines[6] ~= ARGV[1] then return end
  if not isActive(lines, tonumber(ARGV[2])) then rewrite(id, record) return end
  lines[1] = 'r'
  rewrite(id, join(lines))
  revoked = revoked + 1
end)
return revoked
`)

/** Ids and sessions in turn, also where the client reads hashes as objects. */
const LIST = createRedisScript(`return redis.call('HGETALL', KEYS[1])`)

/**
 * The id of a session names its user, so that each verb is one script on one key, in a cluster too. Redis deletes a
 * user's sessions after the last of them has expired.
 */
export function createRedisSessions(redis: RedisConnection, tagOf: typeof toUserTag, clock: SweepClock): SessionStore {
  const endSession: SessionStore['endSession'] = async (service, sessionId, state, nowSeconds) =>
    (await redis.write(END, createSessionsKey(service, sessionId), [sessionId, state.charAt(0), nowSeconds])) === 1

  return {
    endSession,

    async createSession(session: NewSession): Promise<number> {
      const { service, sessionId, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds } = session
      const did = canonicalDid(session.did)
      if (!sessionId.startsWith(tagOf(did))) {
        throw new TypeError('express-did-auth: the id of a session has to begin with the tag of its user')
      }
      // The script writes the number of the session between both.
      const before = ['a', nowSeconds, nowSeconds, expiresAtSeconds].join('\n')
      const after = [toUserId(did), refreshTokenHash, '', JSON.stringify(session.did), toJson(tokenClaims)].join('\n')
      const sweepSeconds = Math.max(0, clock.sweepSeconds(nowSeconds))
      const times = [nowSeconds, sweepSeconds, computeMillisecondsLeft(nowSeconds, expiresAtSeconds)]
      await redis.write(CREATE, createSessionsKey(service, sessionId), [
        sessionId,
        before,
        after,
        toUserId(did),
        ...times
      ])
      // Redis evicts nothing, it refuses what has no space.
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
      // Another call may have ended it in between.
      return (await endSession(service, sessionId, 'revoked', nowSeconds)) ? 'reused' : 'ended'
    },

    async revokeSessions(service, did, nowSeconds) {
      return Number(await redis.write(REVOKE_ALL, createSessionsKey(service, tagOf(did)), [toUserId(did), nowSeconds]))
    },

    async listSessions(service, did, nowSeconds) {
      const fields = (await redis.run(LIST, createSessionsKey(service, tagOf(did)), [])) as string[]
      return fields
        .flatMap((id, index) => (index % 2 === 1 || id === '#' ? [] : [parseSession(id, fields[index + 1] ?? '')]))
        .filter(({ user, session }) => user === toUserId(did) && session.state === 'active')
        .filter(({ session }) => nowSeconds < session.expiresAtSeconds)
        .sort((one, other) => other.number - one.number)
        .map(({ session }) => session)
    }
  }
}

function computeMillisecondsLeft(nowSeconds: number, expiresAtSeconds: number): number {
  const seconds = Math.max(0, expiresAtSeconds - nowSeconds) + CLOCK_SKEW_SECONDS
  return Math.min(Math.ceil(seconds * 1000), MAX_MILLISECONDS)
}

function toJson(claims: JsonObject | undefined): string {
  return claims === undefined ? '' : JSON.stringify(claims)
}

function parseStoredSession(sessionId: string, record: string): StoredSession {
  const { session, hash, replaced } = parseSession(sessionId, record)
  return createStoredSession(session, hash, replaced, 'base64url')
}

function parseSession(sessionId: string, record: string) {
  const [state, created, rotated, expires, number, user = '', hash = '', replaced = '', did = '""', claims = ''] =
    record.split('\n')
  const session: Session = {
    sessionId,
    did: JSON.parse(did) as string,
    state: STATES[state as keyof typeof STATES],
    tokenClaims: claims === '' ? undefined : (JSON.parse(claims) as JsonObject),
    createdAtSeconds: Number(created),
    rotatedAtSeconds: Number(rotated),
    expiresAtSeconds: Number(expires)
  }
  return { session, number: Number(number), user, hash, replaced }
}

import { MAX_REPLACED_TOKENS, MAX_SESSIONS_PER_DID } from '../../protocol/session.js'
import { REPLACED_BYTES } from '../replaced-tokens.js'
import { redisScript } from './redis-connection.js'

/*
 * The verbs of sessions. KEYS[1] is a hash: the sessions of one user tag by their ids, and the newest number under '#'.
 * Times are the callers'; Redis's own clock counts only how long a key is kept.
 *
 * A session is a text of ten lines: state, created, rotated, expires, number, user, hash of the refresh token, replaced
 * tokens, DID, claims. The scripts read it line by line; DID and claims are JSON, which has no line break.
 */

/** Characters of a replaced token, which `packReplacedToken` packs, as base64url. */
const REPLACED_CHARACTERS = (REPLACED_BYTES / MAX_REPLACED_TOKENS / 3) * 4

const DAY_MILLISECONDS = 86_400_000
const TOKENS_KEPT = MAX_REPLACED_TOKENS - 1

/**
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
 * ARGV: session id, lines before its number, lines after it, user, now, time up to which a sweep may delete,
 * milliseconds to keep it. Deletes what a sweep may, and of more than 50 sessions of the user the expired ones first,
 * then those that ended, then the oldest.
 */
export const CREATE = redisScript(`${SHARED}
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
 * to keep it. Answers 1 when it rotated, else the session, which changed nothing, for `judgeRefresh`.
 */
export const ROTATE = redisScript(`${SHARED}
local record = redis.call('HGET', key, ARGV[1])
if not record then return false end
local lines = parse(record)
if lines[7] ~= ARGV[2] or not isActive(lines, tonumber(ARGV[6])) then
  if lines[7] == ARGV[3] then rewrite(ARGV[1], record) end
  return record
end
lines[3], lines[4], lines[7], lines[10] = ARGV[6], ARGV[7], ARGV[3], ARGV[5]
lines[8] = ARGV[4] .. string.sub(lines[8], 1, ${String(TOKENS_KEPT * REPLACED_CHARACTERS)})
rewrite(ARGV[1], join(lines))
keep(ARGV[8])
return 1
`)

/** ARGV: session id, new state, now. Answers 1 when the session was active. */
export const END = redisScript(`${SHARED}
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
export const REVOKE_ALL = redisScript(`${SHARED}
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

/** Answers ids and sessions in turn, also where the client reads hashes as objects. */
export const LIST = redisScript(`return redis.call('HGETALL', KEYS[1])`)

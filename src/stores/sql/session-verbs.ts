import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { EndedSession, EndRecord, NewSession, Rotation } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import type { JsonObject } from '../../protocol/json.js'
import { judgeRefresh, MAX_SESSIONS_PER_DID } from '../../protocol/session.js'
import type { RefreshVerdict, Session, StoredSession } from '../../protocol/session.js'
import { packReplacedToken, parseReplacedTokens, REPLACED_BYTES } from '../replaced-tokens.js'
import { postgresDialect, sqliteDialect, type Dialect } from './dialect.js'
import { createStatements, verb, type SqlResult, type SqlRow, type StoreQuery } from './query.js'

const SECONDS_PER_DAY = 86_400
const KEY_BYTES = 16

/** States of a session. A row stores the index. */
const STATES = ['active', 'loggedOut', 'revoked'] as const

/** LIMIT that stands for "all", for which SQLite and PostgreSQL have no common syntax. No user has so many sessions. */
const NO_LIMIT = 1_000_000

const SESSION_COLUMNS = 'session_id, did, state, token_claims, created_at, rotated_at, expires_at, description'

/** Result column of statements that end or delete sessions: the session's id if it was active, or NULL. */
const ENDED_ID = 'ended_id'

function createSessionStatements(dialect: Dialect) {
  const { schemaPrefix, hex, joinBytes, deleteRows, tryLock, insertReturned } = dialect
  const table = 'did_auth_sessions'
  const endedTable = 'did_auth_ended_sessions'
  const replaced = `${schemaPrefix}substr(${joinBytes('$4', 'replaced')}, 1, ${String(REPLACED_BYTES)})`
  const rotate = (set: string, condition: string): string =>
    `UPDATE ${table} SET token_hash = $3, replaced = ${replaced}, token_claims = $5, rotated_at = $6, expires_at = $7${set}
    WHERE session_key = $1 AND token_hash = $2 AND state = 0 AND expires_at > $6${condition}`
  /** Adds the insertion of the ended sessions. @param first - number of the first parameter for it */
  const recorded = (change: string, first: number): string => {
    const [now, until] = [1, 2].map((offset) => `CAST($${String(first + offset)} AS bigint)`)
    const insertion = `INSERT INTO ${endedTable} (service_key, session_id, ended_at, list_until)
      SELECT $${String(first)}, ${ENDED_ID}, ${String(now)}, ${String(until)} FROM changed
      WHERE ${ENDED_ID} IS NOT NULL ON CONFLICT DO NOTHING`
    return insertReturned?.(change, insertion) ?? change
  }
  const [ended, deleted] = [
    ` RETURNING session_id AS ${ENDED_ID}`,
    ` RETURNING CASE WHEN state = 0 AND expires_at > $2 THEN session_id END AS ${ENDED_ID}`
  ]
  const trim = deleteRows(
    table,
    `target.session_key IN (SELECT session_key FROM ${table} WHERE user_key = $1
      ORDER BY expires_at <= $2, state <> 0 AND expires_at > $2, number DESC
      LIMIT ${String(NO_LIMIT)} OFFSET ${String(MAX_SESSIONS_PER_DID)})`
  )
  const evict =
    deleteRows(table, 'target.session_key <> $1 ORDER BY target.refreshed_day NULLS FIRST, target.number LIMIT 1') +
    deleted
  const revoke = `UPDATE ${table} SET state = 2 WHERE session_key = $1 AND state = 0`
  const end = `UPDATE ${table} SET state = $2 WHERE session_key = $1 AND state = 0 AND expires_at > $3`
  const revoke_all = `UPDATE ${table} SET state = 2 WHERE user_key = $1 AND state = 0 AND expires_at > $2`
  return createStatements('did_auth_session_', {
    // If the stored token hash is the same, this is a repetition: the result of the first attempt was lost.
    insert: `INSERT INTO ${table} AS stored (session_key, session_id, user_key, did, token_claims, token_hash,
        created_at, rotated_at, expires_at, sweep_day, description)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10)
      ON CONFLICT (session_key) DO UPDATE SET token_hash = excluded.token_hash
        WHERE stored.token_hash = excluded.token_hash`,
    trim,
    trim_recorded: recorded(trim + deleted, 3),
    evict,
    evict_recorded: recorded(evict, 3),
    find: `SELECT ${SESSION_COLUMNS}, ${hex('token_hash')} AS token_hash, ${hex('replaced')} AS replaced
      FROM ${table} WHERE session_key = $1`,
    rotate: rotate(', sweep_day = $8, refreshed_day = $9', ''),
    rotate_same_day: rotate('', ' AND sweep_day = $8 AND refreshed_day = $9'),
    revoke,
    revoke_recorded: recorded(revoke + ended, 2),
    end,
    end_recorded: recorded(end + ended, 4),
    revoke_all,
    revoke_all_recorded: recorded(revoke_all + ended, 3),
    record: `INSERT INTO ${endedTable} (service_key, session_id, ended_at, list_until) VALUES ($1, $4, $2, $3)
      ON CONFLICT DO NOTHING`,
    list_ended: `SELECT session_id, ended_at FROM ${endedTable} WHERE service_key = $1 AND ended_at >= $2
      AND ended_at <= coalesce((SELECT ended_at FROM ${endedTable} WHERE service_key = $1 AND ended_at >= $2
        ORDER BY ended_at LIMIT 1 OFFSET $3), ${String(Number.MAX_SAFE_INTEGER)})
      ORDER BY ended_at, session_id`,
    delete_ended: deleteRows(
      endedTable,
      `${tryLock('did_auth_delete_ended')} AND target.list_until <= $1 ORDER BY target.list_until LIMIT $2`
    ),
    list: `SELECT ${SESSION_COLUMNS} FROM ${table} WHERE user_key = $1 AND state = 0 AND expires_at > $2
      ORDER BY number DESC`,
    delete_expired: deleteRows(
      table,
      `${tryLock('did_auth_delete_sessions')} AND target.sweep_day <= $1 ORDER BY target.sweep_day LIMIT $2`
    )
  })
}

const STATEMENTS = {
  sqlite: createSessionStatements(sqliteDialect),
  postgres: createSessionStatements(postgresDialect)
}

/** Statements of sessions in the dialect of a query. */
export const sessionStatements = ({ dialect }: Pick<StoreQuery, 'dialect'>) => STATEMENTS[dialect.engine]

/**
 * Verbs of sessions. Each atomic change is one statement. After it has waited for the lock of a row, it checks the row
 * again, so that only one of several concurrent rotations matches the hash. Statements are idempotent, or report that
 * they may be a repetition. Callers parse rows of sessions in their own thread.
 */
export const findSession = verb('read', findRow)

/** @param isFull - whether another session must be evicted @returns the number of evicted active sessions */
export const createSession = verb('write', async (query: StoreQuery, session: NewSession, isFull: boolean) => {
  const { service, sessionId, did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds } = session
  const record = { service, nowSeconds, listUntilSeconds: session.listUntilSeconds }
  const [key, user] = [computeRowKey(service, sessionId), computeUserKey(service, did)]
  const times = [nowSeconds, expiresAtSeconds, computeSweepDay(expiresAtSeconds)]
  const description = toJson(session.description)
  const values = [key, sessionId, user, did, toJson(tokenClaims), toBytes(refreshTokenHash), ...times, description]
  const { rowCount } = await query(sessionStatements(query).insert, values)
  if (rowCount === 0) throw new Error('a session with this id already exists')
  // A separate statement sees rows that concurrent calls have added, so that the last of them trims the list.
  await runAndRecord(query, 'trim', [user, nowSeconds], record)
  if (!isFull) return 0
  const { rows } = await runAndRecord(query, 'evict', [key, nowSeconds], record)
  // Evicted sessions may have ended or expired. Only active ones count.
  return rows.filter(({ [ENDED_ID]: id }) => id !== null).length
})

export const rotateRefreshToken = verb(
  'write',
  async (query: StoreQuery, rotation: Rotation): Promise<RefreshVerdict> => {
    const { service, sessionId, presentedHash, nextHash, tokenClaims, nowSeconds, nextExpiresAtSeconds } = rotation
    const key = computeRowKey(service, sessionId)
    const tokens = [toBytes(presentedHash), toBytes(nextHash), packReplacedToken(presentedHash, nowSeconds)]
    const times = [nowSeconds, nextExpiresAtSeconds, computeSweepDay(nextExpiresAtSeconds), toDay(nowSeconds)]
    const values = [key, ...tokens, toJson(tokenClaims), ...times]
    const { rotate, rotate_same_day } = sessionStatements(query)
    let isRepeat = false
    // Indexed columns change at most once a day. If writing them is expensive, try the statement without them first.
    for (const statement of query.dialect.rewritesIndexes ? [rotate_same_day, rotate] : [rotate]) {
      const result = await query(statement, values)
      if (result.rowCount > 0) return 'rotate'
      isRepeat ||= result.isRepeat
    }
    const row = await findRow(query, service, sessionId)
    if (row === undefined) return 'unknown'
    const verdict = judgeRefresh(parseStoredSession(row), rotation)
    // The first attempt rotated the token, and its result was lost.
    if (isRepeat && verdict === 'repeated') return 'rotate'
    // The statement above decides. Its refusal is final, even if the session looks valid afterwards.
    if (verdict !== 'reused') return verdict === 'rotate' ? 'replaced' : verdict
    // If several requests find the theft at once, only the one that revokes the session reports it.
    const revoked = await runAndRecord(query, 'revoke', [key], rotation)
    return revoked.rowCount > 0 || revoked.isRepeat ? 'reused' : 'ended'
  }
)

export const endSession = verb(
  'write',
  async (
    query: StoreQuery,
    service: string,
    id: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number,
    listUntilSeconds?: EndRecord
  ) => {
    const values = [computeRowKey(service, id), STATES.indexOf(state), nowSeconds]
    const record = { service, nowSeconds, listUntilSeconds }
    const { rowCount, isRepeat } = await runAndRecord(query, 'end', values, record)
    if (rowCount > 0 || !isRepeat) return rowCount > 0
    const row = await findRow(query, service, id)
    return row !== undefined && STATES[Number(row.state)] === state && nowSeconds < Number(row.expires_at)
  }
)

/** Is not repeated after a lost connection, because the number would be wrong. */
export const revokeSessions = verb(
  'write',
  async (query: StoreQuery, service: string, did: string, nowSeconds: number, listUntilSeconds?: EndRecord) => {
    const record = { service, nowSeconds, listUntilSeconds }
    return (await runAndRecord(query, 'revoke_all', [computeUserKey(service, did), nowSeconds], record)).rowCount
  },
  { isRepeatable: false }
)

export const listSessions = verb(
  'read',
  async (query: StoreQuery, service: string, did: string, nowSeconds: number) => {
    return (await query(sessionStatements(query).list, [computeUserKey(service, did), nowSeconds])).rows
  }
)

/** Deletes sessions that expired before today. @returns their number */
export const deleteExpiredSessions = verb('write', async (query: StoreQuery, nowSeconds: number, limit: number) => {
  return (await query(sessionStatements(query).delete_expired, [toDay(nowSeconds), limit])).rowCount
})

export const listEndedSessions = verb(
  'read',
  async (query: StoreQuery, service: string, sinceSeconds: number, limit: number): Promise<EndedSession[]> => {
    const values = [computeServiceKey(service), sinceSeconds, limit - 1]
    const { rows } = await query(sessionStatements(query).list_ended, values)
    return rows.map((row) => ({ sessionId: String(row.session_id), endedAtSeconds: Number(row.ended_at) }))
  }
)

/** Deletes records of ended sessions that are listed no longer. @returns their number */
export const deleteEndedSessions = verb('write', async (query: StoreQuery, nowSeconds: number, limit: number) => {
  return (await query(sessionStatements(query).delete_ended, [nowSeconds, limit])).rowCount
})

/** Runs a statement that ends or deletes sessions, and records the active ones in the same transaction. */
async function runAndRecord(
  query: StoreQuery,
  name: 'trim' | 'evict' | 'revoke' | 'end' | 'revoke_all',
  values: readonly unknown[],
  { service, nowSeconds, listUntilSeconds }: Pick<NewSession, 'service' | 'nowSeconds' | 'listUntilSeconds'>
): Promise<SqlResult> {
  const statements = sessionStatements(query)
  // Messages to threads are JSON, in which an undefined argument is null.
  if (typeof listUntilSeconds !== 'number') return query(statements[name], values)
  const record = [computeServiceKey(service), nowSeconds, listUntilSeconds]
  if (query.dialect.insertReturned !== undefined) return query(statements[`${name}_recorded`], [...values, ...record])
  const result = await query(statements[`${name}_recorded`], values)
  for (const { [ENDED_ID]: id } of result.rows) if (id !== null) await query(statements.record, [...record, id])
  return result
}

async function findRow(query: StoreQuery, service: string, sessionId: string): Promise<SqlRow | undefined> {
  return (await query(sessionStatements(query).find, [computeRowKey(service, sessionId)])).rows[0]
}

/** Converts claims or a text to JSON in ASCII, which databases of every encoding accept. */
function toJson(value: JsonObject | string | undefined): string | null {
  const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return value === undefined ? null : JSON.stringify(value).replace(/[\u0080-\uffff]/g, escape)
}

/** Returns the first day that begins at or after an expiry. From that day on, a sweep may delete the session. */
function computeSweepDay(expiresAtSeconds: number): number {
  return Math.ceil(expiresAtSeconds / SECONDS_PER_DAY)
}

function toDay(seconds: number): number {
  return Math.floor(seconds / SECONDS_PER_DAY)
}

function toBytes(hash: string): Buffer {
  return Buffer.from(hash, 'base64url')
}

/** Computes the key of a row: 16 bytes of SHA-256 over service and name. Services never share a key. */
export function computeRowKey(service: string, name: string): Buffer {
  // A serviceUrl contains no line feed, so different inputs never give the same text.
  return createHash('sha256').update(`${service}\n${name}`).digest().subarray(0, KEY_BYTES)
}

/** Computes the key of the records of a service. */
function computeServiceKey(service: string): Buffer {
  return computeRowKey(service, '')
}

/** Computes the key of a user. All spellings of a DID have the same key. */
export function computeUserKey(service: string, did: string): Buffer {
  return computeRowKey(service, canonicalDid(did))
}

/** Parses a session from a row. PostgreSQL may return numbers as text. */
export function parseSession(row: SqlRow): Session {
  return {
    sessionId: String(row.session_id),
    did: String(row.did),
    state: STATES[Number(row.state)] ?? 'revoked',
    tokenClaims: typeof row.token_claims === 'string' ? (JSON.parse(row.token_claims) as JsonObject) : undefined,
    createdAtSeconds: Number(row.created_at),
    rotatedAtSeconds: Number(row.rotated_at),
    expiresAtSeconds: Number(row.expires_at),
    description: typeof row.description === 'string' ? (JSON.parse(row.description) as string) : undefined
  }
}

/** Parses a session with its refresh tokens from a row, in which tokens are hexadecimal digits. */
export function parseStoredSession(row: SqlRow): StoredSession {
  return {
    ...parseSession(row),
    refreshTokenHash: Buffer.from(String(row.token_hash), 'hex').toString('base64url'),
    get replacedTokens() {
      return parseReplacedTokens(Buffer.from(String(row.replaced), 'hex'))
    }
  }
}

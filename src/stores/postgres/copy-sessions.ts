import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { OPENING_MILLISECONDS } from '../sqlite/better-sqlite3.js'
import { prepareTables } from '../sqlite/prepare-tables.js'
import { chooseEngine, openConnection, type SqlConnection, type SqlRow } from '../sqlite/sqlite-engine.js'
import { ADD_SESSIONS, ADD_USES, FORGET_USES } from './copy-statements.js'
import { migratePostgres } from './migrate-postgres.js'
import { PostgresDatabase, type PostgresDatabaseOptions } from './postgres-database.js'
import type { PostgresPool } from './postgres-pool.js'
import { ServiceIds, userKeyOf } from './row-keys.js'
import { MIGRATIONS, SCHEMA_TABLE } from './schema.js'
import { STATES } from './session-row.js'

/** From where to where sessions are copied. */
export interface SessionCopy extends PostgresDatabaseOptions {
  /** Path of the SQLite file. No process may have it open that writes to it. */
  from: string
  /** A URL such as `postgres://user:password@host/database`, or what `postgresStore` takes besides. */
  to: string | PostgresPool | PostgresDatabase
  /** False: only used challenges are copied, and users log in again. Default true. */
  withSessions?: boolean
  /** Whole seconds since the Unix epoch. Default: the clock of this machine. */
  nowSeconds?: number
  /** Receives what was copied so far, now and then. */
  onProgress?: (copied: CopiedSessions) => void
}

/** What was copied. */
export interface CopiedSessions {
  /** Sessions that were added, or brought to what became of them in the file since an earlier copy. */
  readonly sessions: number
  /** Sessions that were there already, and stay as they are. */
  readonly knownSessions: number
  /** Sessions that are left out because they have expired. */
  readonly expiredSessions: number
  /** Of those that were read: sessions whose refresh token is one of version 0.1, so that their users log in again. */
  readonly oldTokens: number
  /** Challenges whose uses were added or raised. */
  readonly challengeUses: number
}

const ROWS_AT_A_TIME = 500
const REPEATABLE = { isRepeatable: true }
const USE_BYTES = 12

/**
 * Copies sessions and used challenges of a {@link sqliteStore} to PostgreSQL, so that users stay logged in when a service
 * moves there: refresh tokens are good at the new place, replaced ones are known, and a challenge that was used stays used.
 * Quotas are not copied.
 *
 * It may end at any moment and be run again. A session that was refreshed or has ended at the new place since is never
 * set back. A file that an earlier version wrote is brought up to date.
 *
 * @returns what was copied, and what was not
 * @throws Error when there is no such file, or it is none of a store; DidAuthError ERR_STORE, ERR_CONFIG as `migrateStore`
 * @example
 * ```ts
 * await copySessions({ from: './auth.db', to: 'postgres://app@localhost/app' })
 * ```
 */
export async function copySessions({ from, to, ...options }: SessionCopy): Promise<CopiedSessions> {
  // SQLite would make an empty one.
  if (!existsSync(from)) throw new Error(`express-did-auth: there is no file ${from}`)
  const database = to instanceof PostgresDatabase ? to : new PostgresDatabase(to, options)
  try {
    await migratePostgres(database, MIGRATIONS, { schemaTable: SCHEMA_TABLE })
    const opening = { synchronous: 'FULL', busyMilliseconds: OPENING_MILLISECONDS } as const
    const file = openConnection(from, chooseEngine(), opening)
    try {
      prepareTables(file)
      return await copyAll(file, database, options)
    } finally {
      file.close()
    }
  } finally {
    if (database !== to) await database.close()
  }
}

async function copyAll(
  file: SqlConnection,
  database: PostgresDatabase,
  { withSessions = true, nowSeconds = Math.floor(Date.now() / 1000), onProgress }: Omit<SessionCopy, 'from' | 'to'>
): Promise<CopiedSessions> {
  const services = new ServiceIds(database)
  const copied = { sessions: 0, knownSessions: 0, expiredSessions: 0, oldTokens: 0, challengeUses: 0 }
  const idOf = async ({ service }: SqlRow): Promise<number> => services.of(String(service))
  for (const rows of pagesOf(file, 'did_auth_challenge_uses', 'expires_at > ?', 0)) {
    const values = await Promise.all(rows.map(async (row) => useValues(row, await idOf(row))))
    const { rowCount } = await database.query(ADD_USES, columnsOf(values), REPEATABLE)
    copied.challengeUses += rowCount
    onProgress?.({ ...copied })
  }
  const [forgotten] = file.prepare("SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil'").all()
  await database.query(FORGET_USES, [Number(forgotten?.number ?? 0)], REPEATABLE)
  if (!withSessions) return copied
  for (const rows of pagesOf(file, 'did_auth_sessions', 'expires_at > ?', nowSeconds)) {
    const values = await Promise.all(rows.map(async (row) => sessionValues(row, await idOf(row))))
    const { rowCount } = await database.query(ADD_SESSIONS, columnsOf(values), REPEATABLE)
    copied.sessions += rowCount
    copied.knownSessions += rows.length - rowCount
    onProgress?.({ ...copied })
  }
  copied.expiredSessions = countOf(
    file,
    'SELECT count(*) AS number FROM did_auth_sessions WHERE expires_at <= ?',
    nowSeconds
  )
  copied.oldTokens = countOf(
    file,
    `SELECT count(*) AS number FROM did_auth_migrated_tokens JOIN did_auth_sessions s USING (refresh_token_hash, service)
      WHERE s.expires_at > ? AND s.state = 'active'`,
    nowSeconds
  )
  return copied
}

function* pagesOf(file: SqlConnection, table: string, condition: string, value: number): Generator<SqlRow[]> {
  const next = file.prepare(
    `SELECT * FROM ${table} WHERE id > ? AND ${condition} ORDER BY id LIMIT ${String(ROWS_AT_A_TIME)}`
  )
  for (let rows = next.all(-1, value); rows.length > 0; rows = next.all(Number(rows.at(-1)?.id), value)) yield rows
}

function countOf(file: SqlConnection, text: string, value: number): number {
  return Number(file.prepare(text).get(value)?.number)
}

function sessionValues(row: SqlRow, service: number): unknown[] {
  const { session_id, canonical_did, did, state, token_claims, refresh_token_hash, replaced, ...times } = row
  const hash = Buffer.from(String(refresh_token_hash), 'base64url')
  const number = STATES.findIndex((name) => name === state)
  const tokens = [token_claims, hash, Buffer.from(replaced as Uint8Array)]
  const { created_at, rotated_at, expires_at, sweep_day, refreshed_day } = times
  const ends = [created_at, rotated_at, expires_at, sweep_day, refreshed_day]
  return [session_id, service, userKeyOf(String(canonical_did)), did, number, ...tokens, ...ends]
}

function useValues(
  { canonical_did, challenge_window, log_in, sign_up, expires_at }: SqlRow,
  service: number
): unknown[] {
  const key = [userKeyOf(String(canonical_did)), challenge_window, service]
  return [...key, log_in, sign_up, randomBytes(USE_BYTES), expires_at]
}

/** Rows as the arrays that a statement takes. */
function columnsOf(rows: readonly (readonly unknown[])[]): unknown[][] {
  return (rows[0] ?? []).map((_, column) => rows.map((row) => row[column]))
}

import { randomBytes } from 'node:crypto'
import type { ChallengeFlow, ChallengeUse, ChallengeUseKey } from '../../ports.js'
import { postgresDialect, sqliteDialect, type Dialect } from './dialect.js'
import { createStatements, verb, type StoreQuery } from './query.js'
import { computeUserKey } from './session-verbs.js'

const TABLE = 'did_auth_challenge_uses'
const USE_CONDITION = 'user_key = $1 AND challenge_window = $2'
const COLUMNS = { logIn: 'log_in', signUp: 'sign_up' } as const satisfies Record<ChallengeFlow, string>
const USE_BYTES = 12

/** Maximum number of rows of each table. */
export type TableBounds = Readonly<Record<'sessions' | 'challengeUses', number>>

/** Whether each table has reached its maximum, approximately. */
export type FullTables = Readonly<Record<keyof TableBounds, boolean>>

function createStoreStatements(dialect: Dialect) {
  const { schemaPrefix, greatest, tryLock, nowSeconds, deleteRows, rowCount } = dialect
  const isOpen = "$6 > (SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil')"
  /** Adds a row, or updates one in which only the other flow was used. */
  const first = (flow: ChallengeFlow): string =>
    `INSERT INTO ${TABLE} AS stored (user_key, challenge_window, log_in, sign_up, last_use, expires_at)
      SELECT $1, CAST($2 AS bigint), CAST($3 AS int), CAST($4 AS int), $5, CAST($6 AS bigint) WHERE ${isOpen}
      ON CONFLICT (user_key, challenge_window) DO UPDATE SET log_in = ${greatest('stored.log_in', 'excluded.log_in')},
        sign_up = ${greatest('stored.sign_up', 'excluded.sign_up')}, last_use = excluded.last_use
      WHERE stored.${COLUMNS[flow]} = 0 OR stored.last_use = excluded.last_use`
  // The row must have a count of one less than the new count.
  const next = (flow: ChallengeFlow): string =>
    `UPDATE ${TABLE} SET log_in = ${greatest('log_in', '$3')}, sign_up = ${greatest('sign_up', '$4')}, last_use = $5
    WHERE ${USE_CONDITION}
      AND (${COLUMNS[flow]} = ${flow === 'logIn' ? '$3' : '$4'} - 1 OR last_use = $5) AND ${isOpen}`
  const wereClosed = (grace: string): string => `changed_at <= ${nowSeconds} - ${grace}`
  const isFull = (table: string, bound: string): string =>
    `CAST(${rowCount(table, bound)} >= CAST(${bound} AS bigint) AS int)`
  return createStatements('did_auth_', {
    find_use: `SELECT log_in, sign_up FROM ${TABLE} WHERE ${USE_CONDITION}`,
    first_log_in: first('logIn'),
    first_sign_up: first('signUp'),
    next_log_in: next('logIn'),
    next_sign_up: next('signUp'),
    close_windows: `UPDATE did_auth_numbers SET number = ended.newest, changed_at = ${nowSeconds}
      FROM (SELECT ${schemaPrefix}max(expires_at) AS newest FROM ${TABLE} WHERE expires_at <= $1) ended
      WHERE name = 'usesForgottenUntil' AND number < ended.newest
        AND (${wereClosed('$2')} OR changed_at > ${nowSeconds})`,
    // A subquery instead of a join, so that the index on `expires_at` is used.
    delete_uses: deleteRows(
      TABLE,
      `${tryLock('did_auth_delete_uses')} AND target.expires_at <= (SELECT number FROM did_auth_numbers
        WHERE name = 'usesForgottenUntil' AND ${wereClosed('$1')}) ORDER BY target.expires_at LIMIT $2`
    ),
    full_tables: `SELECT ${isFull('did_auth_sessions', '$1')} AS sessions, ${isFull(TABLE, '$2')} AS challenge_uses`,
    ping: "UPDATE did_auth_numbers SET number = number + 1 WHERE name = 'pings'"
  })
}

const STATEMENTS = { sqlite: createStoreStatements(sqliteDialect), postgres: createStoreStatements(postgresDialect) }

/** Statements of challenge uses, table sizes and pings in the dialect of a query. */
export const storeStatements = ({ dialect }: Pick<StoreQuery, 'dialect'>) => STATEMENTS[dialect.engine]

/** Verbs of challenge uses. Each use has a random id, by which a repeated statement recognizes its own row. */
export const countChallengeUses = verb(
  'read',
  async (query: StoreQuery, key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> => {
    const { rows } = await query(storeStatements(query).find_use, listKeyValues(key))
    return { logIn: Number(rows[0]?.log_in ?? 0), signUp: Number(rows[0]?.sign_up ?? 0) }
  }
)

/** @param isFull - whether no row may be added */
export const consumeChallenge = verb('write', async (query: StoreQuery, use: ChallengeUse, isFull: boolean) => {
  const { flow, useCount, consumesBoth, nowSeconds, expiresAtSeconds } = use
  if (nowSeconds >= expiresAtSeconds) return 'taken'
  const key = listKeyValues(use)
  if (isFull && useCount === 0 && (await query(storeStatements(query).find_use, key)).rowCount === 0) return 'full'
  const countAfter = (column: ChallengeFlow): number => (column === flow || consumesBoth ? useCount + 1 : 0)
  const values = [...key, countAfter('logIn'), countAfter('signUp'), randomBytes(USE_BYTES), expiresAtSeconds]
  const { rowCount } = await query(
    storeStatements(query)[`${useCount === 0 ? 'first' : 'next'}_${COLUMNS[flow]}`],
    values
  )
  return rowCount > 0 ? 'consumed' : 'taken'
})

/**
 * Closes expired windows permanently: their challenges stay invalid even if the clock is set back. Does nothing
 * until the grace period of the windows that were closed last is over.
 */
export const closeWindows = verb('write', async (query: StoreQuery, endSeconds: number, graceSeconds: number) => {
  await query(storeStatements(query).close_windows, [endSeconds, graceSeconds])
})

/** @param graceSeconds - longer than any statement runs, because an older statement could add a use again */
export const deleteClosedUses = verb('write', async (query: StoreQuery, graceSeconds: number, limit: number) => {
  return (await query(storeStatements(query).delete_uses, [graceSeconds, limit])).rowCount
})

export const findFullTables = verb('read', async (query: StoreQuery, bounds: TableBounds): Promise<FullTables> => {
  const { rows } = await query(storeStatements(query).full_tables, [bounds.sessions, bounds.challengeUses])
  return { sessions: Number(rows[0]?.sessions) === 1, challengeUses: Number(rows[0]?.challenge_uses) === 1 }
})

/** Writes a row, and therefore fails on a full disk, a read-only file or a missing synchronous standby. */
export const ping = verb('write', async (query: StoreQuery) => {
  await query(storeStatements(query).ping)
})
function listKeyValues({ service, did, window }: ChallengeUseKey): unknown[] {
  return [computeUserKey(service, did), window]
}

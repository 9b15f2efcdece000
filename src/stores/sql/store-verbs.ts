import { randomBytes } from 'node:crypto'
import type { ChallengeFlow, ChallengeUse, ChallengeUseKey } from '../../ports.js'
import type { Dialect } from './dialect.js'
import { createStatements, type SqlQuery } from './query.js'
import { createSessionVerbs } from './session-verbs.js'
import { computeUserKey } from './tables.js'

const TABLE = 'did_auth_challenge_uses'
const OF_USE = 'user_key = $1 AND challenge_window = $2'
const COLUMNS = { logIn: 'log_in', signUp: 'sign_up' } as const satisfies Record<ChallengeFlow, string>
const USE_BYTES = 12

/** Bounds of the tables, in rows. */
export type TableBounds = Readonly<Record<'sessions' | 'challengeUses', number>>

/** Whether each table has, approximately, no space for another row. */
export type FullTables = Readonly<Record<keyof TableBounds, boolean>>

/** Verbs of a store. No state remains between two calls. */
export type StoreVerbs = ReturnType<typeof createStoreVerbs>

/** Creates the verbs. Each use of a challenge has a random name, by which a repeated statement knows its own. */
export function createStoreVerbs(dialect: Dialect) {
  const statements = storeStatements(dialect)
  return {
    ...createSessionVerbs(dialect),

    async countChallengeUses(query: SqlQuery, key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> {
      const { rows } = await query(statements.find_use, listKeyValues(key))
      return { logIn: Number(rows[0]?.log_in ?? 0), signUp: Number(rows[0]?.sign_up ?? 0) }
    },

    /** @param isFull - whether no row may be added */
    async consumeChallenge(query: SqlQuery, use: ChallengeUse, isFull: boolean) {
      const { flow, useCount, consumesBoth, nowSeconds, expiresAtSeconds } = use
      if (nowSeconds >= expiresAtSeconds) return 'taken'
      const key = listKeyValues(use)
      if (isFull && useCount === 0 && (await query(statements.find_use, key)).rowCount === 0) return 'full'
      const raised = (column: ChallengeFlow): number => (column === flow || consumesBoth ? useCount + 1 : 0)
      const values = [...key, raised('logIn'), raised('signUp'), randomBytes(USE_BYTES), expiresAtSeconds]
      const { rowCount } = await query(statements[`${useCount === 0 ? 'first' : 'next'}_${COLUMNS[flow]}`], values)
      return rowCount > 0 ? 'consumed' : 'taken'
    },

    /** Closes windows permanently, also for a clock that is set back; not while uses of closed ones still wait. */
    async closeWindows(query: SqlQuery, endSeconds: number, graceSeconds: number): Promise<void> {
      await query(statements.close_windows, [endSeconds, graceSeconds])
    },

    /** @param graceSeconds - longer than any statement lasts: one that began before would add a use again */
    async deleteClosedUses(query: SqlQuery, graceSeconds: number, limit: number): Promise<number> {
      return (await query(statements.delete_uses, [graceSeconds, limit])).rowCount
    },

    async findFullTables(query: SqlQuery, bounds: TableBounds): Promise<FullTables> {
      const { rows } = await query(statements.full_tables, [bounds.sessions, bounds.challengeUses])
      return { sessions: Number(rows[0]?.sessions) === 1, challengeUses: Number(rows[0]?.challenge_uses) === 1 }
    },

    /** Writes, so that a full disk, a read-only file or a missing synchronous standby makes it fail. */
    async ping(query: SqlQuery): Promise<void> {
      await query(statements.ping)
    }
  }
}

const READS: readonly (keyof StoreVerbs)[] = ['findSession', 'listSessions', 'countChallengeUses', 'findFullTables']

/** The verbs that write nothing. SQLite runs them in no transaction. */
export const STORE_READS = new Set<string>(READS)

/**
 * Verbs that are not repeated after a lost connection, because the number that they answer would be wrong. A repeated
 * statement of the others leaves the same as one, or finds its own mark: the token, the state or the use that it wrote.
 * The bounds of tables and of quotas are approximate: a repeated eviction may drop one session more, a charge may count
 * twice.
 */
export const STORE_SINGLE_USE: ReadonlySet<string> = new Set<keyof StoreVerbs>(['revokeSessions'])

/** Returns the statements of these verbs, without those of sessions. */
export function storeStatements({ fn, greatest, isAlone, nowSeconds, deleteRows, rowCount }: Dialect) {
  const isOpen = "$6 > (SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil')"
  /** Adds a row, or finds one in which only the other flow was used. */
  const first = (flow: ChallengeFlow): string =>
    `INSERT INTO ${TABLE} AS known (user_key, challenge_window, log_in, sign_up, last_use, expires_at)
      SELECT $1, CAST($2 AS bigint), CAST($3 AS int), CAST($4 AS int), $5, CAST($6 AS bigint) WHERE ${isOpen}
      ON CONFLICT (user_key, challenge_window) DO UPDATE SET log_in = ${greatest('known.log_in', 'excluded.log_in')},
        sign_up = ${greatest('known.sign_up', 'excluded.sign_up')}, last_use = excluded.last_use
      WHERE known.${COLUMNS[flow]} = 0 OR known.last_use = excluded.last_use`
  // The count that it raises is one less than what it becomes.
  const next = (flow: ChallengeFlow): string =>
    `UPDATE ${TABLE} SET log_in = ${greatest('log_in', '$3')}, sign_up = ${greatest('sign_up', '$4')}, last_use = $5
    WHERE ${OF_USE} AND (${COLUMNS[flow]} = ${flow === 'logIn' ? '$3' : '$4'} - 1 OR last_use = $5) AND ${isOpen}`
  const wereClosed = (grace: string): string => `changed_at <= ${nowSeconds} - ${grace}`
  const isFull = (table: string, bound: string): string =>
    `CAST(${rowCount(table, bound)} >= CAST(${bound} AS bigint) AS int)`
  return createStatements('did_auth_', {
    find_use: `SELECT log_in, sign_up FROM ${TABLE} WHERE ${OF_USE}`,
    first_log_in: first('logIn'),
    first_sign_up: first('signUp'),
    next_log_in: next('logIn'),
    next_sign_up: next('signUp'),
    close_windows: `UPDATE did_auth_numbers SET number = ended.newest, changed_at = ${nowSeconds}
      FROM (SELECT ${fn}max(expires_at) AS newest FROM ${TABLE} WHERE expires_at <= $1) ended
      WHERE name = 'usesForgottenUntil' AND number < ended.newest
        AND (${wereClosed('$2')} OR changed_at > ${nowSeconds})`,
    // A value, and no join: so that the index on the end finds what there is to delete.
    delete_uses: deleteRows(
      TABLE,
      `${isAlone('did_auth_delete_uses')} AND one.expires_at <= (SELECT number FROM did_auth_numbers
        WHERE name = 'usesForgottenUntil' AND ${wereClosed('$1')}) ORDER BY one.expires_at LIMIT $2`
    ),
    full_tables: `SELECT ${isFull('did_auth_sessions', '$1')} AS sessions, ${isFull(TABLE, '$2')} AS challenge_uses`,
    ping: "UPDATE did_auth_numbers SET number = number + 1 WHERE name = 'pings'"
  })
}

function listKeyValues({ service, did, window }: ChallengeUseKey): unknown[] {
  return [computeUserKey(service, did), window]
}

import { challengeVerbs } from './challenge-verbs.js'
import type { Dialect } from './dialect.js'
import { statementsOf, type SqlQuery } from './query.js'
import { sessionVerbs } from './session-verbs.js'

/** Bounds of the tables, in rows. */
export interface TableBounds {
  readonly sessions: number
  readonly challengeUses: number
}

/** Which of the tables have no space for another row, about. */
export type FullTables = Readonly<Record<keyof TableBounds, boolean>>

/** The verbs of sessions and of uses of challenges on either engine. They keep nothing between two calls. */
export type StoreVerbs = ReturnType<typeof storeVerbsOf>

export function storeVerbsOf(dialect: Dialect) {
  const isFull = (table: string, bound: string): string =>
    `CAST(${dialect.rowCount(table, bound)} >= CAST(${bound} AS bigint) AS int)`
  const statements = statementsOf('did_auth_', {
    full_tables: `SELECT ${isFull('did_auth_sessions', '$1')} AS sessions,
      ${isFull('did_auth_challenge_uses', '$2')} AS challenge_uses`,
    ping: "UPDATE did_auth_numbers SET number = number + 1 WHERE name = 'pings'"
  })
  return {
    ...sessionVerbs(dialect),
    ...challengeVerbs(dialect),

    async findFullTables(query: SqlQuery, bounds: TableBounds): Promise<FullTables> {
      const { rows } = await query(statements.full_tables, [bounds.sessions, bounds.challengeUses])
      return { sessions: Number(rows[0]?.sessions) === 1, challengeUses: Number(rows[0]?.challenge_uses) === 1 }
    },

    /** A real write, so that a full disk, a read-only file or a missing synchronous standby fails. */
    async ping(query: SqlQuery): Promise<void> {
      await query(statements.ping)
    }
  }
}

/** The verbs that write nothing. SQLite runs them in no transaction. */
export const STORE_READS: ReadonlySet<keyof StoreVerbs> = new Set([
  'findSession',
  'listSessions',
  'countChallengeUses',
  'findFullTables'
] as const)

import type { SqlQuery, SqlRow } from 'express-did-auth/server-kit'
import type { EntryPlace } from '../content-store.js'
import type { ContentDialect } from './content-dialect.js'
import { entryOf, type Entry } from './list-state.js'
import type { Page } from './pages.js'

const PAGE = 500

/** Tables that are copied by their rows, each with the columns that order it. */
export const COPIED_TABLES = { denied: ['cid'], lists: ['did', 'key'], files: ['cid'], pins: ['cid'] } as const
export type CopiedTable = keyof typeof COPIED_TABLES

/**
 * The verbs of a copy from one store, to which nothing writes meanwhile, to another, in pages; the last one is empty.
 * Each of those that write may be run again: what is there stays as it is.
 */
export function copyVerbs({ statements, nextRevision, fn }: ContentDialect) {
  const pageOf = (table: CopiedTable): string => {
    const columns = COPIED_TABLES[table]
    const after = columns.map((_, index) => `$${index + 1}`)
    return `SELECT * FROM ~${table} WHERE (${columns.join()}) > (${after.join()}) ORDER BY ${columns.join()} LIMIT ${PAGE}`
  }
  const addPin = (condition: string): string =>
    `INSERT INTO ~pins (cid, state, is_in_doubt, revision) SELECT $1, $2, $3, ${nextRevision}
       WHERE ${condition} (SELECT 1 FROM ~contents WHERE cid = $1) ON CONFLICT (cid) DO NOTHING`
  const s = statements('copy', {
    ...{ denied: pageOf('denied'), lists: pageOf('lists'), files: pageOf('files'), pins: pageOf('pins') },
    lastNumber: `SELECT coalesce(${fn}max(last_number), 0) AS number FROM ~owners`,
    entries: `SELECT number, cid, byte_count FROM ~entries
      WHERE owner = (SELECT id FROM ~owners WHERE did = $1) AND key = $2 ORDER BY number`,
    reserve: "UPDATE ~numbers SET number = $1 WHERE name = 'reserved' AND number < $1",
    reserveOwned: 'UPDATE ~owners SET last_number = $1 WHERE last_number < $1',
    addDesired: addPin('EXISTS'),
    addUndesired: addPin('NOT EXISTS')
  })

  const reads = {
    /** Rows of a table, from the one after a place in its order. */
    async readRows(query: SqlQuery, table: CopiedTable, after: readonly unknown[]): Promise<Page<SqlRow, unknown[]>> {
      const { rows } = await query(s[table], after)
      const last = rows.at(-1)
      return { items: rows, next: last && COPIED_TABLES[table].map((column) => last[column]) }
    },

    /** Entries of a list with their numbers. */
    async numberedEntries(query: SqlQuery, { did, key }: EntryPlace): Promise<Entry[]> {
      return (await query(s.entries, [did, key])).rows.map(entryOf)
    },

    /** The largest number of an entry. */
    async lastNumber(query: SqlQuery): Promise<number> {
      return Number((await query(s.lastNumber)).rows[0]?.number)
    }
  }

  const singles = {
    /** Makes entries that are written from now on come after those with numbers up to this one. */
    async reserveNumbers(query: SqlQuery, number: number): Promise<void> {
      await query(s.reserve, [number])
      await query(s.reserveOwned, [number])
    }
  }

  const transactions = {
    /** Adds pins of content that is here, and those to remove of content that is not. @param pins - rows elsewhere */
    async importPins(query: SqlQuery, pins: readonly SqlRow[]): Promise<void> {
      const add = ({ cid, state, is_in_doubt, attempts, claimed_until }: SqlRow): Promise<unknown> => {
        const isInDoubt = is_in_doubt === 1 || Number(attempts) > 0 || Number(claimed_until) > 0
        return query(state === 'unpin' ? s.addUndesired : s.addDesired, [cid, state, isInDoubt ? 1 : 0])
      }
      await Promise.all(pins.map(add))
    }
  }

  return { reads, singles, transactions }
}

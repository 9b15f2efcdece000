import type { SqlQuery, SqlRow } from 'express-did-auth/server-kit'
import type { ContentInfo, EntryPlace } from '../content-store.js'
import type { ContentDialect } from './content-dialect.js'
import { entryOf, etagOf, infoOf, stateOf, type Entry } from './list-state.js'
import { pageByCid } from './pages.js'

const PAGE = 500

/** What is desired of the pin of a cid; `pin` and `unpin` are open. */
export interface PinState {
  readonly cid: string
  readonly state: 'pin' | 'pinned' | 'unpin'
  /** The node may still carry out an earlier call. */
  readonly isInDoubt: boolean
}

/** A file without its bytes. */
export type FileRow = ContentInfo & { readonly expiresAtSeconds: number }

/**
 * The verbs of a copy from one store, to which nothing writes meanwhile, to another, in pages; the last one is empty.
 * Each of those that import may be run again: what is there stays as it is.
 */
export function copyVerbs({ statements, nextRevision, fn }: ContentDialect) {
  const pageOf = (table: string): string => `SELECT * FROM ${table} WHERE cid > $1 ORDER BY cid LIMIT ${PAGE}`
  const addPin = (condition: string): string =>
    `INSERT INTO ~pins (cid, state, is_in_doubt, revision) SELECT $1, $2, $3, ${nextRevision}
       WHERE ${condition} (SELECT 1 FROM ~contents WHERE cid = $1) ON CONFLICT (cid) DO NOTHING`
  const s = statements('copy', {
    lastNumber: `SELECT coalesce(${fn}max(last_number), 0) AS number FROM ~owners`,
    lists: `SELECT did, key, entry_count, hash FROM ~lists WHERE (did, key) > ($1, $2) ORDER BY did, key LIMIT ${PAGE}`,
    entries: `SELECT number, cid, byte_count FROM ~entries
      WHERE owner = (SELECT id FROM ~owners WHERE did = $1) AND key = $2 ORDER BY number`,
    files: pageOf('~files'),
    denied: pageOf('~denied'),
    pins: pageOf('~pins'),
    reserve: "UPDATE ~numbers SET number = $1 WHERE name = 'reserved' AND number < $1",
    reserveOwned: 'UPDATE ~owners SET last_number = $1 WHERE last_number < $1',
    addDesired: addPin('EXISTS'),
    addUndesired: addPin('NOT EXISTS')
  })

  const reads = {
    /** The largest number of an entry. */
    async lastNumber(query: SqlQuery): Promise<number> {
      return Number((await query(s.lastNumber)).rows[0]?.number)
    },

    /** Lists with their ETags, in the order of DIDs and keys, from the one after a place. */
    async exportLists(query: SqlQuery, { did, key }: EntryPlace) {
      const { rows } = await query(s.lists, [did, key])
      const items = rows.map((row) => ({ did: String(row.did), key: String(row.key), etag: etagOf(stateOf(row)) }))
      const next: EntryPlace | undefined = items.at(-1)
      return { items, next }
    },

    async exportEntries(query: SqlQuery, { did, key }: EntryPlace): Promise<Entry[]> {
      return (await query(s.entries, [did, key])).rows.map(entryOf)
    },

    async exportFiles(query: SqlQuery, afterCid: string) {
      return pageByCid((await query(s.files, [afterCid])).rows.map(fileOf))
    },

    async exportDenied(query: SqlQuery, afterCid: string) {
      const { rows } = await query(s.denied, [afterCid])
      const items = rows.map(({ cid, reason, at }) => ({
        cid: String(cid),
        reason: String(reason),
        atSeconds: Number(at)
      }))
      return pageByCid(items)
    },

    async exportPins(query: SqlQuery, afterCid: string) {
      const { rows } = await query(s.pins, [afterCid])
      const pinOf = ({ cid, state, is_in_doubt, attempts, claimed_until }: SqlRow): PinState => ({
        cid: String(cid),
        // The table allows no other.
        state: state as PinState['state'],
        isInDoubt: is_in_doubt === 1 || Number(attempts) > 0 || Number(claimed_until) > 0
      })
      return pageByCid(rows.map(pinOf))
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
    /** Adds pins of content that is here, and those to remove of content that is not. */
    async importPins(query: SqlQuery, states: readonly PinState[]): Promise<void> {
      const add = ({ cid, state, isInDoubt }: PinState): Promise<unknown> =>
        query(state === 'unpin' ? s.addUndesired : s.addDesired, [cid, state, isInDoubt ? 1 : 0])
      await Promise.all(states.map(add))
    }
  }

  return { reads, singles, transactions }
}

export function fileOf(row: SqlRow): FileRow {
  return { ...infoOf(row), expiresAtSeconds: Number(row.expires_at) }
}

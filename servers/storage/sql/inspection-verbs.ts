import type { SqlQuery, SqlRow } from 'express-did-auth/server-kit'
import type { ContentInfo, EntryPlace } from '../content-store.js'
import { toJsonArray, type ContentDialect } from './content-dialect.js'
import type { ContentSteps } from './content-steps.js'
import {
  findDamagedKeys,
  toEntry,
  toContentInfo,
  computeListState,
  type Entry,
  type EntrySteps
} from './entry-verbs.js'

/** Owners in a batch. It is small, because a running server waits for it, and an owner may have 10,000 entries. */
const BATCH_OWNERS = 20

/** Result of a database check. */
export interface DatabaseCheck {
  /** Damage that cannot be repaired, as the database describes it. Empty if there is none. */
  readonly damage: readonly string[]
  /** Names of damaged indexes, which can be rebuilt. */
  readonly indexes: readonly string[]
}

/** Verbs that check and repair a database as a whole. */
export interface DatabaseVerbs {
  readonly findFaults: (query: SqlQuery) => Promise<DatabaseCheck>
  readonly rebuildIndexes: (query: SqlQuery, indexes: readonly string[]) => Promise<void>
}

/** Creates short verbs for commands that run next to servers. Imports are repeatable: existing rows do not change. */
export function createInspectionVerbs(dialect: ContentDialect, content: ContentSteps, entries: EntrySteps) {
  const { isIn, schemaPrefix, forUpdate, nextRevision } = dialect
  const selectPage = `SELECT id FROM ~owners WHERE id > $1 ORDER BY id LIMIT ${BATCH_OWNERS}`
  const selectUsed = (table: string): string =>
    `SELECT cid, byte_count FROM (SELECT cid, ${schemaPrefix}max(byte_count) AS byte_count FROM ${table} WHERE cid > $1
       GROUP BY cid ORDER BY cid LIMIT $2) AS used`
  const addPin = (condition: string): string =>
    `INSERT INTO ~pins (cid, state, is_in_doubt, revision) SELECT $1, $2, $3, ${nextRevision}
       WHERE ${condition} (SELECT 1 FROM ~contents WHERE cid = $1) ON CONFLICT (cid) DO NOTHING`
  const s = dialect.statements('inspect', {
    // One statement reads all rows in one snapshot, so that concurrent writes do not look like faults.
    owners: `SELECT id, did, NULL AS key, NULL AS hash, entry_count, 0 AS number, NULL AS cid, byte_count, 1 AS is_owner
        FROM ~owners WHERE id IN (${selectPage})
      UNION ALL SELECT o.id, o.did, l.key, l.hash, l.entry_count, 0, NULL, 0, 0
        FROM ~owners o JOIN ~lists l ON l.did = o.did WHERE o.id IN (${selectPage})
      UNION ALL SELECT owner, NULL, key, NULL, 0, number, cid, byte_count, 0
        FROM ~entries WHERE owner IN (${selectPage})
      ORDER BY number`,
    lockOwner: `SELECT id FROM ~owners WHERE did = $1 ${forUpdate}`,
    lockOwnerById: `SELECT id FROM ~owners WHERE id = $1 ${forUpdate}`,
    numbered: `SELECT number, cid, byte_count FROM ~entries
      WHERE owner = (SELECT id FROM ~owners WHERE did = $1) AND key = $2 ORDER BY number`,
    recount: `UPDATE ~owners SET entry_count = (SELECT ${schemaPrefix}count(*) FROM ~entries e WHERE e.owner = $1),
      byte_count = (SELECT coalesce(${schemaPrefix}sum(e.byte_count), 0) FROM ~entries e WHERE e.owner = $1)
      WHERE id = $1`,
    used: `SELECT cid, ${schemaPrefix}max(byte_count) AS byte_count
      FROM (${selectUsed('~entries')} UNION ALL ${selectUsed('~files')}) AS used GROUP BY cid ORDER BY cid LIMIT $2`,
    uses: `SELECT ${schemaPrefix}count(*) AS number FROM ~entries WHERE cid = $1`,
    objects: `SELECT object FROM ~contents WHERE ${isIn('cid', '$1')} AND object IS NOT NULL
      UNION ALL SELECT object FROM ~garbage WHERE ${isIn('object', '$2')}`,
    addGarbage: `INSERT INTO ~garbage (object, kind, since, byte_count) VALUES ($1, 'removed', $2, 0)
      ON CONFLICT (object) DO NOTHING`,
    readLastNumber: `SELECT coalesce(${schemaPrefix}max(last_number), 0) AS number FROM ~owners`,
    reserve: "UPDATE ~numbers SET number = $1 WHERE name = 'reserved' AND number < $1",
    reserveOwned: 'UPDATE ~owners SET last_number = $1 WHERE last_number < $1',
    addDesired: addPin('EXISTS'),
    addUndesired: addPin('NOT EXISTS')
  })

  async function listNumberedEntries(query: SqlQuery, { did, key }: EntryPlace): Promise<Entry[]> {
    return (await query(s.numbered, [did, key])).rows.map(toEntry)
  }

  const transactions = {
    async acceptList(query: SqlQuery, place: EntryPlace): Promise<void> {
      await query(s.lockOwner, [place.did])
      await entries.writeList(query, place, computeListState(await listNumberedEntries(query, place)))
    },

    async recountOwners(query: SqlQuery, ids: readonly number[]): Promise<void> {
      for (const id of ids) await Promise.all([query(s.lockOwnerById, [id]), query(s.recount, [id])])
    },

    /** Removes pins of unused content. Writers of the content wait, so that no content comes into use meanwhile. */
    async removeSurplusPins(query: SqlQuery, cids: readonly string[]): Promise<void> {
      for (const cid of cids) await content.lock(query, cid, 'exclusive')
      await content.requestUnpins(query, cids)
    },

    /**
     * Imports pins: those to remove only if the content is not stored, and all others only if it is.
     *
     * @param pins - rows of another store
     */
    async importPins(query: SqlQuery, pins: readonly SqlRow[]): Promise<void> {
      const add = ({ cid, state, is_in_doubt, attempts, claimed_until }: SqlRow): Promise<unknown> => {
        const isInDoubt = is_in_doubt === 1 || Number(attempts) > 0 || Number(claimed_until) > 0
        return query(state === 'unpin' ? s.addUndesired : s.addDesired, [cid, state, isInDoubt ? 1 : 0])
      }
      await Promise.all(pins.map(add))
    }
  }

  const singles = {
    addUnreferenced: content.addUnreferenced,

    /** Adds missing pins. It checks the content again, because servers may have changed entries meanwhile. */
    async addMissingPins(query: SqlQuery, cids: readonly string[]): Promise<void> {
      await content.requestPins(query, cids, true)
    },

    async addGarbage(query: SqlQuery, names: readonly string[], nowSeconds: number): Promise<void> {
      await Promise.all(names.map((name) => query(s.addGarbage, [name, nowSeconds])))
    },

    /** Reserves all numbers up to `number`, so that new entries have larger ones. */
    async reserveNumbers(query: SqlQuery, number: number): Promise<void> {
      await query(s.reserve, [number])
      await query(s.reserveOwned, [number])
    }
  }

  const reads = {
    /** Checks a page of owners. @returns `items`: damaged lists; `miscounted`: ids of owners with a wrong usage */
    async inspectOwners(query: SqlQuery, afterId: number) {
      const { rows } = await query(s.owners, [afterId])
      const owners = rows.filter(({ is_owner }) => is_owner === 1)
      const items: EntryPlace[] = []
      const miscounted: number[] = []
      for (const { id, did, byte_count, entry_count } of owners) {
        const ownerRows = rows.filter((row) => row.id === id && row.is_owner === 0)
        items.push(...findDamagedKeys(ownerRows).map((key) => ({ did: String(did), key })))
        const entryRows = ownerRows.filter(({ cid }) => cid !== null)
        const bytes = entryRows.reduce((sum, row) => sum + Number(row.byte_count), 0)
        if (entryRows.length !== Number(entry_count) || bytes !== Number(byte_count)) miscounted.push(Number(id))
      }
      const next = owners.length === 0 ? undefined : Math.max(...owners.map(({ id }) => Number(id)))
      return { items, miscounted: miscounted.toSorted((left, right) => left - right), next }
    },

    /** Lists contents that entries or files refer to, also missing ones, by cid, beginning after `afterCid`. */
    async listUsedContents(query: SqlQuery, afterCid: string, limit: number): Promise<ContentInfo[]> {
      return (await query(s.used, [afterCid, limit])).rows.map(toContentInfo)
    },

    async countEntries(query: SqlQuery, cid: string): Promise<number> {
      return Number((await query(s.uses, [cid])).rows[0]?.number)
    },

    /** Returns the names of objects that no content uses and that are not marked as garbage. */
    async findUnknownObjects(query: SqlQuery, names: readonly string[]): Promise<string[]> {
      const cids = names.map((name) => name.slice(0, Math.max(0, name.indexOf('.'))))
      const { rows } = await query(s.objects, [toJsonArray(cids), toJsonArray(names)])
      const knownNames = new Set(rows.map(({ object }) => object))
      return names.filter((name) => !knownNames.has(name))
    },

    listNumberedEntries,

    async readLastNumber(query: SqlQuery): Promise<number> {
      return Number((await query(s.readLastNumber)).rows[0]?.number)
    }
  }

  return { transactions, singles, reads }
}

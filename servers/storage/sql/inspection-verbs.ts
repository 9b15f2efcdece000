import type { SqlQuery } from 'express-did-auth/server-kit'
import type { ContentInfo, EntryPlace } from '../content-store.js'
import { list, type ContentDialect } from './content-dialect.js'
import { cidsOf, isUnused, type ContentSteps } from './content-steps.js'
import { damagedKeys, type EntrySteps } from './entry-verbs.js'
import { entryOf, infoOf, stateOfEntries } from './list-state.js'
import type { Page } from './pages.js'

/** Rows that one verb looks at, so that a server beside it never waits for long. Each owner may have 10,000 entries. */
const ROWS = 500
const OWNERS = 20

export interface DatabaseCheck {
  /** In the database's words. Nothing that is left can restore it. Empty: the file is sound. */
  readonly damage: readonly string[]
  /** Indexes that are damaged; they are rebuilt. */
  readonly indexes: readonly string[]
}

/** How an engine checks whether its files are sound. */
export interface DatabaseVerbs {
  readonly findFaults: (query: SqlQuery) => Promise<DatabaseCheck>
  readonly rebuildIndexes: (query: SqlQuery, indexes: readonly string[]) => Promise<void>
}

/** What an operator's commands ask and correct, in short verbs beside servers that work. */
export function inspectionVerbs(dialect: ContentDialect, content: ContentSteps, entries: EntrySteps) {
  const { isIn, fn, forUpdate } = dialect
  const page = `SELECT id FROM ~owners WHERE id > $1 ORDER BY id LIMIT ${OWNERS}`
  const pageOf = (table: string, isWrong: string): string =>
    `SELECT cid, CASE WHEN ${isWrong} THEN 1 ELSE 0 END AS is_wrong FROM ${table} c WHERE cid > $1 ORDER BY cid LIMIT ${ROWS}`
  const pages = dialect.statements('page', {
    unusedContents: pageOf(
      '~contents',
      `${isUnused('c')} AND NOT EXISTS (SELECT 1 FROM ~unreferenced u WHERE u.cid = c.cid)`
    ),
    missingPins: pageOf(
      '~contents',
      `NOT EXISTS (SELECT 1 FROM ~pins p WHERE p.cid = c.cid AND p.state <> 'unpin') AND NOT (${isUnused('c')})`
    ),
    surplusPins: pageOf(
      '~pins',
      `c.state <> 'unpin' AND ${isUnused('c')} AND NOT EXISTS (SELECT 1 FROM ~contents there WHERE there.cid = c.cid)`
    )
  })
  const usedIn = (table: string): string =>
    `SELECT cid, byte_count FROM (SELECT cid, ${fn}max(byte_count) AS byte_count FROM ${table} WHERE cid > $1
       GROUP BY cid ORDER BY cid LIMIT $2) AS used`
  const s = dialect.statements('inspect', {
    // A single snapshot, so that concurrent writes do not look like faults.
    owners: `SELECT id, did, NULL AS key, NULL AS hash, entry_count, 0 AS number, NULL AS cid, byte_count, 1 AS is_owner
        FROM ~owners WHERE id IN (${page})
      UNION ALL SELECT o.id, o.did, l.key, l.hash, l.entry_count, 0, NULL, 0, 0
        FROM ~owners o JOIN ~lists l ON l.did = o.did WHERE o.id IN (${page})
      UNION ALL SELECT owner, NULL, key, NULL, 0, number, cid, byte_count, 0 FROM ~entries WHERE owner IN (${page})
      ORDER BY number`,
    lists: `SELECT did, key, CASE WHEN EXISTS (SELECT 1 FROM ~owners o WHERE o.did = l.did) THEN 0 ELSE 1 END AS is_lost
      FROM ~lists l WHERE (did, key) > ($1, $2) ORDER BY did, key LIMIT ${ROWS}`,
    lockOwner: `SELECT id FROM ~owners WHERE did = $1 ${forUpdate}`,
    lockOwnerById: `SELECT id FROM ~owners WHERE id = $1 ${forUpdate}`,
    ofKey: 'SELECT number, cid, byte_count FROM ~entries WHERE owner = $1 AND key = $2',
    recount: `UPDATE ~owners SET entry_count = (SELECT ${fn}count(*) FROM ~entries e WHERE e.owner = $1),
      byte_count = (SELECT coalesce(${fn}sum(e.byte_count), 0) FROM ~entries e WHERE e.owner = $1) WHERE id = $1`,
    used: `SELECT cid, ${fn}max(byte_count) AS byte_count
      FROM (${usedIn('~entries')} UNION ALL ${usedIn('~files')}) AS used GROUP BY cid ORDER BY cid LIMIT $2`,
    uses: `SELECT ${fn}count(*) AS entries, ${fn}count(DISTINCT owner) AS owners FROM ~entries WHERE cid = $1`,
    objects: `SELECT object FROM ~contents WHERE ${isIn('cid', '$1')} AND object IS NOT NULL
      UNION ALL SELECT object FROM ~garbage WHERE ${isIn('object', '$2')}`,
    addGarbage: `INSERT INTO ~garbage (object, kind, since, byte_count) VALUES ($1, 'removed', $2, 0)
      ON CONFLICT (object) DO NOTHING`
  })

  const transactions = {
    /** Makes a list of the entries that are left. */
    async acceptList(query: SqlQuery, place: EntryPlace): Promise<void> {
      const [owner] = (await query(s.lockOwner, [place.did])).rows
      const left = owner === undefined ? [] : (await query(s.ofKey, [owner.id, place.key])).rows.map(entryOf)
      await entries.writeList(query, place, stateOfEntries(left))
    },

    async recountOwners(query: SqlQuery, ids: readonly number[]): Promise<void> {
      for (const id of ids) await Promise.all([query(s.lockOwnerById, [id]), query(s.recount, [id])])
    },

    /** Writers of each content wait, so that none makes its pin desired while it is looked for. */
    async removeSurplusPins(query: SqlQuery, cids: readonly string[]): Promise<void> {
      for (const cid of cids) await content.lock(query, cid, 'alone')
      await content.requestUnpins(query, cids)
    }
  }

  const singles = {
    addUnreferenced: content.addUnreferenced,

    /** Beside a running server, entries come and go between the look and the change. */
    async addMissingPins(query: SqlQuery, cids: readonly string[]): Promise<void> {
      await content.requestPins(query, cids, true)
    },

    async addGarbage(query: SqlQuery, names: readonly string[], nowSeconds: number): Promise<void> {
      await Promise.all(names.map((name) => query(s.addGarbage, [name, nowSeconds])))
    }
  }

  const reads = {
    /** Lists that are damaged; `miscounted`: owners whose usage was counted wrong. */
    async inspectOwners(query: SqlQuery, afterId: number) {
      const { rows } = await query(s.owners, [afterId])
      const owners = rows.filter(({ is_owner }) => is_owner === 1)
      const items: EntryPlace[] = []
      const miscounted: number[] = []
      for (const { id, did, byte_count, entry_count } of owners) {
        const own = rows.filter((row) => row.id === id && row.is_owner === 0)
        items.push(...damagedKeys(own).map((key) => ({ did: String(did), key })))
        const counted = own.filter(({ cid }) => cid !== null)
        const bytes = counted.reduce((sum, row) => sum + Number(row.byte_count), 0)
        if (counted.length !== Number(entry_count) || bytes !== Number(byte_count)) miscounted.push(Number(id))
      }
      const next = owners.length === 0 ? undefined : Math.max(...owners.map(({ id }) => Number(id)))
      return { items, miscounted: miscounted.toSorted((one, other) => one - other), next }
    },

    /** Lists whose owner is lost: they can be read no more. */
    async findLostLists(query: SqlQuery, { did, key }: EntryPlace): Promise<Page<EntryPlace, EntryPlace>> {
      const { rows } = await query(s.lists, [did, key])
      const places = rows.map((row) => ({ did: String(row.did), key: String(row.key) }))
      return { items: places.filter((_, index) => rows[index]?.is_lost === 1), next: places.at(-1) }
    },

    async findWrong(query: SqlQuery, what: keyof typeof pages, afterCid: string): Promise<Page<string, string>> {
      const { rows } = await query(pages[what], [afterCid])
      return { items: cidsOf(rows.filter(({ is_wrong }) => is_wrong === 1)), next: cidsOf(rows).at(-1) }
    },

    /** Content that entries or files have, in the order of cids, after `afterCid`, also where it is not here. */
    async listUsedContents(query: SqlQuery, afterCid: string, limit: number): Promise<ContentInfo[]> {
      return (await query(s.used, [afterCid, limit])).rows.map(infoOf)
    },

    /** Entries that have some content now, and of how many users. */
    async countUses(query: SqlQuery, cid: string): Promise<{ entries: number; owners: number }> {
      const [row] = (await query(s.uses, [cid])).rows
      return { entries: Number(row?.entries), owners: Number(row?.owners) }
    },

    /** Those of these objects that no content names and that are not yet garbage. */
    async findUnknownObjects(query: SqlQuery, names: readonly string[]): Promise<string[]> {
      const cids = names.map((name) => name.slice(0, Math.max(0, name.indexOf('.'))))
      const { rows } = await query(s.objects, [list(cids), list(names)])
      const known = new Set(rows.map(({ object }) => object))
      return names.filter((name) => !known.has(name))
    }
  }

  return { transactions, singles, reads }
}

import { verb, type SqlRow, type SqlVerb } from 'express-did-auth/server-kit'
import type { ContentInfo, EntryPlace } from '../content-store.js'
import { createStatements, type ContentDialect, type ContentQuery } from './content-dialect.js'
import * as content from './content-steps.js'
import { isUnused } from './content-steps.js'
import * as entries from './entry-verbs.js'
import { computeListState, findDamagedKeys, toEntry, type Entry } from './entry-verbs.js'
import { toContentInfo } from './rows.js'

/** Rows in a page. */
const PAGE_ROWS = 500

/** A page of items, and the key after which the next page begins; undefined after the last page. */
export type Page<T, Key> = { readonly items: readonly T[]; readonly next: Key | undefined }

/** Sources of rows that are read in pages: table, columns of the order, and optionally a condition on rows `c`. */
const ROW_SOURCES = {
  denied: ['~denied', 'cid'],
  files: ['~files', 'cid'],
  lists: ['~lists', 'did,key'],
  pins: ['~pins', 'cid'],
  /** Lists without an owner, which cannot be read. */
  lostLists: ['~lists', 'did,key', 'NOT EXISTS (SELECT 1 FROM ~owners o WHERE o.did = c.did)'],
  unusedContents: [
    '~contents',
    'cid',
    `${isUnused('c')} AND NOT EXISTS (SELECT 1 FROM ~unreferenced u WHERE u.cid = c.cid)`
  ],
  missingPins: [
    '~contents',
    'cid',
    `NOT EXISTS (SELECT 1 FROM ~pins p WHERE p.cid = c.cid AND p.state <> 'unpin') AND NOT (${isUnused('c')})`
  ],
  surplusPins: [
    '~pins',
    'cid',
    `c.state <> 'unpin' AND ${isUnused('c')} AND NOT EXISTS (SELECT 1 FROM ~contents stored WHERE stored.cid = c.cid)`
  ]
} as const
/** Name of a row source. */
export type RowsName = keyof typeof ROW_SOURCES

const listColumns = (name: RowsName): string[] => ROW_SOURCES[name][1].split(',')

/** Statements that read pages of rows. */
export const pageStatements = createStatements('page', () => {
  const createPageText = ([table, order, condition]: readonly [string, string, string?]): string => {
    const after = order === 'cid' ? '$1' : '$1, $2'
    const selected = condition === undefined ? '*' : `${order}, CASE WHEN ${condition} THEN 1 ELSE 0 END AS is_found`
    return `SELECT ${selected} FROM ${table} c WHERE (${order}) > (${after}) ORDER BY ${order} LIMIT ${PAGE_ROWS}`
  }
  const texts = Object.entries(ROW_SOURCES).map(([name, rows]) => [name, createPageText(rows)])
  return Object.fromEntries(texts) as Record<RowsName, string>
})

/** Reads a page of rows. Pages are small, because servers may be running. The last is empty. */
export const readPage = verb(
  'read',
  async (query: ContentQuery, name: RowsName, after: readonly unknown[]): Promise<Page<SqlRow, unknown[]>> => {
    const { rows } = await query(pageStatements[name], after)
    const last = rows.at(-1)
    const next = last && listColumns(name).map((column) => last[column])
    return { items: rows.filter(({ is_found }) => is_found !== 0), next }
  }
)

/** Reader of a page, in a store. */
export interface PageReader {
  readonly readPage: (name: RowsName, after: readonly unknown[]) => Promise<Page<SqlRow, unknown[]>>
}

/** Reads all rows of a source, in pages. */
export function readRows({ readPage }: PageReader, name: RowsName) {
  const start = listColumns(name).map((): unknown => '')
  return readPages(start, (after: readonly unknown[]) => readPage(name, after))
}

/** Reads all pages, each beginning after the end of the previous one. */
export async function* readPages<P extends Page<unknown, unknown>, Key>(
  start: NoInfer<Key>,
  read: (after: Key) => Promise<P & { readonly next: Key | undefined }>
): AsyncGenerator<P, void> {
  for (let after: Key | undefined = start; after !== undefined;) {
    const page: P & { readonly next: Key | undefined } = await read(after)
    yield page
    after = page.next
  }
}

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
  readonly findFaults: SqlVerb<ContentDialect, [], DatabaseCheck>
  readonly rebuildIndexes: SqlVerb<ContentDialect, [indexes: readonly string[]], void>
}

/** Statements of short verbs for commands that run next to servers. Imports are repeatable: rows do not change. */
export const inspectionStatements = createStatements('inspect', (dialect: ContentDialect) => {
  const { isIn, schemaPrefix, forUpdate, nextRevision } = dialect
  const selectPage = `SELECT id FROM ~owners WHERE id > $1 ORDER BY id LIMIT ${BATCH_OWNERS}`
  const selectUsed = (table: string): string =>
    `SELECT cid, byte_count FROM (SELECT cid, ${schemaPrefix}max(byte_count) AS byte_count FROM ${table} WHERE cid > $1
       GROUP BY cid ORDER BY cid LIMIT $2) AS used`
  const addPin = (condition: string): string =>
    `INSERT INTO ~pins (cid, state, is_in_doubt, revision) SELECT $1, $2, $3, ${nextRevision}
       WHERE ${condition} (SELECT 1 FROM ~contents WHERE cid = $1) ON CONFLICT (cid) DO NOTHING`
  return {
    // One statement reads all rows in one snapshot, so that concurrent writes do not look like faults.
    owners: `SELECT id, did, NULL AS key, NULL AS hash, entry_count, 0 AS number, NULL AS cid, byte_count, 1 AS is_owner
        FROM ~owners WHERE id IN (${selectPage})
      UNION ALL SELECT o.id, o.did, l.key, l.hash, l.entry_count, 0, NULL, 0, 0
        FROM ~owners o JOIN ~lists l ON l.did = o.did WHERE o.id IN (${selectPage})
      UNION ALL SELECT owner, NULL, key, NULL, 0, number, cid, byte_count, 0
        FROM ~entries WHERE owner IN (${selectPage})
      ORDER BY number`,
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
  }
})

async function findNumberedEntries(query: ContentQuery, { did, key }: EntryPlace): Promise<Entry[]> {
  return (await query(inspectionStatements.numbered, [did, key])).rows.map(toEntry)
}

export const acceptList = verb('transaction', async (query: ContentQuery, place: EntryPlace) => {
  await query(entries.entryStatements.lockOwner, [place.did])
  await entries.writeList(query, place, computeListState(await findNumberedEntries(query, place)))
})

export const recountOwners = verb('transaction', async (query: ContentQuery, ids: readonly number[]) => {
  for (const id of ids)
    await Promise.all([query(inspectionStatements.lockOwnerById, [id]), query(inspectionStatements.recount, [id])])
})

/** Removes pins of unused content. Writers of the content wait, so that no content comes into use meanwhile. */
export const removeSurplusPins = verb('transaction', async (query: ContentQuery, cids: readonly string[]) => {
  for (const cid of cids) await content.lock(query, cid, 'exclusive')
  await content.requestUnpins(query, cids)
})

/**
 * Imports pins: those to remove only if the content is not stored, and all others only if it is.
 *
 * @param pins - rows of another store
 */
export const importPins = verb('transaction', async (query: ContentQuery, pins: readonly SqlRow[]) => {
  const add = ({ cid, state, is_in_doubt, attempts, claimed_until }: SqlRow): Promise<unknown> => {
    const isInDoubt = is_in_doubt === 1 || Number(attempts) > 0 || Number(claimed_until) > 0
    return query(state === 'unpin' ? inspectionStatements.addUndesired : inspectionStatements.addDesired, [
      cid,
      state,
      isInDoubt ? 1 : 0
    ])
  }
  await Promise.all(pins.map(add))
})

export const addUnreferenced = verb('write', content.addUnreferenced)

/** Adds missing pins. It checks the content again, because servers may have changed entries meanwhile. */
export const addMissingPins = verb('write', async (query: ContentQuery, cids: readonly string[]) => {
  await content.requestPins(query, cids, true)
})

export const addGarbage = verb('write', async (query: ContentQuery, names: readonly string[], nowSeconds: number) => {
  await Promise.all(names.map((name) => query(inspectionStatements.addGarbage, [name, nowSeconds])))
})

/** Reserves all numbers up to `number`, so that new entries have larger ones. */
export const reserveNumbers = verb('write', async (query: ContentQuery, number: number) => {
  await query(inspectionStatements.reserve, [number])
  await query(inspectionStatements.reserveOwned, [number])
})

export const listNumberedEntries = verb('read', findNumberedEntries)

/** Checks a page of owners. @returns `items`: damaged lists; `miscounted`: ids of owners with a wrong usage */
export const inspectOwners = verb('read', async (query: ContentQuery, afterId: number) => {
  const { rows } = await query(inspectionStatements.owners, [afterId])
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
})

/** Lists contents that entries or files refer to, also missing ones, by cid, beginning after `afterCid`. */
export const listUsedContents = verb(
  'read',
  async (query: ContentQuery, afterCid: string, limit: number): Promise<ContentInfo[]> => {
    return (await query(inspectionStatements.used, [afterCid, limit])).rows.map(toContentInfo)
  }
)

export const countEntries = verb('read', async (query: ContentQuery, cid: string) => {
  return Number((await query(inspectionStatements.uses, [cid])).rows[0]?.number)
})

/** Returns the names of objects that no content uses and that are not marked as garbage. */
export const findUnknownObjects = verb('read', async (query: ContentQuery, names: readonly string[]) => {
  const cids = names.map((name) => name.slice(0, Math.max(0, name.indexOf('.'))))
  const { rows } = await query(inspectionStatements.objects, [JSON.stringify(cids), JSON.stringify(names)])
  const knownNames = new Set(rows.map(({ object }) => object))
  return names.filter((name) => !knownNames.has(name))
})

export const readLastNumber = verb('read', async (query: ContentQuery) => {
  return Number((await query(inspectionStatements.readLastNumber)).rows[0]?.number)
})

import { hash } from 'node:crypto'
import { verb, type SqlRow } from 'express-did-auth/server-kit'
import type {
  ContentInfo,
  EntryChange,
  EntryPlace,
  EntryRemoval,
  EntryWrite,
  Precondition,
  Usage
} from '../content-store.js'
import { refuse } from '../storage-error.js'
import { createStatements, type ContentDialect, type ContentQuery } from './content-dialect.js'
import * as content from './content-steps.js'
import { createHeldContentClause, FROM_STATE, STATE_COLUMNS } from './content-steps.js'
import { toContentInfo, UPLOAD_NEEDED, type ContentRow, type UploadNeeded } from './rows.js'

/** Write of an entry, with the new content in the form of a table row. */
export interface EntryRequest extends Omit<EntryWrite, 'content'> {
  readonly content: ContentRow
  readonly tracksPins: boolean
  /** Number of an entry that is copied from another store. Default: the owner's next number. */
  readonly number?: number
}

/** State of a key's list, which is stored in a row of `lists`. */
interface ListState {
  readonly entryCount: number
  /** Hashes of all entries and their numbers, combined by XOR, so that a change of one entry reads no others. */
  readonly hash: Buffer
}

/** An entry with its number, by which the entries of an owner are ordered. */
export interface Entry extends ContentInfo {
  readonly number: number
}

/** An entry of a list, and whether it is the last one of its key. */
interface ListedEntry extends Entry {
  readonly isLast: boolean
}

interface OwnedList extends EntryPlace {
  readonly id: number
  readonly list: ListState
}

/** Statements that change the entries of a key, in a transaction that has locked the owner. */
export const changeStatements = createStatements('change', ({ isIn, greatest }: ContentDialect) => ({
  remove: `DELETE FROM ~entries WHERE owner = $1 AND key = $2 AND ${isIn('cid', '$3')}`,
  add: 'INSERT INTO ~entries (owner, key, cid, number, byte_count) VALUES ($1, $2, $3, $4, $5)',
  count: `UPDATE ~owners SET byte_count = byte_count + $2, entry_count = entry_count + $3,
      last_number = ${greatest('last_number', 'CAST($4 AS bigint)')} WHERE id = $1`,
  setList: `INSERT INTO ~lists (did, key, entry_count, hash) VALUES ($1, $2, $3, $4)
      ON CONFLICT (did, key) DO UPDATE SET entry_count = excluded.entry_count, hash = excluded.hash`,
  deleteList: 'DELETE FROM ~lists WHERE did = $1 AND key = $2'
}))

/** Statements of entries. A write first locks the owner's row, so that the writes of a user are serialized. */
export const entryStatements = createStatements('entry', (dialect: ContentDialect) => {
  const { isIn, hasOneWriter, lockContent } = dialect
  // Joins the list, the owner and the entries that a write may replace. Without such entries, the result is one row.
  const joinEntries = (condition = ''): string => `LEFT JOIN ~lists l ON l.did = $2 AND l.key = $3
    LEFT JOIN ~owners o ON o.did = $2 LEFT JOIN ~entries e ON e.owner = o.id AND e.key = $3 ${condition}`
  const columns = 'l.entry_count, l.hash, e.number, e.cid, e.byte_count'
  const isLast = `CASE WHEN EXISTS (SELECT 1 FROM ~entries later WHERE later.owner = e.owner AND later.key = e.key
    AND later.number > e.number) THEN 0 ELSE 1 END AS is_last`
  const removable = `SELECT ${columns} FROM (SELECT CAST($1 AS text) AS cid) single ${joinEntries()}`
  // One statement reads lists and entries, so that both are of the same snapshot. Only the rows of lists have a hash.
  const selectRows = (
    condition = ''
  ): string => `SELECT key, hash, entry_count, 0 AS number, NULL AS cid, 0 AS byte_count
      FROM ~lists WHERE did = $1 ${condition}
    UNION ALL SELECT key, NULL, 0, number, cid, byte_count
      FROM ~entries WHERE owner = (SELECT id FROM ~owners WHERE did = $1) ${condition} ORDER BY number`
  return {
    lockOwner: `SELECT id FROM ~owners WHERE did = $1 ${dialect.forUpdate}`,
    // Locks the cid, then the owner's row, which it creates if it is absent, and finally the row of the content.
    lockAll: `${hasOneWriter ? '' : createHeldContentClause(dialect)}
      INSERT INTO ~owners AS o (did, byte_count, entry_count, last_number)
        SELECT $2, 0, 0, (SELECT number FROM ~numbers WHERE name = 'reserved')
        ${hasOneWriter ? '' : `FROM ${lockContent('shared')}`} WHERE true
      ON CONFLICT (did) DO UPDATE SET byte_count = o.byte_count RETURNING id, byte_count, entry_count, last_number,
        ${hasOneWriter ? '1' : '(SELECT pg_catalog.count(*) FROM held)'} AS held`,
    stateOfAll: `SELECT ${STATE_COLUMNS}, ${columns}, 0 AS is_last ${FROM_STATE} ${joinEntries()}`,
    stateOfNamed: `SELECT ${STATE_COLUMNS}, ${columns}, ${isLast}
      ${FROM_STATE} ${joinEntries(`AND ${isIn('e.cid', '$4')}`)}`,
    removableAll: removable,
    removableOne: `${removable} AND e.cid = $1`,
    listState: 'SELECT entry_count, hash FROM ~lists WHERE did = $1 AND key = $2',
    readList: selectRows('AND key = $2'),
    readOwner: selectRows(),
    usage: 'SELECT byte_count, entry_count FROM ~owners WHERE did = $1'
  }
})

/** State of an empty list. */
const NO_LIST: ListState = { entryCount: 0, hash: Buffer.alloc(32) }

const sum = (entries: readonly Entry[]): number => entries.reduce((bytes, { byteCount }) => bytes + byteCount, 0)

export async function writeList(
  query: ContentQuery,
  { did, key }: EntryPlace,
  { entryCount, hash }: ListState
): Promise<void> {
  await (entryCount === 0
    ? query(changeStatements.deleteList, [did, key])
    : query(changeStatements.setList, [did, key, entryCount, hash]))
}

/** Removes and adds entries, and updates the owner's usage and the list. @returns the new state of the list */
export async function change(
  query: ContentQuery,
  { id, list, ...place }: OwnedList,
  removed: readonly Entry[],
  added: readonly Entry[]
): Promise<ListState> {
  const hash = Buffer.from(list.hash)
  for (const entry of [...removed, ...added]) addToHash(hash, entry)
  const countChange = added.length - removed.length
  const changedList = { entryCount: list.entryCount + countChange, hash }
  const lastNumber = Math.max(0, ...added.map(({ number }) => number))
  await Promise.all([
    removed.length === 0
      ? undefined
      : query(changeStatements.remove, [id, place.key, JSON.stringify(removed.map(({ cid }) => cid))]),
    ...added.map(({ cid, number, byteCount }) => query(changeStatements.add, [id, place.key, cid, number, byteCount])),
    query(changeStatements.count, [id, sum(added) - sum(removed), countChange, lastNumber]),
    writeList(query, place, changedList)
  ])
  return changedList
}

export const writeEntry = verb(
  'transaction',
  async (query: ContentQuery, write: EntryRequest, nowSeconds: number): Promise<EntryChange | UploadNeeded> => {
    const { did, key, replaces, content: newContent } = write
    const { cid, byteCount, object } = newContent
    const cids = replaces === 'nothing' || replaces === 'all' ? [cid] : [replaces.cid, cid]
    const [owners, isUploadClaimed, { rows }] = await Promise.all([
      query(entryStatements.lockAll, [cid, did]),
      object?.isUploaded === true && content.claimUpload(query, object.name),
      replaces === 'all'
        ? query(entryStatements.stateOfAll, [cid, did, key])
        : query(entryStatements.stateOfNamed, [cid, did, key, JSON.stringify(cids)])
    ])
    const [owner = {}, row = {}] = [owners.rows[0], rows[0]]
    const state = { row, isHeld: Number(owner.held) === 1, isUploadClaimed, nowSeconds }
    if (row.denied !== null) refuse({ refused: 'ERR_TAKEN_DOWN' })
    const { list, entries } = toList(rows)
    assertPrecondition(write, list)
    const replaced = listReplaced(write, entries)
    if (replaced !== undefined) assertQuota(toUsage(owner), replaced, write)
    if (object !== undefined && (await content.needsUpload(query, newContent, state))) return UPLOAD_NEEDED
    const number = write.number ?? Number(owner.last_number) + 1
    // If there is no node, only content that the ledger already contains gets a pin.
    const isTracked = write.tracksPins || row.pin_state !== null
    const ownedList = { id: Number(owner.id), did, key, list }
    const released = (replaced ?? []).filter((entry) => entry.cid !== cid)
    const [, changedList, isPinChanged, unpinned] = await Promise.all([
      content.place(query, newContent, state),
      replaced === undefined ? list : change(query, ownedList, replaced, [{ number, cid, byteCount }]),
      isTracked && content.requestPins(query, [cid], write.tracksPins),
      released.length === 0 ? [] : content.release(query, released, nowSeconds)
    ])
    const isPinOpen = isPinChanged || row.pin_state === 'pin'
    const changedPins = [...(isPinOpen ? [cid] : []), ...unpinned]
    return { etag: toEtag(changedList), changedPins, hasReleased: released.length > 0 }
  },
  { isRepeatable: false }
)

export const removeEntries = verb(
  'transaction',
  async (query: ContentQuery, removal: EntryRemoval, nowSeconds: number): Promise<EntryChange> => {
    const { did, key, cid } = removal
    const [owners, { rows }] = await Promise.all([
      query(entryStatements.lockOwner, [did]),
      query(cid === undefined ? entryStatements.removableAll : entryStatements.removableOne, [cid ?? '', did, key])
    ])
    // If there is no owner, the removal takes place before the owner's first write, which may have been committed
    // between the two statements.
    const { list, entries: removed } = toList(owners.rows.length === 0 ? [] : rows)
    assertPrecondition(removal, list)
    if (removed.length === 0) return { etag: toEtag(list), changedPins: [], hasReleased: false }
    const [changedList, changedPins] = await Promise.all([
      change(query, { id: Number(owners.rows[0]?.id), did, key, list }, removed, []),
      content.release(query, removed, nowSeconds)
    ])
    return { etag: toEtag(changedList), changedPins, hasReleased: true }
  },
  { isRepeatable: false, freesSpace: true }
)

export const describeList = verb('read', async (query: ContentQuery, { did, key }: EntryPlace) => {
  const list = toListState((await query(entryStatements.listState, [did, key])).rows[0])
  return { etag: toEtag(list), entryCount: list.entryCount }
})

export const listEntries = verb('read', async (query: ContentQuery, { did, key }: EntryPlace) => {
  const rows = assertUndamaged((await query(entryStatements.readList, [did, key])).rows)
  return {
    etag: toEtag(toListState(rows.find((row) => !isEntry(row)))),
    entries: rows.filter(isEntry).map(toContentInfo)
  }
})

export const listOwnEntries = verb('read', async (query: ContentQuery, did: string) => {
  const rows = assertUndamaged((await query(entryStatements.readOwner, [did])).rows)
  return rows.filter(isEntry).map((row) => ({ key: String(row.key), ...toContentInfo(row) }))
})

export const readUsage = verb('read', async (query: ContentQuery, did: string) => {
  return toUsage((await query(entryStatements.usage, [did])).rows[0] ?? {})
})

/** Whether a row contains an entry. Rows that contain only a list have no cid. */
function isEntry({ cid }: SqlRow): boolean {
  return cid !== null
}

/** Returns the list state in a row; the empty list if the row contains no list. */
export function toListState(row: SqlRow | undefined): ListState {
  if (row === undefined || row.hash === null) return NO_LIST
  return { entryCount: Number(row.entry_count), hash: Buffer.from(row.hash as Uint8Array) }
}

/** Converts the rows of a list: each contains the state of the list, and an entry if there is one. */
function toList(rows: readonly SqlRow[]): { list: ListState; entries: readonly ListedEntry[] } {
  const entries = rows.filter(isEntry).map((row) => ({ ...toEntry(row), isLast: row.is_last === 1 }))
  return { list: toListState(rows[0]), entries }
}

export function toEntry(row: SqlRow): Entry {
  return { number: Number(row.number), ...toContentInfo(row) }
}

/** Finds an owner's keys with entries that do not match the stored list. @param rows - rows of lists and of entries */
export function findDamagedKeys(rows: readonly SqlRow[]): string[] {
  const rowsByKey = new Map<string, SqlRow[]>()
  for (const row of rows) {
    const key = String(row.key)
    const keyRows = rowsByKey.get(key)
    if (keyRows === undefined) rowsByKey.set(key, [row])
    else keyRows.push(row)
  }
  const isDamaged = (keyRows: readonly SqlRow[]): boolean => {
    const expected = toListState(keyRows.find((row) => !isEntry(row)))
    const actual = computeListState(keyRows.filter(isEntry).map(toEntry))
    return actual.entryCount !== expected.entryCount || !actual.hash.equals(expected.hash)
  }
  return [...rowsByKey].flatMap(([key, keyRows]) => (isDamaged(keyRows) ? [key] : []))
}

function assertUndamaged(rows: readonly SqlRow[]): readonly SqlRow[] {
  return findDamagedKeys(rows).length === 0 ? rows : refuse({ refused: 'ERR_STORAGE', detail: 'a list is damaged' })
}

/** Returns the entries that a write replaces; undefined if the list does not change. */
function listReplaced(
  { content, replaces }: EntryRequest,
  entries: readonly ListedEntry[]
): readonly Entry[] | undefined {
  if (replaces === 'nothing') return entries.length === 0 ? [] : undefined
  const [entry] = entries
  const isSame = entries.length === 1 && entry?.cid === content.cid && (replaces === 'all' || entry.isLast)
  return isSame ? undefined : entries
}

/**
 * Asserts an owner's quota. If the usage is above a lowered quota, writes that do not increase the usage still pass.
 */
function assertQuota(before: Usage, replaced: readonly Entry[], { content, quota }: EntryRequest): void {
  const bytes = replaced.reduce((sum, { byteCount }) => sum - byteCount, before.byteCount + content.byteCount)
  const entries = before.entryCount + 1 - replaced.length
  const refuseFull = (detail: string): never => refuse({ refused: 'ERR_STORAGE_FULL', detail })
  if (bytes > Math.max(quota.maxBytes, before.byteCount))
    refuseFull(`${bytes} bytes with this write, at most ${quota.maxBytes}`)
  if (entries > Math.max(quota.maxEntries, before.entryCount)) {
    refuseFull(`${entries} entries with this write, at most ${quota.maxEntries}`)
  }
}

function toUsage({ byte_count, entry_count }: SqlRow): Usage {
  return { byteCount: Number(byte_count ?? 0), entryCount: Number(entry_count ?? 0) }
}

function toEtag({ hash }: ListState): string {
  return `"${hash.toString('base64url')}"`
}

/** Asserts the precondition of a write. @throws Error of {@link refuse} with ERR_PRECONDITION */
function assertPrecondition({ ifMatch, ifNoneMatch }: Precondition, list: ListState): void {
  const isEmpty = list.entryCount === 0
  const isMet = ifMatch === undefined || (ifMatch === '*' ? !isEmpty : ifMatch.includes(toEtag(list)))
  if (!isMet || (ifNoneMatch === '*' && !isEmpty)) refuse({ refused: 'ERR_PRECONDITION', etag: toEtag(list) })
}

/** Adds an entry to the hash of a list. A second call with the same entry removes it, because of XOR. */
function addToHash(sum: Buffer, { number, cid, byteCount }: Entry): void {
  const entryHash = hash('sha256', `${number} ${cid} ${byteCount}`, 'buffer')
  for (let index = 0; index < sum.length; index += 1) sum[index] = (sum[index] ?? 0) ^ (entryHash[index] ?? 0)
}

export function computeListState(entries: readonly Entry[]): ListState {
  const sum = Buffer.from(NO_LIST.hash)
  for (const entry of entries) addToHash(sum, entry)
  return { entryCount: entries.length, hash: sum }
}

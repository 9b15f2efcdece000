import { hash } from 'node:crypto'
import type { SqlQuery, SqlRow } from 'express-did-auth/server-kit'
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
import { list as listOf, type ContentDialect } from './content-dialect.js'
import { assertAllowed, FROM_KNOWN, createHeldContentClause, KNOWN, type ContentSteps } from './content-steps.js'
import { UPLOAD_NEEDED, type ContentRow, type UploadNeeded } from './stored-content.js'

/** State of a key's list, from the key's row. */
interface ListState {
  readonly entryCount: number
  /** Hashes of all entries and their places, combined by XOR. A change of one entry therefore reads no others. */
  readonly hash: Buffer
}

/** An entry with its number, which is its position among the entries of its owner. */
export interface Entry extends ContentInfo {
  readonly number: number
}

/** State of a key that has no entries. */
const NO_LIST: ListState = { entryCount: 0, hash: Buffer.alloc(32) }

/** A write, in the form for the database. */
export interface EntryRequest extends Omit<EntryWrite, 'content'> {
  readonly content: ContentRow
  readonly tracksPins: boolean
  /** Number of an entry that is copied from another store. */
  readonly number?: number
}

interface OwnedList extends EntryPlace {
  readonly id: number
  readonly list: ListState
}

export type EntrySteps = ReturnType<typeof createEntrySteps>

/** Changes of the entries of one key with all that follows: steps of a transaction that has locked the owner. */
export function createEntrySteps({ statements, isIn, greatest }: ContentDialect) {
  const s = statements('change', {
    remove: `DELETE FROM ~entries WHERE owner = $1 AND key = $2 AND ${isIn('cid', '$3')}`,
    add: 'INSERT INTO ~entries (owner, key, cid, number, byte_count) VALUES ($1, $2, $3, $4, $5)',
    count: `UPDATE ~owners SET byte_count = byte_count + $2, entry_count = entry_count + $3,
      last_number = ${greatest('last_number', 'CAST($4 AS bigint)')} WHERE id = $1`,
    setList: `INSERT INTO ~lists (did, key, entry_count, hash) VALUES ($1, $2, $3, $4)
      ON CONFLICT (did, key) DO UPDATE SET entry_count = excluded.entry_count, hash = excluded.hash`,
    deleteList: 'DELETE FROM ~lists WHERE did = $1 AND key = $2'
  })
  const sum = (entries: readonly Entry[]): number => entries.reduce((bytes, { byteCount }) => bytes + byteCount, 0)

  async function writeList(query: SqlQuery, { did, key }: EntryPlace, { entryCount, hash }: ListState): Promise<void> {
    await (entryCount === 0 ? query(s.deleteList, [did, key]) : query(s.setList, [did, key, entryCount, hash]))
  }

  /** Removes and adds entries, and counts. @returns the list as it is then */
  async function change(
    query: SqlQuery,
    { id, list, ...place }: OwnedList,
    removed: readonly Entry[],
    added: readonly Entry[]
  ): Promise<ListState> {
    const hash = Buffer.from(list.hash)
    for (const entry of [...removed, ...added]) addToHash(hash, entry)
    const more = added.length - removed.length
    const after = { entryCount: list.entryCount + more, hash }
    const lastNumber = Math.max(0, ...added.map(({ number }) => number))
    await Promise.all([
      removed.length === 0 ? undefined : query(s.remove, [id, place.key, listOf(removed.map(({ cid }) => cid))]),
      ...added.map(({ cid, number, byteCount }) => query(s.add, [id, place.key, cid, number, byteCount])),
      query(s.count, [id, sum(added) - sum(removed), more, lastNumber]),
      writeList(query, place, after)
    ])
    return after
  }

  return { writeList, change }
}

/** The verbs of entries. A write locks its owner's row before it reads, so that those of one user are serialised. */
export function createEntryVerbs(dialect: ContentDialect, content: ContentSteps, entries: EntrySteps) {
  const { isIn, lockContent } = dialect
  // A row for each of the entries that a write may take the place of; one at least.
  const joinEntries = (condition = ''): string => `LEFT JOIN ~lists l ON l.did = $2 AND l.key = $3
    LEFT JOIN ~owners o ON o.did = $2 LEFT JOIN ~entries e ON e.owner = o.id AND e.key = $3 ${condition}`
  const columns = 'l.entry_count, l.hash, e.number, e.cid, e.byte_count'
  const isLast = `CASE WHEN EXISTS (SELECT 1 FROM ~entries later WHERE later.owner = e.owner AND later.key = e.key
    AND later.number > e.number) THEN 0 ELSE 1 END AS is_last`
  const removable = `SELECT ${columns} FROM (SELECT CAST($1 AS text) AS cid) one ${joinEntries()}`
  // A row of a list has a hash, that of an entry has none. They are of one moment.
  const selectRows = (
    condition = ''
  ): string => `SELECT key, hash, entry_count, 0 AS number, NULL AS cid, 0 AS byte_count
      FROM ~lists WHERE did = $1 ${condition}
    UNION ALL SELECT key, NULL, 0, number, cid, byte_count
      FROM ~entries WHERE owner = (SELECT id FROM ~owners WHERE did = $1) ${condition} ORDER BY number`
  const s = dialect.statements('entry', {
    lockOwner: `SELECT id FROM ~owners WHERE did = $1 ${dialect.forUpdate}`,
    // Content first, and only then an owner is locked, or made.
    lockBoth: `${lockContent === undefined ? '' : createHeldContentClause(dialect)}
      INSERT INTO ~owners AS o (did, byte_count, entry_count, last_number)
        SELECT $2, 0, 0, (SELECT number FROM ~numbers WHERE name = 'reserved')
        ${lockContent === undefined ? '' : `FROM ${lockContent('shared')}`} WHERE true
      ON CONFLICT (did) DO UPDATE SET byte_count = o.byte_count RETURNING id, byte_count, entry_count, last_number,
        ${lockContent === undefined ? '1' : '(SELECT pg_catalog.count(*) FROM held)'} AS held`,
    stateOfAll: `SELECT ${KNOWN}, ${columns}, 0 AS is_last ${FROM_KNOWN} ${joinEntries()}`,
    stateOfNamed: `SELECT ${KNOWN}, ${columns}, ${isLast} ${FROM_KNOWN} ${joinEntries(`AND ${isIn('e.cid', '$4')}`)}`,
    removableAll: removable,
    removableOne: `${removable} AND e.cid = $1`,
    listState: 'SELECT entry_count, hash FROM ~lists WHERE did = $1 AND key = $2',
    ofList: selectRows('AND key = $2'),
    ofOwner: selectRows(),
    usage: 'SELECT byte_count, entry_count FROM ~owners WHERE did = $1'
  })

  const transactions = {
    async writeEntry(query: SqlQuery, write: EntryRequest, nowSeconds: number): Promise<EntryChange | UploadNeeded> {
      const { did, key, replaces, content: written } = write
      const { cid, byteCount } = written
      const names = replaces === 'nothing' || replaces === 'all' ? [cid] : [replaces.cid, cid]
      const [locked, isClaimed, { rows }] = await Promise.all([
        query(s.lockBoth, [cid, did]),
        content.claimUpload(query, written),
        replaces === 'all'
          ? query(s.stateOfAll, [cid, did, key])
          : query(s.stateOfNamed, [cid, did, key, listOf(names)])
      ])
      const [row = {}, known = {}] = [locked.rows[0], rows[0]]
      const found = { known, isHeld: Number(row.held) === 1, isClaimed, nowSeconds }
      assertAllowed(known)
      const list = toListState(known)
      assertMet(write, list)
      const replaced = listReplaced(write, rows.filter(isEntry))
      if (replaced !== undefined) assertQuota(toUsage(row), replaced, write)
      if (await content.needsUpload(query, written, found)) return UPLOAD_NEEDED
      const number = write.number ?? Number(row.last_number) + 1
      const owned = { id: Number(row.id), did, key, list }
      const released = (replaced ?? []).filter((entry) => entry.cid !== cid)
      const [, after, isPinChanged, unpinned] = await Promise.all([
        content.place(query, written, found),
        replaced === undefined ? list : entries.change(query, owned, replaced, [{ number, cid, byteCount }]),
        content.requestPins(query, [cid], write.tracksPins),
        content.release(query, released, nowSeconds)
      ])
      const isPinOpen = isPinChanged || known.pin_state === 'pin'
      return { etag: toEtag(after), changedPins: [...(isPinOpen ? [cid] : []), ...unpinned] }
    },

    async removeEntries(query: SqlQuery, removal: EntryRemoval, nowSeconds: number): Promise<EntryChange> {
      const { did, key, cid } = removal
      const [locked, { rows }] = await Promise.all([
        query(s.lockOwner, [did]),
        query(cid === undefined ? s.removableAll : s.removableOne, [cid ?? '', did, key])
      ])
      const list = toListState(rows[0])
      assertMet(removal, list)
      const removed = rows.filter(isEntry).map(toEntry)
      // The first write of an owner may be committed between the two statements.
      if (locked.rows.length === 0 || removed.length === 0) return { etag: toEtag(list), changedPins: [] }
      const [after, changedPins] = await Promise.all([
        entries.change(query, { id: Number(locked.rows[0]?.id), did, key, list }, removed, []),
        content.release(query, removed, nowSeconds)
      ])
      return { etag: toEtag(after), changedPins }
    }
  }

  const reads = {
    async describeList(query: SqlQuery, { did, key }: EntryPlace) {
      const found = toListState((await query(s.listState, [did, key])).rows[0])
      return { etag: toEtag(found), entryCount: found.entryCount }
    },

    async listEntries(query: SqlQuery, { did, key }: EntryPlace) {
      const rows = assertUndamaged((await query(s.ofList, [did, key])).rows)
      return {
        etag: toEtag(toListState(rows.find((row) => !isEntry(row)))),
        entries: rows.filter(isEntry).map(toContentInfo)
      }
    },

    async listOwnEntries(query: SqlQuery, did: string) {
      const rows = assertUndamaged((await query(s.ofOwner, [did])).rows)
      return rows.filter(isEntry).map((row) => ({ key: String(row.key), ...toContentInfo(row) }))
    },

    async readUsage(query: SqlQuery, did: string) {
      return toUsage((await query(s.usage, [did])).rows[0] ?? {})
    }
  }

  return { transactions, reads }
}

/** Keys of one owner whose list is not the one that was written. @param rows - of lists and of entries */
export function findDamagedKeys(rows: readonly SqlRow[]): string[] {
  const byKey = new Map<string, SqlRow[]>()
  for (const row of rows) {
    const key = String(row.key)
    const others = byKey.get(key)
    if (others === undefined) byKey.set(key, [row])
    else others.push(row)
  }
  const isDamaged = (own: readonly SqlRow[]): boolean => {
    const written = toListState(own.find((row) => !isEntry(row)))
    const found = computeListState(own.filter(isEntry).map(toEntry))
    return found.entryCount !== written.entryCount || !found.hash.equals(written.hash)
  }
  return [...byKey].flatMap(([key, own]) => (isDamaged(own) ? [key] : []))
}

function assertUndamaged(rows: readonly SqlRow[]): readonly SqlRow[] {
  return findDamagedKeys(rows).length === 0 ? rows : refuse({ refused: 'ERR_STORAGE', detail: 'a list is damaged' })
}

/** A row of a list alone, or joined to no entry, has no cid. */
function isEntry({ cid }: SqlRow): boolean {
  return cid !== null
}

function toUsage({ byte_count, entry_count }: SqlRow): Usage {
  return { byteCount: Number(byte_count ?? 0), entryCount: Number(entry_count ?? 0) }
}

/** Which entries a write takes the place of; undefined when the list stays as it is. */
function listReplaced({ content, replaces }: EntryRequest, found: readonly SqlRow[]): readonly Entry[] | undefined {
  if (replaces === 'nothing') return found.length === 0 ? [] : undefined
  const [only] = found
  const isSame = found.length === 1 && only?.cid === content.cid && (replaces === 'all' || only.is_last === 1)
  return isSame ? undefined : found.map(toEntry)
}

/** Asserts an owner's quota. A write that needs no more space passes even if the quota was lowered below the usage. */
function assertQuota(before: Usage, replaced: readonly Entry[], { content, quota }: EntryRequest): void {
  const bytes = replaced.reduce((sum, { byteCount }) => sum - byteCount, before.byteCount + content.byteCount)
  const entries = before.entryCount + 1 - replaced.length
  const isFull = (detail: string): never => refuse({ refused: 'ERR_STORAGE_FULL', detail })
  if (bytes > Math.max(quota.maxBytes, before.byteCount)) isFull(`${bytes} bytes with this, at most ${quota.maxBytes}`)
  if (entries > Math.max(quota.maxEntries, before.entryCount)) {
    isFull(`${entries} entries with this, at most ${quota.maxEntries}`)
  }
}

function toEtag({ hash }: ListState): string {
  return `"${hash.toString('base64url')}"`
}

/** @throws what refuses a write whose conditions do not hold for a list */
function assertMet({ ifMatch, ifNoneMatch }: Precondition, list: ListState): void {
  const isEmpty = list.entryCount === 0
  const isMet = ifMatch === undefined || (ifMatch === '*' ? !isEmpty : ifMatch.includes(toEtag(list)))
  if (!isMet || (ifNoneMatch === '*' && !isEmpty)) refuse({ refused: 'ERR_PRECONDITION', etag: toEtag(list) })
}

/** The list of a row, which has none where nothing was joined. */
export function toListState(row: SqlRow | undefined): ListState {
  if (row === undefined || row.hash === null) return NO_LIST
  return { entryCount: Number(row.entry_count), hash: Buffer.from(row.hash as Uint8Array) }
}

export function toContentInfo({ cid, byte_count }: SqlRow): ContentInfo {
  return { cid: String(cid), byteCount: Number(byte_count) }
}

export function toEntryPlace({ did, key }: SqlRow): EntryPlace {
  return { did: String(did), key: String(key) }
}

export function toEntry(row: SqlRow): Entry {
  return { number: Number(row.number), ...toContentInfo(row) }
}

/** Adds an entry to the hash of a list, or removes it. */
function addToHash(sum: Buffer, { number, cid, byteCount }: Entry): void {
  const one = hash('sha256', `${number} ${cid} ${byteCount}`, 'buffer')
  for (let index = 0; index < sum.length; index += 1) sum[index] = (sum[index] ?? 0) ^ (one[index] ?? 0)
}

export function computeListState(entries: readonly Entry[]): ListState {
  const sum = Buffer.from(NO_LIST.hash)
  for (const entry of entries) addToHash(sum, entry)
  return { entryCount: entries.length, hash: sum }
}

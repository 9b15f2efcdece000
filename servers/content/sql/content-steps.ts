import { verb, type SqlRow } from 'express-did-auth/server-kit'
import type { ContentInfo } from '../content-store.js'
import { createStatements, type ContentDialect, type ContentQuery } from './content-dialect.js'
import { listCids, toFoundContent, type ContentRow, type FoundContent } from './rows.js'
import { MAX_ROW_BYTES, UPLOAD_NEEDED } from './rows.js'

/** Returns a condition: no entry and no file refers to the content of a row. */
export const isUnused = (row: string): string => `NOT EXISTS (SELECT 1 FROM ~entries e WHERE e.cid = ${row}.cid)
  AND NOT EXISTS (SELECT 1 FROM ~files f WHERE f.cid = ${row}.cid)`

/** Columns that describe the stored state of content `$1`, and the joins for them. */
export const STATE_COLUMNS =
  '(SELECT 1 FROM ~denied d WHERE d.cid = $1) AS denied, c.cid AS stored_cid, c.object, p.state AS pin_state'
export const FROM_STATE =
  'FROM (SELECT 1 AS one) one LEFT JOIN ~contents c ON c.cid = $1 LEFT JOIN ~pins p ON p.cid = $1'

/** Returns a WITH clause: the row of content `$1`, locked against deletion until the transaction ends. */
export function createHeldContentClause({ forReference }: ContentDialect): string {
  return `WITH held AS (SELECT c.cid FROM ~contents c WHERE c.cid = $1 ${forReference})`
}

/** Stored state of the content that a transaction writes. */
export interface ContentState {
  /** Row with `STATE_COLUMNS`. */
  readonly row: SqlRow
  /** Whether a stored row of the content is locked until the transaction ends. With one writer always true. */
  readonly isHeld: boolean
  /** Whether this transaction has claimed the uploaded object, so that the object is no longer garbage. */
  readonly isUploadClaimed: boolean
  readonly nowSeconds: number
}

/** Statements of engines with several writers: they lock a cid, or unused contents. */
export const lockStatements = createStatements('lock', (dialect: ContentDialect) => {
  const { isIn, lockContent, lockFree, schemaPrefix } = dialect
  return {
    shared: `${createHeldContentClause(dialect)}
      SELECT (SELECT ${schemaPrefix}count(*) FROM held) AS held FROM ${lockContent('shared')}`,
    exclusive: `SELECT 0 AS held FROM ${lockContent('exclusive')}`,
    unused: lockFree(`SELECT c.cid FROM ~contents c WHERE ${isIn('c.cid', '$1')} AND ${isUnused('c')}`)
  }
})

/**
 * Statements of transactions that store or release content.
 *
 * In PostgreSQL, all transactions lock in the same order, so that they never deadlock: cid, owner, content, object,
 * entries, pin, and finally unreferenced content, for whose locks they do not wait. No transaction locks popular
 * content for long, and unchanged rows are not locked. A writer locks the row of its content before it refers to the
 * row, and content is locked before it is deleted. Therefore no foreign key is violated.
 */
export const contentStatements = createStatements('content', (dialect: ContentDialect) => {
  const { isIn, nextRevision } = dialect
  return {
    find: `SELECT * FROM ~contents WHERE ${isIn('cid', '$1')}`,
    claimUpload: `DELETE FROM ~garbage WHERE object = $1 AND kind = 'upload'`,
    repairRow: `INSERT INTO ~contents AS c (cid, byte_count, leaf_hashes, bytes) SELECT $1, $2, $3, $4
        WHERE NOT EXISTS (SELECT 1 FROM ~contents WHERE cid = $1 AND (object IS NOT NULL OR bytes = $4))
      ON CONFLICT (cid) DO UPDATE SET byte_count = excluded.byte_count, leaf_hashes = excluded.leaf_hashes,
        bytes = excluded.bytes WHERE c.object IS NULL`,
    // A conflict also locks the existing row, even if it does not change the row.
    addRow: `INSERT INTO ~contents AS c (cid, byte_count, leaf_hashes, bytes) VALUES ($1, $2, $3, $4)
      ON CONFLICT (cid) DO UPDATE SET byte_count = excluded.byte_count, leaf_hashes = excluded.leaf_hashes,
        bytes = excluded.bytes WHERE c.object IS NULL`,
    addObject: `INSERT INTO ~contents AS c (cid, byte_count, leaf_hashes, object) VALUES ($1, $2, $3, $4)
      ON CONFLICT (cid) DO UPDATE SET object = c.object WHERE false`,
    addGarbage: `INSERT INTO ~garbage (object, kind, since, byte_count) VALUES ($1, $2, $3, $4)
      ON CONFLICT (object) DO UPDATE SET kind = excluded.kind, since = excluded.since`,
    // The garbage row may have been collected during the upload. If the result of a commit was lost, the object is in
    // use.
    discard: `INSERT INTO ~garbage AS g (object, kind, since, byte_count) SELECT $1, $2, $3, $4
        WHERE NOT EXISTS (SELECT 1 FROM ~contents WHERE cid = $5 AND object = $1)
      ON CONFLICT (object) DO UPDATE SET kind = excluded.kind, since = excluded.since WHERE g.kind <> 'takedown'`,
    lockRow: `SELECT object FROM ~contents WHERE cid = $1 ${dialect.forUpdate}`,
    isUsed: `SELECT 1 FROM (SELECT CAST($1 AS text) AS cid) c WHERE NOT (${isUnused('c')})
      AND NOT EXISTS (SELECT 1 FROM ~denied d WHERE d.cid = c.cid)`,
    replace: `INSERT INTO ~contents (cid, byte_count, leaf_hashes, object, bytes) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (cid) DO UPDATE SET byte_count = excluded.byte_count, leaf_hashes = excluded.leaf_hashes,
        object = excluded.object, bytes = excluded.bytes`,
    requestPins: `INSERT INTO ~pins AS p (cid, state, revision) SELECT c.cid, 'pin', ${nextRevision} FROM ~contents c
        WHERE ${isIn('c.cid', '$1')} AND NOT (${isUnused('c')})
          AND ($2 = 1 OR EXISTS (SELECT 1 FROM ~pins tracked WHERE tracked.cid = c.cid))
          AND NOT EXISTS (SELECT 1 FROM ~pins pinned WHERE pinned.cid = c.cid AND pinned.state <> 'unpin')
        ORDER BY c.cid ${dialect.forReference}
      ON CONFLICT (cid) DO UPDATE SET state = 'pin', revision = excluded.revision, attempts = 0, retry_at = 0,
        is_in_doubt = CASE WHEN p.attempts > 0 THEN 1 ELSE p.is_in_doubt END WHERE p.state = 'unpin'`,
    // A lease stays valid: columns of the claim do not change.
    requestUnpins: `UPDATE ~pins AS p SET state = 'unpin', revision = ${nextRevision}, attempts = 0, retry_at = 0,
        is_in_doubt = CASE WHEN attempts > 0 THEN 1 ELSE is_in_doubt END
      WHERE ${isIn('cid', '$1')} AND state <> 'unpin'
        AND NOT EXISTS (SELECT 1 FROM ~contents stored WHERE stored.cid = p.cid) AND ${isUnused('p')} RETURNING cid`,
    markObjects: `INSERT INTO ~garbage (object, kind, since, byte_count)
        SELECT c.object, 'removed', $1, c.byte_count FROM ~contents c
        WHERE ${dialect.isLocked('c.cid', '$2')} AND c.object IS NOT NULL AND ${isUnused('c')}
      ON CONFLICT (object) DO NOTHING`,
    // Large content is deleted only after `markObjects` has marked its object as garbage.
    drop: `DELETE FROM ~contents AS c WHERE ${dialect.isLocked('c.cid', '$1')} AND CASE WHEN c.object IS NULL
      THEN ${isUnused('c')} ELSE EXISTS (SELECT 1 FROM ~garbage g WHERE g.object = c.object) END`,
    addUnreferenced: `INSERT INTO ~unreferenced (cid, since) SELECT cid, $2 FROM ~contents WHERE ${isIn('cid', '$1')}
        ORDER BY cid ON CONFLICT (cid) DO UPDATE SET since = excluded.since`
  }
})

export const findContents = verb(
  'read',
  async (query: ContentQuery, cids: readonly string[]): Promise<(FoundContent | undefined)[]> => {
    const { rows } = await query(contentStatements.find, [JSON.stringify(cids)])
    const contents = new Map(rows.map((row) => [row.cid, toFoundContent(row)]))
    return cids.map((cid) => contents.get(cid))
  }
)

/** Claims an uploaded object. Returns false if a collector was faster and may delete it. */
export async function claimUpload(query: ContentQuery, name: string): Promise<boolean> {
  return (await query(contentStatements.claimUpload, [name])).rowCount === 1
}

export async function addGarbage(query: ContentQuery, content: ContentRow, nowSeconds: number): Promise<void> {
  if (content.object === undefined) return
  const { name, isUploaded } = content.object
  await query(contentStatements.addGarbage, [name, isUploaded ? 'removed' : 'upload', nowSeconds, content.byteCount])
}

/** Whether new large content needs an upload of its object first. If so, registers the object's name as garbage. */
export async function needsUpload(query: ContentQuery, content: ContentRow, state: ContentState) {
  const { isUploadClaimed, nowSeconds } = state
  if (isUploadClaimed || isStored(state)) return false
  // This may be an uploaded object: a collector was faster, and may have tried to delete it before it existed.
  await addGarbage(query, content, nowSeconds)
  return true
}

export async function addUnreferenced(query: ContentQuery, cids: readonly string[], nowSeconds: number): Promise<void> {
  await query(contentStatements.addUnreferenced, [JSON.stringify(cids), nowSeconds])
}

export async function requestUnpins(query: ContentQuery, cids: readonly string[]): Promise<string[]> {
  return listCids((await query(contentStatements.requestUnpins, [JSON.stringify(cids)])).rows)
}

/**
 * Deletes unused contents and requests the removal of their pins.
 *
 * @param mayBeLarge - whether a content may have an object, which is then marked as garbage
 * @returns number of deleted contents, and cids of changed pins
 */
export async function dropUnused(
  query: ContentQuery,
  cids: readonly string[],
  mayBeLarge: boolean,
  nowSeconds: number
) {
  const cidValues = [JSON.stringify(cids)]
  const { hasOneWriter } = query.dialect
  // After a lock, the following statements use the cids that it has locked.
  const lockedValues = hasOneWriter ? cidValues : []
  const [, , { rowCount: dropped }, unpinned] = await Promise.all([
    hasOneWriter ? undefined : query(lockStatements.unused, cidValues),
    mayBeLarge ? query(contentStatements.markObjects, [nowSeconds, ...lockedValues]) : undefined,
    query(contentStatements.drop, lockedValues),
    requestUnpins(query, cids)
  ])
  return { dropped, unpinned }
}

/** Marks an uploaded object as garbage after its write was refused. */
export const discardUpload = verb(
  'write',
  async (
    query: ContentQuery,
    { cid, byteCount, name }: ContentInfo & { readonly name: string },
    kind: 'removed' | 'takedown',
    now: number
  ) => {
    await query(contentStatements.discard, [name, kind, now, byteCount, cid])
  }
)

/**
 * Locks a cid as the first step, so that a takedown and transactions that write the content wait for each other.
 *
 * @returns with `shared`, whether the row of the content exists and is locked against deletion. With one writer always
 *   true, because no other transaction can delete the row
 */
export async function lock(query: ContentQuery, cid: string, mode: 'shared' | 'exclusive'): Promise<boolean> {
  return query.dialect.hasOneWriter || Number((await query(lockStatements[mode], [cid])).rows[0]?.held) === 1
}

/** Replaces the stored bytes of content that is in use. */
export const repairContent = verb(
  'transaction',
  async (query: ContentQuery, content: ContentRow, nowSeconds: number) => {
    const { cid, byteCount, leafHashes, object, bytes } = content
    // A damaged database may have lost the row. A takedown must not end between the check and the insertion.
    await lock(query, cid, 'shared')
    const [locked, use] = [await query(contentStatements.lockRow, [cid]), await query(contentStatements.isUsed, [cid])]
    const storedObject = locked.rows[0]?.object
    if (object !== undefined && storedObject === object.name) return undefined
    if (use.rows.length === 0) {
      if (object?.isUploaded === true) await addGarbage(query, content, nowSeconds)
      return undefined
    }
    const isUploadClaimed = object?.isUploaded === true && (await claimUpload(query, object.name))
    if (
      object !== undefined &&
      (await needsUpload(query, content, { row: {}, isHeld: false, isUploadClaimed, nowSeconds }))
    )
      return UPLOAD_NEEDED
    await query(contentStatements.replace, [cid, byteCount, leafHashes, object?.name ?? null, toBindable(bytes)])
    if (typeof storedObject === 'string')
      await query(contentStatements.addGarbage, [storedObject, 'removed', nowSeconds, byteCount])
    return undefined
  }
)

/** Stores new content, and repairs small content that is stored but damaged. */
export async function place(query: ContentQuery, content: ContentRow, state: ContentState): Promise<void> {
  const { row, nowSeconds } = state
  const { cid, byteCount, leafHashes, object, bytes } = content
  if (object === undefined) {
    const statement = isStored(state) ? contentStatements.repairRow : contentStatements.addRow
    await query(statement, [cid, byteCount, leafHashes, toBindable(bytes)])
    return
  }
  // If the result of the first attempt was lost, a repetition finds its own object in use.
  if (row.object === object.name) return
  const values = [cid, byteCount, leafHashes, object.name]
  if (!isStored(state) && (await query(contentStatements.addObject, values)).rowCount === 1) return
  // Another writer has stored the same content.
  if (object.isUploaded) await addGarbage(query, content, nowSeconds)
}

/** Requests pins of content in use; without `tracksPins`, only of tracked content. @returns whether pins changed */
export async function requestPins(query: ContentQuery, cids: readonly string[], tracksPins: boolean): Promise<boolean> {
  return (await query(contentStatements.requestPins, [JSON.stringify(cids), tracksPins ? 1 : 0])).rowCount > 0
}

/**
 * Deletes released content that is unused. This is the last step of a transaction. Content that another transaction
 * has locked or still uses is left to the garbage collector.
 *
 * @returns cids whose pins must change
 */
export async function release(
  query: ContentQuery,
  released: readonly ContentInfo[],
  nowSeconds: number
): Promise<string[]> {
  const cids = released.map(({ cid }) => cid)
  const mayBeLarge = released.some(({ byteCount }) => byteCount > MAX_ROW_BYTES)
  const { dropped, unpinned } = await dropUnused(query, cids, mayBeLarge, nowSeconds)
  if (dropped < cids.length) await addUnreferenced(query, cids, nowSeconds)
  return unpinned
}

/** Whether content is stored and locked against deletion. */
function isStored({ row, isHeld }: ContentState): boolean {
  return isHeld && typeof row.stored_cid === 'string'
}

/** Converts bytes for binding. Before Node 24, node:sqlite binds NULL for an empty array from another thread. */
function toBindable(bytes: Uint8Array | undefined): Uint8Array | null {
  return bytes?.length === 0 ? Buffer.alloc(0) : (bytes ?? null)
}

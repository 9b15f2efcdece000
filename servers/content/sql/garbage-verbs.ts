import { verb, type SqlRow } from 'express-did-auth/server-kit'
import { limitMilliseconds, MIN_BYTES_PER_SECOND } from '../../config/time-limits.js'
import { createStatements, type ContentDialect, type ContentQuery } from './content-dialect.js'
import * as content from './content-steps.js'
import * as entries from './entry-verbs.js'
import { toEntry, toListState } from './entry-verbs.js'
import { listCids, toEntryPlace } from './rows.js'

/** Rows in a batch. */
const BATCH_ROWS = 100
/** Age from which an unfinished upload is garbage. */
const UPLOAD_SECONDS = limitMilliseconds.abandonedUpload / 1_000
/** Maximum number of entries that one step of a takedown removes, so that it ends within the time limit of a verb. */
const BATCH_ENTRIES = 1_000
/** Maximum number of bytes that a download sends for a byte of content, because JSON escapes some characters. */
const MAX_ESCAPED = 6
const DOWNLOAD_DELAY_SECONDS = limitMilliseconds.downloadDelay / 1_000

/** Statements that delete unreferenced content, objects that no content uses, and content that is taken down. */
export const garbageStatements = createStatements('garbage', (dialect: ContentDialect) => {
  const { isIn, isFree, skipLocked } = dialect
  return {
    claim: `SELECT cid FROM ~unreferenced WHERE cid > $1 ORDER BY cid LIMIT ${BATCH_ROWS} ${skipLocked}`,
    lockRows: `SELECT cid FROM ~contents WHERE ${isIn('cid', '$1')} ORDER BY cid ${skipLocked}`,
    // Keeps rows that another transaction has locked, and rows of content whose deletion may still be rolled back.
    settle: `DELETE FROM ~unreferenced WHERE ${isIn('cid', '$1')} AND (${isIn('cid', '$2')}
      OR NOT EXISTS (SELECT 1 FROM ~contents c WHERE c.cid = ~unreferenced.cid))`,
    // Uploads that are marked as removed can no longer be claimed, so their objects may be deleted.
    abandon: `UPDATE ~garbage SET kind = 'removed' WHERE kind = 'upload'
      AND ${isFree('object', `SELECT object FROM ~garbage WHERE kind = 'upload' AND since <= $1`)}`,
    // A deletion may break readers, so it waits until the slowest possible reader of a removed object has finished.
    find: `SELECT object, kind FROM ~garbage WHERE object > $1
        AND (kind = 'takedown' OR (kind = 'removed'
          AND since + ${DOWNLOAD_DELAY_SECONDS} + byte_count / ${MIN_BYTES_PER_SECOND} * ${MAX_ESCAPED} <= $2))
      ORDER BY object LIMIT ${BATCH_ROWS}`,
    forget: `DELETE FROM ~garbage WHERE ${isIn('object', '$1')}`,
    deny: `INSERT INTO ~denied (cid, reason, at) VALUES ($1, $2, $3)
      ON CONFLICT (cid) DO UPDATE SET reason = excluded.reason, at = excluded.at`,
    allow: 'DELETE FROM ~denied WHERE cid = $1',
    isDenied: 'SELECT 1 FROM ~denied WHERE cid = $1',
    owners: `SELECT id, did FROM ~owners WHERE id IN (SELECT owner FROM ~entries WHERE cid = $1 ORDER BY owner
      LIMIT ${BATCH_ENTRIES}) ORDER BY id ${dialect.forUpdate}`,
    entries: `SELECT e.owner, o.did, e.key, e.number, e.cid, e.byte_count, l.entry_count, l.hash
      FROM ~entries e JOIN ~owners o ON o.id = e.owner LEFT JOIN ~lists l ON l.did = o.did AND l.key = e.key
      WHERE e.cid = $1 AND e.owner <= $2 ORDER BY e.owner LIMIT ${BATCH_ENTRIES}`,
    settleDenied: 'DELETE FROM ~unreferenced WHERE cid = $1',
    deleteFile: 'DELETE FROM ~files WHERE cid = $1',
    // Only a damaged database contains entries without an owner.
    deleteLost: 'DELETE FROM ~entries WHERE cid = $1',
    // A weaker lock before the deletion would cause a deadlock with a repair, which holds a lock against deletion.
    deleteContent: 'DELETE FROM ~contents WHERE cid = $1 RETURNING object, byte_count',
    // Names of objects begin with the cid. Skips running uploads, whose object could appear after its deletion.
    markGarbage: `UPDATE ~garbage SET kind = 'takedown' WHERE object > $1 AND object < $2 AND kind <> 'upload'`,
    probe: "UPDATE ~numbers SET number = number + 1 WHERE name = 'probes'"
  }
})

/**
 * Deletes a page of unreferenced content.
 * @returns the cid after which the next page begins; undefined at the end
 */
export const collectUnreferenced = verb(
  'transaction',
  async (query: ContentQuery, afterCid: string, nowSeconds: number): Promise<string | undefined> => {
    const claimed = listCids((await query(garbageStatements.claim, [afterCid])).rows)
    if (claimed.length === 0) return undefined
    const locked = listCids((await query(garbageStatements.lockRows, [JSON.stringify(claimed)])).rows)
    if (locked.length > 0) await content.dropUnused(query, locked, true, nowSeconds)
    await query(garbageStatements.settle, [JSON.stringify(claimed), JSON.stringify(locked)])
    return claimed.length < BATCH_ROWS ? undefined : claimed.at(-1)
  },
  { freesSpace: true }
)

/** Refuses content from now on. Waits for running writers of the content, so that none of them restores it. */
export const deny = verb(
  'transaction',
  async (query: ContentQuery, cid: string, reason: string, nowSeconds: number) => {
    await Promise.all([content.lock(query, cid, 'exclusive'), query(garbageStatements.deny, [cid, reason, nowSeconds])])
  },
  { freesSpace: true }
)

/**
 * Removes a batch of entries of denied content, and the content itself with the last batch.
 *
 * @returns `wasInRow`: whether the database may have contained bytes of the content
 */
export const takeDownStep = verb(
  'transaction',
  async (query: ContentQuery, cid: string, nowSeconds: number) => {
    const { overwriting } = query.dialect
    const owners = (await query(garbageStatements.owners, [cid])).rows
    const { rows } = await query(garbageStatements.entries, [cid, owners.at(-1)?.id ?? 0])
    // Each row belongs to a different list.
    const removals = rows.map((row) =>
      entries.change(query, { id: Number(row.owner), ...toEntryPlace(row), list: toListState(row) }, [toEntry(row)], [])
    )
    await Promise.all(removals)
    // The next step removes the remaining entries. No new ones can be written.
    const isDone = rows.length < BATCH_ENTRIES && owners.length < BATCH_ENTRIES
    if (!isDone) return { removed: rows.length, isDone, wasInRow: false }
    // Same order as in the garbage collector, so that the two never deadlock.
    await query(garbageStatements.settleDenied, [cid])
    const [file, lost] = [
      await query(garbageStatements.deleteFile, [cid]),
      await query(garbageStatements.deleteLost, [cid])
    ]
    if (overwriting !== undefined) await query(overwriting.on)
    let deleted: SqlRow | undefined
    try {
      deleted = (await query(garbageStatements.deleteContent, [cid])).rows[0]
    } finally {
      if (overwriting !== undefined) await query(overwriting.off)
    }
    const object = deleted?.object ?? undefined
    if (object !== undefined) {
      await query(content.contentStatements.addGarbage, [object, 'takedown', nowSeconds, deleted?.byte_count])
    }
    await query(garbageStatements.markGarbage, [`${cid}.`, `${cid}/`])
    await content.requestUnpins(query, [cid])
    const removed = rows.length + file.rowCount + lost.rowCount
    return { removed, isDone, wasInRow: object === undefined }
  },
  { freesSpace: true }
)

/** Marks unfinished uploads as garbage that began an hour or more before a time. */
export const abandonUploads = verb(
  'write',
  async (query: ContentQuery, beforeSeconds: number) => {
    await query(garbageStatements.abandon, [beforeSeconds - UPLOAD_SECONDS])
  },
  { freesSpace: true }
)

export const forgetGarbage = verb(
  'write',
  async (query: ContentQuery, objects: readonly string[]) => {
    await query(garbageStatements.forget, [JSON.stringify(objects)])
  },
  { freesSpace: true }
)

export const allow = verb(
  'write',
  async (query: ContentQuery, cid: string) => {
    return (await query(garbageStatements.allow, [cid])).rowCount === 1
  },
  { isRepeatable: false }
)

export const probe = verb('write', async (query: ContentQuery) => {
  await query(garbageStatements.probe)
})

/**
 * Finds objects to delete, in the order of their names. Several collectors may delete the same object.
 *
 * @param readersEndSeconds - time at which the readers of a removed object must have finished; it is
 *   `Number.MAX_SAFE_INTEGER` if deletions wait for no reader
 */
export const findGarbage = verb('read', async (query: ContentQuery, after: string, readersEndSeconds: number) => {
  const { rows } = await query(garbageStatements.find, [after, readersEndSeconds])
  const items = rows.map(({ object, kind }) => ({ object: String(object), overwrite: kind === 'takedown' }))
  return { items, next: items.at(-1)?.object }
})

export const isTakenDown = verb('read', async (query: ContentQuery, cid: string) => {
  return (await query(garbageStatements.isDenied, [cid])).rows.length > 0
})

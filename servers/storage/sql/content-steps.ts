import type { SqlQuery, SqlRow } from 'express-did-auth/server-kit'
import { refuse } from '../storage-error.js'
import { list, type ContentDialect } from './content-dialect.js'
import type { ContentInfo } from '../content-store.js'
import { MAX_ROW_BYTES, UPLOAD_NEEDED, type ContentRow } from './stored-content.js'

/** A condition: no entry and no file has the cid of a row. */
export const isUnused = (row: string): string => `NOT EXISTS (SELECT 1 FROM ~entries e WHERE e.cid = ${row}.cid)
  AND NOT EXISTS (SELECT 1 FROM ~files f WHERE f.cid = ${row}.cid)`

/** Columns and joins for the stored state of content `$1`. */
export const KNOWN =
  '(SELECT 1 FROM ~denied d WHERE d.cid = $1) AS denied, c.cid AS known_cid, c.object, p.state AS pin_state'
export const FROM_KNOWN =
  'FROM (SELECT 1 AS one) one LEFT JOIN ~contents c ON c.cid = $1 LEFT JOIN ~pins p ON p.cid = $1'

/** Returns a common table expression: the row of content `$1`, locked against deletion until the transaction ends. */
export function createHeldContentClause({ forReference }: ContentDialect): string {
  return `WITH held AS (SELECT c.cid FROM ~contents c WHERE c.cid = $1 ${forReference})`
}

/** Stored state of the content of a write, with the columns `KNOWN`. */
export interface Found {
  readonly known: SqlRow
  /** Whether the row of the content was found and cannot be deleted until the end of the transaction. */
  readonly isHeld: boolean
  /** Whether the object that was uploaded for the content is still reserved for it. */
  readonly isClaimed: boolean
  readonly nowSeconds: number
}

export type ContentSteps = ReturnType<typeof createContentSteps>

/**
 * Steps of transactions that store content or let it go.
 *
 * In PostgreSQL, transactions lock in one order, so that they never wait in a circle: the content's name, the owner,
 * the content, the object, entries, the pin, and at last unreferenced content, where they wait for none. Content that
 * many have is locked by none for long, and a row that has to change nothing is not locked. A writer holds the row of
 * its content before it refers to it, and content is locked before it is deleted: so no foreign key is ever violated.
 */
export function createContentSteps(dialect: ContentDialect) {
  const { isIn, nextRevision, lockContent } = dialect
  const locks =
    lockContent &&
    dialect.statements('lock', {
      shared: `${createHeldContentClause(dialect)} SELECT (SELECT pg_catalog.count(*) FROM held) AS held FROM ${lockContent('shared')}`,
      alone: `SELECT 0 AS held FROM ${lockContent('alone')}`
    })
  const findUnused = `SELECT c.cid FROM ~contents c WHERE ${isIn('c.cid', '$1')} AND ${isUnused('c')}`
  const lockUnused = dialect.lockFree && dialect.statements('drop', { lock: dialect.lockFree(findUnused) }).lock
  const s = dialect.statements('content', {
    claimUpload: `DELETE FROM ~garbage WHERE object = $1 AND kind = 'upload'`,
    repairRow: `INSERT INTO ~contents AS c (cid, byte_count, leaf_hashes, bytes) SELECT $1, $2, $3, $4
        WHERE NOT EXISTS (SELECT 1 FROM ~contents WHERE cid = $1 AND (object IS NOT NULL OR bytes = $4))
      ON CONFLICT (cid) DO UPDATE SET byte_count = excluded.byte_count, leaf_hashes = excluded.leaf_hashes,
        bytes = excluded.bytes WHERE c.object IS NULL`,
    // A conflict locks the row of another writer, also where it changes nothing.
    addRow: `INSERT INTO ~contents AS c (cid, byte_count, leaf_hashes, bytes) VALUES ($1, $2, $3, $4)
      ON CONFLICT (cid) DO UPDATE SET byte_count = excluded.byte_count, leaf_hashes = excluded.leaf_hashes,
        bytes = excluded.bytes WHERE c.object IS NULL`,
    addObject: `INSERT INTO ~contents AS c (cid, byte_count, leaf_hashes, object) VALUES ($1, $2, $3, $4)
      ON CONFLICT (cid) DO UPDATE SET object = c.object WHERE false`,
    addGarbage: `INSERT INTO ~garbage (object, kind, since, byte_count) VALUES ($1, $2, $3, $4)
      ON CONFLICT (object) DO UPDATE SET kind = excluded.kind, since = excluded.since`,
    // Its row may have been collected while it was written; and it is in use where the answer of a commit was lost.
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
          AND ($2 = 1 OR EXISTS (SELECT 1 FROM ~pins old WHERE old.cid = c.cid))
          AND NOT EXISTS (SELECT 1 FROM ~pins old WHERE old.cid = c.cid AND old.state <> 'unpin')
        ORDER BY c.cid ${dialect.forReference}
      ON CONFLICT (cid) DO UPDATE SET state = 'pin', revision = excluded.revision, attempts = 0, retry_at = 0,
        is_in_doubt = CASE WHEN p.attempts > 0 THEN 1 ELSE p.is_in_doubt END WHERE p.state = 'unpin'`,
    // A lease outlives it.
    requestUnpins: `UPDATE ~pins AS p SET state = 'unpin', revision = ${nextRevision}, attempts = 0, retry_at = 0,
        is_in_doubt = CASE WHEN attempts > 0 THEN 1 ELSE is_in_doubt END
      WHERE ${isIn('cid', '$1')} AND state <> 'unpin'
        AND NOT EXISTS (SELECT 1 FROM ~contents there WHERE there.cid = p.cid) AND ${isUnused('p')} RETURNING cid`,
    markObjects: `INSERT INTO ~garbage (object, kind, since, byte_count)
        SELECT c.object, 'removed', $1, c.byte_count FROM ~contents c
        WHERE ${dialect.isLocked('c.cid', '$2')} AND c.object IS NOT NULL AND ${isUnused('c')}
      ON CONFLICT (object) DO NOTHING`,
    drop: `DELETE FROM ~contents AS c WHERE ${dialect.isLocked('c.cid', '$1')} AND CASE WHEN c.object IS NULL
      THEN ${isUnused('c')} ELSE EXISTS (SELECT 1 FROM ~garbage g WHERE g.object = c.object) END`,
    addUnreferenced: `INSERT INTO ~unreferenced (cid, since) SELECT cid, $2 FROM ~contents WHERE ${isIn('cid', '$1')}
        ORDER BY cid ON CONFLICT (cid) DO UPDATE SET since = excluded.since`
  })

  /** Whether an object that was written is still its writer's to use; only then is it no garbage any more. */
  async function claimUpload(query: SqlQuery, { object }: ContentRow): Promise<boolean> {
    return object?.isUploaded === true && (await query(s.claimUpload, [object.name])).rowCount === 1
  }

  async function addGarbage(query: SqlQuery, { object, byteCount }: ContentRow, nowSeconds: number): Promise<void> {
    if (object !== undefined)
      await query(s.addGarbage, [object.name, object.isUploaded ? 'removed' : 'upload', nowSeconds, byteCount])
  }

  /** Whether the object of content that is not there has to be written first; its name is garbage then. */
  async function needsUpload(query: SqlQuery, content: ContentRow, found: Found) {
    const { isClaimed, nowSeconds } = found
    if (content.object === undefined || isClaimed || isThere(found)) return false
    // Also one that was written: a collector was faster, and may have looked for the object before that was there.
    await addGarbage(query, content, nowSeconds)
    return true
  }

  async function addUnreferenced(query: SqlQuery, cids: readonly string[], nowSeconds: number): Promise<void> {
    await query(s.addUnreferenced, [list(cids), nowSeconds])
  }

  async function requestUnpins(query: SqlQuery, cids: readonly string[]): Promise<string[]> {
    return listCids((await query(s.requestUnpins, [list(cids)])).rows)
  }

  /** Deletes what nothing has, and asks for its pin to be removed. @returns how many were deleted, and changed pins */
  async function dropUnused(query: SqlQuery, cids: readonly string[], mayBeLarge: boolean, nowSeconds: number) {
    const named = [list(cids)]
    const rest = lockUnused === undefined ? named : []
    const [, , { rowCount: dropped }, unpinned] = await Promise.all([
      lockUnused && query(lockUnused, named),
      mayBeLarge ? query(s.markObjects, [nowSeconds, ...rest]) : undefined,
      query(s.drop, rest),
      requestUnpins(query, cids)
    ])
    return { dropped, unpinned }
  }

  /** Marks an object as garbage whose write was refused. */
  async function discardUpload(
    query: SqlQuery,
    { cid, byteCount, name }: ContentInfo & { readonly name: string },
    kind: 'removed' | 'takedown',
    now: number
  ): Promise<void> {
    await query(s.discard, [name, kind, now, byteCount, cid])
  }

  /**
   * Locks content, as the first step, so that a takedown and transactions that write the content wait for each other.
   *
   * @returns whether the row of the content exists and is held, with `shared`
   */
  async function lock(query: SqlQuery, cid: string, mode: 'shared' | 'alone'): Promise<boolean> {
    return locks === undefined || Number((await query(locks[mode], [cid])).rows[0]?.held) === 1
  }

  /** Replaces the stored bytes of content that is in use. */
  async function repairContent(query: SqlQuery, content: ContentRow, nowSeconds: number) {
    const { cid, byteCount, leafHashes, object, bytes } = content
    // Locked content is not dropped. In SQLite, the row of content that is in use may be lost.
    await lock(query, cid, 'shared')
    const [locked, use] = [await query(s.lockRow, [cid]), await query(s.isUsed, [cid])]
    const before = locked.rows[0]?.object
    if (object !== undefined && before === object.name) return undefined
    if (use.rows.length === 0) {
      if (object?.isUploaded === true) await addGarbage(query, content, nowSeconds)
      return undefined
    }
    const isClaimed = await claimUpload(query, content)
    if (await needsUpload(query, content, { known: {}, isHeld: false, isClaimed, nowSeconds })) return UPLOAD_NEEDED
    await query(s.replace, [cid, byteCount, leafHashes, object?.name ?? null, bound(bytes)])
    if (typeof before === 'string') await query(s.addGarbage, [before, 'removed', nowSeconds, byteCount])
    return undefined
  }

  return {
    claimUpload,
    needsUpload,
    addUnreferenced,
    requestUnpins,
    dropUnused,
    discardUpload,
    repairContent,
    lock,

    /** Stores new content, and repairs small content that is stored but damaged. */
    async place(query: SqlQuery, content: ContentRow, found: Found): Promise<void> {
      const { known, nowSeconds } = found
      const { cid, byteCount, leafHashes, object, bytes } = content
      if (object === undefined) {
        await query(isThere(found) ? s.repairRow : s.addRow, [cid, byteCount, leafHashes, bound(bytes)])
        return
      }
      // Its own object is in use already when the transaction runs once more because its answer was lost.
      if (known.object === object.name) return
      const row = [cid, byteCount, leafHashes, object.name]
      if (!isThere(found) && (await query(s.addObject, row)).rowCount === 1) return
      // Another writer has brought the same content.
      if (object.isUploaded) await addGarbage(query, content, nowSeconds)
    },

    /** Content in use is to be pinned; with `tracksPins`, also if it was not tracked. @returns whether pins changed */
    async requestPins(query: SqlQuery, cids: readonly string[], tracksPins: boolean): Promise<boolean> {
      return (await query(s.requestPins, [list(cids), tracksPins ? 1 : 0])).rowCount > 0
    },

    /**
     * The last step of a transaction that releases content: what nothing has is deleted. What another transaction has
     * locked, or still uses, is left to the collector. @returns cids whose pins have to change because of it
     */
    async release(query: SqlQuery, released: readonly ContentInfo[], nowSeconds: number): Promise<string[]> {
      if (released.length === 0) return []
      const cids = released.map(({ cid }) => cid)
      const mayBeLarge = released.some(({ byteCount }) => byteCount > MAX_ROW_BYTES)
      const { dropped, unpinned } = await dropUnused(query, cids, mayBeLarge, nowSeconds)
      if (dropped < cids.length) await addUnreferenced(query, cids, nowSeconds)
      return unpinned
    }
  }
}

/** @throws what refuses content that was taken down */
export function assertAllowed({ denied }: SqlRow): void {
  if (denied !== null) refuse({ refused: 'ERR_TAKEN_DOWN' })
}

export function listCids(rows: readonly SqlRow[]): string[] {
  return rows.map(({ cid }) => String(cid))
}

/** Whether content is stored and stays so. */
function isThere({ known, isHeld }: Found): boolean {
  return isHeld && typeof known.known_cid === 'string'
}

/** Before Node 24, node:sqlite binds NULL for an empty array that has crossed threads. */
function bound(bytes: Uint8Array | undefined): Uint8Array | null {
  return bytes?.length === 0 ? Buffer.alloc(0) : (bytes ?? null)
}

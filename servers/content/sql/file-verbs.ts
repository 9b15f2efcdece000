import { createHash } from 'node:crypto'
import { verb } from 'express-did-auth/server-kit'
import type { FileWrite } from '../content-store.js'
import { refuse } from '../storage-error.js'
import { createStatements, type ContentDialect, type ContentQuery } from './content-dialect.js'
import * as content from './content-steps.js'
import { FROM_STATE, isUnused, STATE_COLUMNS } from './content-steps.js'
import { toContentInfo, toFileState, UPLOAD_NEEDED, type ContentRow } from './rows.js'

/** A write of a file with its content as a row. Without `post`, it is not counted for a user, as for a copied file. */
export interface FileRequest {
  readonly content: ContentRow
  readonly expiresAtSeconds: number
  readonly nowSeconds: number
  readonly tracksPins: boolean
  /** Quotas of a post. `usedBytes` is the approximate size of all files. */
  readonly post?: Pick<FileWrite, 'did' | 'bounds'> & { readonly usedBytes: number }
}

const DELETED_AT_ONCE = 100
/** Size of a file's rows and index entries, which is counted in addition to its bytes. */
const FILE_OVERHEAD_BYTES = 512

/** Statements of the relay's files. A user's posts are counted exactly, in the transaction of the post. */
export const fileStatements = createStatements('file', ({ isFree, schemaPrefix, greatest }: ContentDialect) => {
  const sum = (bytes: string): string => `coalesce(${schemaPrefix}sum(${bytes}), 0)`
  const selectExpired = `SELECT cid FROM ~files WHERE expires_at <= $1 ORDER BY expires_at LIMIT ${DELETED_AT_ONCE}`
  return {
    state: `SELECT ${STATE_COLUMNS}, f.expires_at ${FROM_STATE} LEFT JOIN ~files f ON f.cid = $1`,
    charge: `INSERT INTO ~posts AS p (did_hash, byte_count, ends_at) SELECT $1, $2, $3
        WHERE NOT EXISTS (SELECT 1 FROM ~files WHERE cid = $4 AND expires_at > $5)
      ON CONFLICT (did_hash) DO UPDATE SET ends_at = excluded.ends_at,
        byte_count = excluded.byte_count + CASE WHEN p.ends_at = excluded.ends_at THEN p.byte_count ELSE 0 END
      RETURNING byte_count`,
    refund: 'UPDATE ~posts SET byte_count = byte_count - $2 WHERE did_hash = $1',
    put: `INSERT INTO ~files AS f (cid, byte_count, expires_at) VALUES ($1, $2, $3)
      ON CONFLICT (cid) DO UPDATE SET expires_at = ${greatest('f.expires_at', 'excluded.expires_at')}`,
    find: `SELECT f.cid, f.byte_count, f.expires_at, (SELECT 1 FROM ~denied WHERE cid = $1) AS denied
      FROM (SELECT 1 AS one) single LEFT JOIN ~files f ON f.cid = $1 AND f.expires_at > $2`,
    // The CROSS JOIN makes SQLite begin with unreferenced content. Otherwise it reads all contents, which takes 6.8 s
    // instead of 0.6 ms for a million entries.
    sum: `SELECT (SELECT ${sum('byte_count')} FROM ~owners) + (SELECT ${sum('byte_count')} FROM ~garbage)
      + (SELECT ${sum(`byte_count + ${FILE_OVERHEAD_BYTES}`)} FROM ~files) + (SELECT ${sum('c.byte_count')}
        FROM ~unreferenced u CROSS JOIN ~contents c WHERE c.cid = u.cid AND ${isUnused('c')}) AS sum`,
    deleteEnded: `DELETE FROM ~files WHERE ${isFree('cid', selectExpired)} AND expires_at <= $1
      RETURNING cid, byte_count`,
    deletePosts: `DELETE FROM ~posts WHERE ends_at <= $1
      AND ${isFree('did_hash', 'SELECT did_hash FROM ~posts WHERE ends_at <= $1 LIMIT 1000')}`
  }
})

/** @returns `neededBytes`: space that the file needs in addition */
export const writeFile = verb('transaction', async (query: ContentQuery, file: FileRequest) => {
  const { content: newContent, expiresAtSeconds, nowSeconds, post } = file
  const { cid, byteCount, object } = newContent
  const slotSeconds = post?.bounds.slotSeconds ?? 1
  const endsAt = (Math.floor(nowSeconds / slotSeconds) + 1) * slotSeconds
  // The table contains hashes, so that it does not reveal who posted how much.
  const didHash = post && createHash('sha256').update(post.did).digest('base64url')
  const [isHeld, isUploadClaimed, states, charged] = await Promise.all([
    content.lock(query, cid, 'shared'),
    object?.isUploaded === true && content.claimUpload(query, object.name),
    query(fileStatements.state, [cid]),
    post && query(fileStatements.charge, [didHash, byteCount, endsAt, cid, nowSeconds])
  ])
  const row = states.rows[0] ?? {}
  const state = { row, isHeld, isUploadClaimed, nowSeconds }
  if (row.denied !== null) refuse({ refused: 'ERR_TAKEN_DOWN' })
  const neededBytes = row.expires_at === null ? byteCount + FILE_OVERHEAD_BYTES : 0
  if (post !== undefined) {
    const { bounds, usedBytes } = post
    if (Number(charged?.rows[0]?.byte_count ?? 0) > bounds.maxBytesPerDid)
      refuse({ refused: 'ERR_TOO_MANY_REQUESTS', retryAfterSeconds: endsAt - nowSeconds })
    // An uploaded object may already be counted as garbage.
    const isCounted = neededBytes === 0 || object?.isUploaded === true
    const detail = `${usedBytes} of ${bounds.maxStoreBytes} bytes used by all users, ${neededBytes} needed`
    if (!isCounted && usedBytes + neededBytes > bounds.maxStoreBytes) refuse({ refused: 'ERR_STORAGE_FULL', detail })
  }
  if (object !== undefined && (await content.needsUpload(query, newContent, state))) {
    if (charged?.rowCount === 1) await query(fileStatements.refund, [didHash, byteCount])
    return UPLOAD_NEEDED
  }
  // If there is no node, only content that the ledger already contains gets a pin.
  const isTracked = file.tracksPins || row.pin_state !== null
  const [, , isPinChanged] = await Promise.all([
    content.place(query, newContent, state),
    query(fileStatements.put, [cid, byteCount, expiresAtSeconds]),
    isTracked && content.requestPins(query, [cid], file.tracksPins)
  ])
  return { changedPins: isPinChanged || row.pin_state === 'pin' ? [cid] : [], neededBytes }
})

export const deleteExpiredFiles = verb(
  'transaction',
  async (query: ContentQuery, beforeSeconds: number) => {
    const { rows } = await query(fileStatements.deleteEnded, [beforeSeconds])
    if (rows.length > 0) await content.release(query, rows.map(toContentInfo), beforeSeconds)
    await query(fileStatements.deletePosts, [beforeSeconds])
    return rows.length === DELETED_AT_ONCE
  },
  { freesSpace: true }
)

export const findFile = verb(
  'read',
  async (query: ContentQuery, cid: string, nowSeconds: number): Promise<ReturnType<typeof toFileState> | undefined> => {
    const [row = {}] = (await query(fileStatements.find, [cid, nowSeconds])).rows
    if (row.denied !== null) refuse({ refused: 'ERR_TAKEN_DOWN' })
    return row.expires_at === null ? undefined : toFileState(row)
  }
)

export const storedBytes = verb('read', async (query: ContentQuery) => {
  return Number((await query(fileStatements.sum)).rows[0]?.sum ?? 0)
})

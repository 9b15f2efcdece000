import type { SqlConnection, SqlStatement } from 'express-did-auth/stores/sqlite'
import type { ContentInfo } from '../content-store.js'
import type { ContentRow } from '../object-writer.js'
import { FILE_OVERHEAD_BYTES, hashOfDid, slotEnd, type FileRow, type Post } from '../quota.js'
import type { Refusal } from '../storage-error.js'

const DELETED_AT_ONCE = 100

/** The verbs of the relay's files. They expect the caller's transaction. */
export class FileTable {
  readonly #find: SqlStatement
  readonly #put: SqlStatement
  readonly #ended: SqlStatement
  readonly #delete: SqlStatement
  readonly #resize: SqlStatement
  readonly #stored: SqlStatement
  readonly #count: SqlStatement
  readonly #posted: SqlStatement
  readonly #setPosted: SqlStatement
  readonly #deletePosts: SqlStatement

  constructor(connection: SqlConnection) {
    this.#find = connection.prepare('SELECT * FROM relay_files WHERE cid = ?')
    this.#put = connection.prepare(`INSERT INTO relay_files VALUES (?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET expires_at = max(expires_at, excluded.expires_at)`)
    this.#ended = connection.prepare(
      `SELECT cid FROM relay_files WHERE expires_at <= ? ORDER BY expires_at LIMIT ${DELETED_AT_ONCE}`
    )
    this.#delete = connection.prepare('DELETE FROM relay_files WHERE cid = ? RETURNING byte_count')
    this.#resize = connection.prepare('UPDATE relay_files SET json_byte_count = ? WHERE cid = ?')
    this.#stored = connection.prepare(`SELECT number + (SELECT ifnull(sum(byte_count), 0) FROM owners)
      + (SELECT ifnull(sum(byte_count), 0) FROM garbage) AS number FROM numbers WHERE name = 'fileBytes'`)
    this.#count = connection.prepare("UPDATE numbers SET number = number + ? WHERE name = 'fileBytes'")
    this.#posted = connection.prepare('SELECT byte_count, ends_at FROM posts WHERE did_hash = ?')
    this.#setPosted = connection.prepare('INSERT OR REPLACE INTO posts VALUES (?, ?, ?)')
    this.#deletePosts = connection.prepare('DELETE FROM posts WHERE ends_at <= ?')
  }

  find(cid: string): FileRow | undefined {
    const row = this.#find.get(cid)
    return (
      row && {
        cid: String(row.cid),
        byteCount: Number(row.byte_count),
        jsonByteCount: Number(row.json_byte_count),
        expiresAtSeconds: Number(row.expires_at)
      }
    )
  }

  /** Whether a file may be posted. What is there costs nothing once more. */
  refusalOf({ cid, byteCount, object }: ContentRow, { did, nowSeconds, bounds }: Post): Refusal | undefined {
    const found = this.find(cid)
    if (found !== undefined && found.expiresAtSeconds > nowSeconds) return undefined
    const posted = this.#postedBytes(did, nowSeconds, bounds.slotSeconds)
    if (posted + byteCount > bounds.maxBytesPerDid) {
      const retryAfterSeconds = slotEnd(nowSeconds, bounds.slotSeconds) - nowSeconds
      return { refused: 'ERR_TOO_MANY_REQUESTS', retryAfterSeconds }
    }
    const used = this.storedBytes()
    // What is uploaded is counted already.
    const needed = found === undefined && object?.isUploaded !== true ? byteCount + FILE_OVERHEAD_BYTES : 0
    if (needed === 0 || used + needed <= bounds.maxStoreBytes) return undefined
    const detail = `${used} of ${bounds.maxStoreBytes} bytes in use by all, ${needed} needed`
    return { refused: 'ERR_STORAGE_FULL', detail }
  }

  /** What is stored of all users and files, also objects that are to be deleted. */
  storedBytes(): number {
    return Number(this.#stored.get()?.number ?? 0)
  }

  /** Stores the row of a file, or lets one that is there end later; what is new is counted. */
  write({ cid, byteCount, jsonByteCount }: ContentInfo, { did, nowSeconds, ttlSeconds, bounds }: Post): void {
    const found = this.find(cid)
    this.#put.run(cid, byteCount, jsonByteCount, nowSeconds + ttlSeconds)
    if (found === undefined) this.#count.run(byteCount + FILE_OVERHEAD_BYTES)
    if (found !== undefined && found.expiresAtSeconds > nowSeconds) return
    const posted = this.#postedBytes(did, nowSeconds, bounds.slotSeconds) + byteCount
    this.#setPosted.run(hashOfDid(did), posted, slotEnd(nowSeconds, bounds.slotSeconds))
  }

  /** Deletes some of what ended. @returns their cids, and whether there may be more */
  deleteEnded(beforeSeconds: number): { cids: string[]; mayBeMore: boolean } {
    const cids = this.#ended.all(beforeSeconds).map(({ cid }) => String(cid))
    for (const cid of cids) this.delete(cid)
    this.#deletePosts.run(beforeSeconds)
    return { cids, mayBeMore: cids.length === DELETED_AT_ONCE }
  }

  /** @returns whether it was there */
  delete(cid: string): boolean {
    const row = this.#delete.get(cid)
    if (row !== undefined) this.#count.run(-Number(row.byte_count) - FILE_OVERHEAD_BYTES)
    return row !== undefined
  }

  /** Corrects a file whose length as JSON was not known when it was written. */
  correct({ cid, jsonByteCount }: ContentInfo): void {
    this.#resize.run(jsonByteCount, cid)
  }

  #postedBytes(did: string, nowSeconds: number, slotSeconds: number): number {
    const row = this.#posted.get(hashOfDid(did))
    return row?.ends_at === slotEnd(nowSeconds, slotSeconds) ? Number(row.byte_count) : 0
  }
}

import type { SqlConnection, SqlStatement } from 'express-did-auth/stores/sqlite'
import type { ContentRow } from '../object-writer.js'
import { foundContent, type FoundContent } from '../stored-content.js'

/** The verbs of content, garbage and what is denied. They expect the caller's transaction. */
export class ContentTable {
  readonly #find: SqlStatement
  readonly #insert: SqlStatement
  readonly #delete: SqlStatement
  readonly #isUsed: SqlStatement
  readonly #addGarbage: SqlStatement
  readonly #useUpload: SqlStatement
  readonly #isDenied: SqlStatement

  constructor(connection: SqlConnection) {
    this.#find = connection.prepare('SELECT * FROM contents WHERE cid = ?')
    this.#insert = connection.prepare(`INSERT INTO contents
      (cid, byte_count, json_byte_count, leaf_hashes, object, bytes) VALUES (?, ?, ?, ?, ?, ?)`)
    this.#delete = connection.prepare('DELETE FROM contents WHERE cid = ? RETURNING object, byte_count')
    this.#isUsed = connection.prepare(`SELECT EXISTS (SELECT 1 FROM entries WHERE cid = ?)
      OR EXISTS (SELECT 1 FROM relay_files WHERE cid = ?) AS is_used`)
    this.#addGarbage = connection.prepare(`INSERT INTO garbage VALUES (?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET kind = excluded.kind, since = excluded.since`)
    this.#useUpload = connection.prepare("DELETE FROM garbage WHERE object = ? AND kind = 'upload'")
    this.#isDenied = connection.prepare('SELECT 1 FROM denied WHERE cid = ?')
  }

  isDenied(cid: string): boolean {
    return this.#isDenied.get(cid) !== undefined
  }

  isUsed(cid: string): boolean {
    return this.#isUsed.get(cid, cid)?.is_used === 1
  }

  find(cid: string): FoundContent | undefined {
    const row = this.#find.get(cid)
    return row && foundContent(row)
  }

  /**
   * Stores content that is not there; small content that is there and damaged is repaired.
   *
   * @returns `upload` when its object has to be written first, and nothing else was done
   */
  store(content: ContentRow, nowSeconds: number): 'upload' | 'stored' {
    const found = this.find(content.cid)
    const isDamaged = found?.bytes === undefined && found?.object === undefined
    if (found === undefined || (isDamaged && content.bytes !== undefined)) return this.replace(content, nowSeconds)
    this.discard(content, 'removed', nowSeconds)
    return 'stored'
  }

  /** Stores content, also in the place of what is there under its cid. @returns as `store` */
  replace(content: ContentRow, nowSeconds: number): 'upload' | 'stored' {
    const { cid, byteCount, jsonByteCount, leafHashes, object, bytes } = content
    if (object !== undefined && !this.#isReady(object, byteCount, nowSeconds)) return 'upload'
    this.#drop(cid, nowSeconds)
    // Before Node 24, node:sqlite binds NULL for an empty array that has crossed threads.
    const inRow = bytes?.length === 0 ? Buffer.alloc(0) : (bytes ?? null)
    this.#insert.run(cid, byteCount, jsonByteCount, leafHashes, object?.name ?? null, inRow)
    return 'stored'
  }

  /** An object that was written for content is to be deleted. */
  discard({ object, byteCount }: ContentRow, kind: 'removed' | 'takedown', nowSeconds: number): void {
    if (object?.isUploaded === true) this.#addGarbage.run(object.name, kind, nowSeconds, byteCount)
  }

  /** Deletes content that nothing uses any more. @returns whether nothing uses it */
  dropUnused(cid: string, nowSeconds: number): boolean {
    if (this.isUsed(cid)) return false
    this.#drop(cid, nowSeconds)
    return true
  }

  #drop(cid: string, nowSeconds: number): void {
    const { object, byte_count } = this.#delete.get(cid) ?? {}
    if (typeof object === 'string') this.#addGarbage.run(object, 'removed', nowSeconds, Number(byte_count))
  }

  /**
   * Takes an object into use. One that is not written yet is garbage before it is, and one that a collector was faster to
   * claim is again: it may have looked for the file before that was there.
   */
  #isReady({ name, isUploaded }: NonNullable<ContentRow['object']>, byteCount: number, nowSeconds: number): boolean {
    if (isUploaded && Number(this.#useUpload.run(name).changes) === 1) return true
    this.#addGarbage.run(name, isUploaded ? 'removed' : 'upload', nowSeconds, byteCount)
    return false
  }
}

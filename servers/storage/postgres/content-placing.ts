import { codeOf } from '../../config/startup-error.js'
import type { ContentInfo } from '../content-store.js'
import type { ContentRow, UploadNeeded } from '../object-writer.js'
import type { ContentDatabase, Query, Row } from './content-database.js'

/** Thrown inside of a transaction, which it takes back: the object has to be written first. */
class UploadFirst extends Error {
  readonly kind: 'upload' | 'removed'

  /** @param kind - `removed`: a collector was faster, so this name is not used any more */
  constructor(kind: 'upload' | 'removed') {
    super('an object is needed first')
    this.kind = kind
  }
}

/** Errors of our own constraints, after which a transaction begins once more: a collector or another writer was faster. */
export const REPEAT_ON = ['23503', '23505']

/** The name of content `$1`, as transactions lock it. */
export const CONTENT_NAME = `pg_catalog.hashtextextended('~' || $1::text, 0)`

/** Columns that tell what is there of content `c`; `$1` is its cid and `$2` its leaf hashes. */
export const KNOWN_CONTENT = `(SELECT 1 FROM ~denied d WHERE d.cid = $1) AS denied, c.cid AS known_cid, c.object,
  c.bytes IS NULL OR pg_catalog.octet_length($2::bytea) <> 32 OR pg_catalog.sha256(c.bytes) = $2::bytea AS is_sound`

/** How new content comes into a row, with its object where it needs one: steps of a caller's transaction. */
export class ContentPlacing {
  readonly #database: ContentDatabase
  readonly #lock
  readonly #claimUpload
  readonly #insert
  readonly #repair
  readonly #addGarbage
  readonly #giveUp

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    this.#lock = statement('lock_content', `SELECT pg_catalog.pg_advisory_xact_lock_shared(${CONTENT_NAME})`)
    this.#claimUpload = statement('claim_upload', `DELETE FROM ~garbage WHERE object = $1 AND kind = 'upload'`)
    this.#insert = statement(
      'add_content',
      `INSERT INTO ~contents (cid, byte_count, json_byte_count, leaf_hashes, object, bytes)
       VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`
    )
    this.#repair = statement(
      'repair_row',
      'UPDATE ~contents SET leaf_hashes = $2, bytes = $3 WHERE cid = $1 AND object IS NULL'
    )
    this.#addGarbage = statement(
      'add_garbage',
      `INSERT INTO ~garbage (object, cid, kind, since, byte_count) VALUES ($1, $2, $3, $4, $5)
       ON CONFLICT (object) DO UPDATE SET kind = excluded.kind, since = excluded.since`
    )
    this.#giveUp = statement(
      'give_up_upload',
      `UPDATE ~garbage SET kind = 'removed', since = $2 WHERE object = $1 AND kind = 'upload'`
    )
  }

  /**
   * Runs a transaction that stores content.
   *
   * @param isRepeatable - whether it may run again where its answer was lost
   */
  async run<T>(
    content: ContentRow,
    nowSeconds: number,
    isRepeatable: boolean,
    work: (query: Query) => Promise<T>
  ): Promise<T | UploadNeeded> {
    try {
      return await this.#database.transaction(work, { repeatOn: REPEAT_ON, isRepeatable })
    } catch (error) {
      const { object, cid, byteCount } = content
      const isRefused = object?.isUploaded === true && codeOf(error) !== 'ERR_STORAGE'
      if (object === undefined || !(error instanceof UploadFirst || isRefused)) throw error
      const isTakenDown = codeOf(error) === 'ERR_TAKEN_DOWN'
      if (error instanceof UploadFirst || isTakenDown) {
        const kind = error instanceof UploadFirst ? error.kind : 'takedown'
        const garbage = [object.name, cid, kind, nowSeconds, byteCount]
        await this.#database.query(this.#addGarbage, garbage, { isRepeatable: true })
      } else {
        await this.#database.query(this.#giveUp, [object.name, nowSeconds], { isRepeatable: true })
      }
      if (error instanceof UploadFirst) return { upload: true }
      throw error
    }
  }

  /** First of all: a takedown of this content waits for the transaction, and the transaction for a takedown. */
  async lock(query: Query, { cid }: ContentInfo): Promise<void> {
    await query(this.#lock, [cid])
  }

  /** Whether an object that was written is still its writer's to use; only then is it no garbage any more. */
  async claimUpload(query: Query, { object }: ContentRow): Promise<boolean> {
    if (object?.isUploaded !== true) return false
    return (await query(this.#claimUpload, [object.name])).rowCount === 1
  }

  /**
   * @param known - a row with the columns of `KNOWN_CONTENT`
   * @throws UploadFirst when the object of content that is not there has to be written first
   */
  assertUploaded({ object }: ContentRow, known: Row, isClaimed: boolean): void {
    if (object === undefined || isClaimed || isThere(known)) return
    throw new UploadFirst(object.isUploaded ? 'removed' : 'upload')
  }

  /** Stores content that is not there, and repairs small content that is there and damaged. */
  async place(query: Query, content: ContentRow, known: Row, nowSeconds: number): Promise<void> {
    const { cid, byteCount, jsonByteCount, leafHashes, object, bytes } = content
    // Its own object is in use already when the transaction runs once more because its answer was lost.
    if (object !== undefined && known.object === object.name) return
    if (!isThere(known)) {
      const row = [cid, byteCount, jsonByteCount, leafHashes, object?.name ?? null, bytes ?? null]
      if ((await query(this.#insert, row)).rowCount === 1) return
    } else if (known.is_sound === false && bytes !== undefined) {
      await query(this.#repair, [cid, leafHashes, bytes])
    }
    // Another writer has brought the same content.
    if (object?.isUploaded === true) await query(this.#addGarbage, [object.name, cid, 'removed', nowSeconds, byteCount])
  }
}

function isThere(known: Row): boolean {
  return typeof known.known_cid === 'string'
}

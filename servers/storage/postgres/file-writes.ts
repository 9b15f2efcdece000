import { FILE_OVERHEAD_BYTES, hashOfDid, slotEnd, type FileRow } from '../quota.js'
import type { ContentRow, FileRequest, UploadNeeded } from '../object-writer.js'
import { errorOf } from '../storage-error.js'
import type { ContentDatabase, Query } from './content-database.js'
import { KNOWN_CONTENT, REPEAT_ON, type ContentPlacing } from './content-placing.js'
import { numberOf } from './entry-rows.js'
import { UNUSED, type LooseContents } from './loose-contents.js'
import type { PinChanges } from './pin-changes.js'

const DELETED_AT_ONCE = 100
/** How long the sum of all files is used before it is asked again. */
const SUM_SECONDS = 10

const REPEATABLE = { isRepeatable: true }

/** What the relay's files are built of. */
export interface FileWritesParts {
  readonly database: ContentDatabase
  readonly placing: ContentPlacing
  readonly pins: PinChanges
  readonly loose: LooseContents
  readonly monotonicSeconds: () => number
}

/**
 * The relay's files. What a user posted is counted in the transaction of the post, exactly.
 *
 * The bound of the store is approximate: no row counts all files, which every post would wait for. Each instance adds what
 * it stored to a sum that it reads every 10 s, so several of them may exceed the bound by what they store in that time.
 */
export class FileWrites {
  readonly #parts: FileWritesParts
  readonly #state
  readonly #charge
  readonly #put
  readonly #find
  readonly #sum
  readonly #deleteEnded
  readonly #deletePosts
  #usedBytes = 0
  #isFreshUntil = -Infinity

  constructor(parts: FileWritesParts) {
    this.#parts = parts
    const { statement } = parts.database
    this.#state = statement(
      'file_state',
      `SELECT ${KNOWN_CONTENT}, f.expires_at FROM (SELECT 1) one LEFT JOIN ~files f ON f.cid = $1
       LEFT JOIN ~contents c ON c.cid = $1`
    )
    this.#charge = statement(
      'charge_post',
      `INSERT INTO ~posts AS p (did_hash, byte_count, ends_at)
       SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT 1 FROM ~files WHERE cid = $4 AND expires_at > $5)
       ON CONFLICT (did_hash) DO UPDATE SET ends_at = excluded.ends_at,
         byte_count = excluded.byte_count + CASE WHEN p.ends_at = excluded.ends_at THEN p.byte_count ELSE 0 END
       RETURNING byte_count`
    )
    this.#put = statement(
      'put_file',
      `INSERT INTO ~files AS f (cid, byte_count, json_byte_count, expires_at) VALUES ($1, $2, $3, $4)
       ON CONFLICT (cid) DO UPDATE SET expires_at = greatest(f.expires_at, excluded.expires_at)`
    )
    this.#find = statement(
      'find_file',
      `SELECT f.byte_count, f.json_byte_count, f.expires_at, (SELECT 1 FROM ~denied WHERE cid = $1) AS denied
       FROM (SELECT 1) one LEFT JOIN ~files f ON f.cid = $1 AND f.expires_at > $2`
    )
    this.#sum = statement(
      'stored_bytes',
      `SELECT pg_catalog.sum(byte_count) AS sum FROM (SELECT byte_count FROM ~owners
         UNION ALL SELECT byte_count + ${FILE_OVERHEAD_BYTES} FROM ~files UNION ALL SELECT byte_count FROM ~garbage
         UNION ALL SELECT c.byte_count FROM ~loose JOIN ~contents c USING (cid) WHERE ${UNUSED}) stored`
    )
    this.#deleteEnded = statement(
      'delete_files',
      `DELETE FROM ~files WHERE cid = ANY(ARRAY(SELECT cid FROM ~files WHERE expires_at <= $1
         ORDER BY expires_at LIMIT ${DELETED_AT_ONCE} FOR UPDATE SKIP LOCKED)) AND expires_at <= $1 RETURNING cid`
    )
    this.#deletePosts = statement(
      'delete_posts',
      `DELETE FROM ~posts WHERE did_hash = ANY(ARRAY(SELECT did_hash FROM ~posts WHERE ends_at <= $1
         LIMIT 1000 FOR UPDATE SKIP LOCKED)) AND ends_at <= $1`
    )
  }

  /** @throws ServerError ERR_TAKEN_DOWN, ERR_STORAGE_FULL, ERR_STORAGE; DidAuthError ERR_TOO_MANY_REQUESTS */
  async write({ content, ...post }: FileRequest): Promise<{ isPinOpen: boolean } | UploadNeeded> {
    const { cid, byteCount, jsonByteCount } = content
    const { nowSeconds, ttlSeconds, bounds } = post
    const { placing, pins } = this.#parts
    const used = await this.#used()
    const endsAt = slotEnd(nowSeconds, bounds.slotSeconds)
    const outcome = await placing.run(content, nowSeconds, true, async (query: Query) => {
      const charge = [hashOfDid(post.did), byteCount, endsAt, cid, nowSeconds]
      const [, isClaimed, states, charged] = await Promise.all([
        placing.lock(query, content),
        placing.claimUpload(query, content),
        query(this.#state, [cid, content.leafHashes]),
        query(this.#charge, charge)
      ])
      const known = states.rows[0] ?? {}
      if (known.denied !== null) throw errorOf({ refused: 'ERR_TAKEN_DOWN' })
      if (numberOf(charged.rows[0]?.byte_count ?? 0) > bounds.maxBytesPerDid) {
        throw errorOf({ refused: 'ERR_TOO_MANY_REQUESTS', retryAfterSeconds: endsAt - nowSeconds })
      }
      const needed = known.expires_at === null ? byteCount + FILE_OVERHEAD_BYTES : 0
      // What is uploaded may be counted already.
      if (needed > 0 && content.object?.isUploaded !== true && used + needed > bounds.maxStoreBytes) {
        const detail = `${used} of ${bounds.maxStoreBytes} bytes in use by all, ${needed} needed`
        throw errorOf({ refused: 'ERR_STORAGE_FULL', detail })
      }
      placing.assertUploaded(content, known, isClaimed)
      const [, , isPinOpen] = await Promise.all([
        placing.place(query, content, known, nowSeconds),
        query(this.#put, [cid, byteCount, jsonByteCount, nowSeconds + ttlSeconds]),
        pins.want(query, cid)
      ])
      return { isPinOpen, needed }
    })
    if ('upload' in outcome) return outcome
    this.#usedBytes += outcome.needed
    return { isPinOpen: outcome.isPinOpen }
  }

  /** Stores a file that was posted elsewhere, and counted there. @throws as `write`, save what counts */
  async import(
    content: ContentRow,
    expiresAtSeconds: number,
    nowSeconds: number
  ): Promise<Record<string, never> | UploadNeeded> {
    const { cid, byteCount, jsonByteCount } = content
    const { placing, pins } = this.#parts
    return placing.run(content, nowSeconds, true, async (query) => {
      const [, isClaimed, { rows }] = await Promise.all([
        placing.lock(query, content),
        placing.claimUpload(query, content),
        query(this.#state, [cid, content.leafHashes])
      ])
      const known = rows[0] ?? {}
      if (known.denied !== null) throw errorOf({ refused: 'ERR_TAKEN_DOWN' })
      placing.assertUploaded(content, known, isClaimed)
      await Promise.all([
        placing.place(query, content, known, nowSeconds),
        query(this.#put, [cid, byteCount, jsonByteCount, expiresAtSeconds]),
        pins.want(query, cid)
      ])
      return {}
    })
  }

  /** @throws ServerError ERR_TAKEN_DOWN, ERR_STORAGE */
  async find(cid: string, nowSeconds: number): Promise<FileRow | undefined> {
    const [row = {}] = (await this.#parts.database.query(this.#find, [cid, nowSeconds], REPEATABLE)).rows
    if (row.denied !== null) throw errorOf({ refused: 'ERR_TAKEN_DOWN' })
    if (row.expires_at === null) return undefined
    const [byteCount, jsonByteCount] = [numberOf(row.byte_count), numberOf(row.json_byte_count)]
    return { cid, byteCount, jsonByteCount, expiresAtSeconds: numberOf(row.expires_at) }
  }

  /** Deletes some of what ended. @returns whether there may be more */
  async deleteExpired(beforeSeconds: number): Promise<boolean> {
    const { database, loose } = this.#parts
    const work = async (query: Query): Promise<number> => {
      const { rows } = await query(this.#deleteEnded, [beforeSeconds])
      const cids = rows.map(({ cid }) => String(cid))
      await loose.release(query, cids, beforeSeconds)
      return cids.length
    }
    const deleted = await database.transaction(work, { repeatOn: REPEAT_ON, isRepeatable: true })
    await database.query(this.#deletePosts, [beforeSeconds], REPEATABLE)
    return deleted === DELETED_AT_ONCE
  }

  /** Something was deleted: the sum is asked again. */
  forgetSum(): void {
    this.#isFreshUntil = -Infinity
  }

  /** What is stored of all users and files, also what was let go until it is deleted. */
  async storedBytes(): Promise<number> {
    const { rows } = await this.#parts.database.query(this.#sum, [], REPEATABLE)
    return numberOf(rows[0]?.sum ?? 0)
  }

  async #used(): Promise<number> {
    const now = this.#parts.monotonicSeconds()
    if (now >= this.#isFreshUntil) {
      this.#isFreshUntil = now + SUM_SECONDS
      this.#usedBytes = await this.storedBytes()
    }
    return this.#usedBytes
  }
}

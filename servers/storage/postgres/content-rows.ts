import type { ContentRow, UploadNeeded } from '../object-writer.js'
import { foundContent, type FoundContent } from '../stored-content.js'
import type { ContentDatabase } from './content-database.js'
import type { ContentPlacing } from './content-placing.js'
import { UNUSED } from './loose-contents.js'

/** Content by its cid. */
export class ContentRows {
  readonly #database: ContentDatabase
  readonly #placing: ContentPlacing
  readonly #find
  readonly #used
  readonly #replace

  constructor(database: ContentDatabase, placing: ContentPlacing) {
    this.#database = database
    this.#placing = placing
    const { statement } = database
    this.#find = statement('find_contents', 'SELECT * FROM ~contents WHERE cid = ANY($1)')
    this.#used = statement(
      'used_content',
      `SELECT object FROM ~contents c WHERE cid = $1 AND NOT (${UNUSED}) FOR NO KEY UPDATE`
    )
    this.#replace = statement(
      'replace_content',
      `WITH dropped AS (INSERT INTO ~garbage (object, cid, kind, since, byte_count) SELECT $5, $1, 'removed', $6, $7
         WHERE $5::text IS NOT NULL ON CONFLICT DO NOTHING)
       UPDATE ~contents SET leaf_hashes = $2, object = $3, bytes = $4 WHERE cid = $1`
    )
  }

  /** In the order asked for; undefined where there is none. */
  async find(cids: readonly string[]): Promise<(FoundContent | undefined)[]> {
    const { rows } = await this.#database.query(this.#find, [cids], { isRepeatable: true })
    const found = new Map(rows.map((row) => [row.cid, foundContent(row)]))
    return cids.map((cid) => found.get(cid))
  }

  /** Puts bytes in the place of those that are there, where something has the content. */
  async repair(content: ContentRow, nowSeconds: number): Promise<UploadNeeded | undefined> {
    const { cid, leafHashes, object, bytes } = content
    return this.#placing.run(content, nowSeconds, true, async (query) => {
      await this.#placing.lock(query, content)
      const [used] = (await query(this.#used, [cid])).rows
      // Its own object is in use already when the transaction runs once more because its answer was lost.
      if (used === undefined || (object !== undefined && used.object === object.name)) return undefined
      const isClaimed = await this.#placing.claimUpload(query, content)
      this.#placing.assertUploaded(content, {}, isClaimed)
      const place = [object?.name ?? null, bytes ?? null]
      await query(this.#replace, [cid, leafHashes, ...place, used.object, nowSeconds, content.byteCount])
      return undefined
    })
  }
}

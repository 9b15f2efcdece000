import type { ObjectStore } from '../object-store.js'
import { UPLOAD_SECONDS } from '../object-writer.js'
import type { ContentDatabase } from './content-database.js'

const AT_ONCE = 100

const REPEATABLE = { isRepeatable: true }

/** Deletes objects that are garbage. Several collectors may delete the same, which does no harm. */
export class GarbageCollector {
  readonly #database: ContentDatabase
  readonly #objects: Pick<ObjectStore, 'delete'>
  readonly #condemn
  readonly #find
  readonly #forget

  constructor(database: ContentDatabase, objects: Pick<ObjectStore, 'delete'>) {
    this.#database = database
    this.#objects = objects
    const { statement } = database
    // It cannot be taken into use any more, so that its object may be deleted.
    this.#condemn = statement(
      'condemn_uploads',
      `UPDATE ~garbage SET kind = 'removed' WHERE object = ANY(ARRAY(SELECT object FROM ~garbage
         WHERE kind = 'upload' AND since <= $1 FOR UPDATE SKIP LOCKED))`
    )
    this.#find = statement(
      'find_garbage',
      `SELECT object, kind FROM ~garbage WHERE kind <> 'upload' AND object > $1 ORDER BY object LIMIT ${AT_ONCE}`
    )
    this.#forget = statement('forget_garbage', 'DELETE FROM ~garbage WHERE object = ANY($1)')
  }

  /** @param beforeSeconds - uploads that began an hour before it, and have not ended, are garbage */
  async collect(beforeSeconds: number): Promise<void> {
    if (Number.isFinite(beforeSeconds)) {
      await this.#database.query(this.#condemn, [beforeSeconds - UPLOAD_SECONDS], REPEATABLE)
    }
    for (let after = ''; ;) {
      const { rows } = await this.#database.query(this.#find, [after], REPEATABLE)
      const names = rows.map(({ object }) => String(object))
      for (const { object, kind } of rows) {
        await this.#objects.delete(String(object), { overwrite: kind === 'takedown' })
      }
      if (names.length > 0) await this.#database.query(this.#forget, [names.sort()], REPEATABLE)
      if (names.length < AT_ONCE) return
      after = names.at(-1) ?? ''
    }
  }
}

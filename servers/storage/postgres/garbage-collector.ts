import type { ObjectStore } from '../object-store.js'
import { deleteGarbage, READ_UNTIL, UPLOAD_SECONDS } from '../object-writer.js'
import { storageFailure } from '../storage-error.js'
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
      `SELECT object, kind FROM ~garbage WHERE object > $1 AND (kind = 'takedown' OR (kind = 'removed' AND ${READ_UNTIL} <= $2))
         ORDER BY object LIMIT ${AT_ONCE}`
    )
    this.#forget = statement('forget_garbage', 'DELETE FROM ~garbage WHERE object = ANY($1)')
  }

  /**
   * @param beforeSeconds - uploads that began an hour before it, and have not ended, are garbage
   * @param until - removed objects are deleted whose readers have ended by then
   * @throws the first failure, once all others are deleted
   */
  async collect(beforeSeconds: number, until: number): Promise<void> {
    if (Number.isFinite(beforeSeconds)) {
      await this.#database.query(this.#condemn, [beforeSeconds - UPLOAD_SECONDS], REPEATABLE)
    }
    let failure: unknown
    for (let after = ''; ;) {
      const { rows } = await this.#database.query(this.#find, [after, until], REPEATABLE)
      const garbage = rows.map(({ object, kind }) => ({ object: String(object), overwrite: kind === 'takedown' }))
      const outcome = await deleteGarbage(this.#objects, garbage)
      failure ??= outcome.failure
      if (outcome.deleted.length > 0) await this.#database.query(this.#forget, [outcome.deleted], REPEATABLE)
      if (garbage.length < AT_ONCE) break
      after = garbage.at(-1)?.object ?? ''
    }
    if (failure !== undefined) throw storageFailure(failure)
  }
}

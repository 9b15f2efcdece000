import type { SqliteFile } from './database.js'
import { storageFailure } from './storage-failure.js'

interface Work {
  /** Runs in the transaction, and answers what tells its caller. */
  run: () => () => void
  refuse: (error: unknown) => void
}

/**
 * Commits the writes of one round of the event loop together: the disk is asked once for all of them, and a write is
 * answered only when it is on the disk.
 */
export class GroupCommit {
  readonly #database: SqliteFile
  #waiting: Work[] = []

  constructor(database: SqliteFile) {
    this.#database = database
  }

  /**
   * Runs a write that is there wholly or, when it throws, not at all. It must not wait for anything.
   *
   * @throws ServerError ERR_STORAGE_FULL, DidAuthError ERR_STORE; whatever the write throws
   */
  write<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(this.#commit)
      const run = (): (() => void) => {
        const result = work()
        return () => {
          resolve(result)
        }
      }
      this.#waiting.push({
        run,
        refuse: (error) => {
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what a write threw is passed on
          reject(storageFailure(error))
        }
      })
    })
  }

  readonly #commit = (): void => {
    const works = this.#waiting
    this.#waiting = []
    // better-sqlite3 makes a transaction within another a savepoint.
    const alone = this.#database.transaction((work: Work) => work.run())
    const together = this.#database.transaction(() =>
      works.map((work) => {
        try {
          return alone(work)
        } catch (error) {
          // Some failures, a full disk among them, have ended the whole transaction.
          if (!this.#database.inTransaction) throw error
          return () => {
            work.refuse(error)
          }
        }
      })
    )
    try {
      for (const tell of together.immediate()) tell()
    } catch (error) {
      for (const { refuse } of works) refuse(error)
    }
  }
}

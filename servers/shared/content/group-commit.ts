import type { SqliteFile } from './database.js'
import { storageFailure } from './storage-failure.js'

interface Work {
  /** Runs in the transaction, and answers what tells its caller. */
  run: () => () => void
  refuse: (error: unknown) => void
}

/**
 * Commits the writes of one round of the event loop together: the disk is asked once for all of them, and a write is
 * answered only when it is as safe as the database's own commits.
 */
export class GroupCommit {
  readonly #together: (works: readonly Work[]) => (() => void)[]
  readonly #apart: (works: readonly Work[]) => (() => void)[]
  #waiting: Work[] = []

  constructor(database: SqliteFile) {
    const together = database.transaction((works: readonly Work[]) => works.map(({ run }) => run()))
    // better-sqlite3 makes a transaction within another a savepoint.
    const alone = database.transaction((work: Work) => work.run())
    const apart = database.transaction((works: readonly Work[]) =>
      works.map((work) => {
        try {
          return alone(work)
        } catch (error) {
          // Some failures, a full disk among them, have ended the whole transaction.
          if (!database.inTransaction) throw error
          return () => {
            work.refuse(error)
          }
        }
      })
    )
    this.#together = (works) => together.immediate(works)
    this.#apart = (works) => apart.immediate(works)
  }

  /**
   * Runs a write that is there wholly or, when it throws, not at all. It must not wait for anything, and nothing but the
   * database may change by it: when a write beside it throws, it is run again.
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
    let tell: (() => void)[]
    try {
      tell = this.#carryOut(works)
    } catch (error) {
      for (const { refuse } of works) refuse(error)
      return
    }
    for (const one of tell) one()
  }

  /** Savepoints cost as much as a small write, so they are made only once one of the writes has thrown. */
  #carryOut(works: readonly Work[]): (() => void)[] {
    try {
      return this.#together(works)
    } catch {
      return this.#apart(works)
    }
  }
}

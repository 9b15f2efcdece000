import type { SqliteFile } from './database.js'
import { isBusy, isOfAllStatements, storageFailure } from './storage-failure.js'

interface Work {
  /** Runs in the transaction, and answers what tells its caller. */
  run: () => () => void
  refuse: (error: unknown) => void
  /** By `performance.now()`: from then on it does not wait for another process any more. */
  untilMilliseconds: number
}

/** Carries writes out, and answers what tells their callers. */
type Transaction = (works: readonly Work[]) => (() => void)[]

/** How long a write waits for another process that writes. */
const PATIENCE_MILLISECONDS = 5_000
/** Of that, at one go: nothing else happens in this process meanwhile. */
const BUSY_MILLISECONDS = 20
const PAUSE_MILLISECONDS = 20

/**
 * Commits the writes of one round of the event loop together: the disk is asked once for all of them, and a write is
 * answered only when it is as safe as the database's own commits. While another process writes, they wait for 5 s
 * without holding this one up, and what comes meanwhile waits behind them.
 */
export class GroupCommit {
  readonly #database: SqliteFile
  readonly #busyMilliseconds: number
  readonly #together: Transaction
  readonly #apart: Transaction
  /** A commit is under way to them as long as there are any. */
  #waiting: Work[] = []
  /** Whether the last transaction came past its beginning. */
  #isBegun = false

  constructor(database: SqliteFile) {
    this.#database = database
    this.#busyMilliseconds = Number(database.pragma('busy_timeout', { simple: true }))
    // better-sqlite3 makes a transaction within another a savepoint.
    const alone = database.transaction((work: Work) => work.run())
    this.#together = this.#transaction(({ run }) => run())
    this.#apart = this.#transaction((work) => {
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
        },
        untilMilliseconds: performance.now() + PATIENCE_MILLISECONDS
      })
    })
  }

  readonly #commit = (): void => {
    const works = this.#waiting
    this.#waiting = []
    if (works.length === 0) return
    let tell: ReturnType<Transaction>
    try {
      tell = this.#carryOut(works)
    } catch (error) {
      // What never began has done nothing, and what was begun before it is undone: all of it may be done again.
      if (isBusy(error) && !this.#isBegun) this.#wait(works, error)
      else for (const { refuse } of works) refuse(error)
      return
    }
    for (const one of tell) one()
  }

  /** Savepoints cost as much as a small write, so they are made only once one of the writes has thrown. */
  #carryOut(works: readonly Work[]): ReturnType<Transaction> {
    this.#setBusyTimeout(BUSY_MILLISECONDS)
    try {
      return this.#together(works)
    } catch (error) {
      if (isOfAllStatements(error)) throw error
      return this.#apart(works)
    } finally {
      this.#setBusyTimeout(this.#busyMilliseconds)
    }
  }

  #transaction(carryOut: (work: Work) => () => void): Transaction {
    const transaction = this.#database.transaction((works: readonly Work[]) => {
      this.#isBegun = true
      return works.map(carryOut)
    })
    return (works) => {
      this.#isBegun = false
      return transaction.immediate(works)
    }
  }

  /** Puts those that still may wait before what came meanwhile, so that all are carried out in their order. */
  #wait(works: readonly Work[], error: unknown): void {
    const now = performance.now()
    const patient = works.filter(({ untilMilliseconds }) => untilMilliseconds > now)
    for (const { refuse } of works.slice(0, works.length - patient.length)) refuse(error)
    this.#waiting = [...patient, ...this.#waiting]
    if (patient.length > 0) setTimeout(this.#commit, PAUSE_MILLISECONDS)
  }

  /** What others do with this connection waits as long as before. */
  #setBusyTimeout(milliseconds: number): void {
    this.#database.exec(`PRAGMA busy_timeout = ${milliseconds}`)
  }
}

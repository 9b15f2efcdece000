import { rollBack } from './schema.js'
import { isBusy } from './sqlite-error.js'
import type { SqlConnection, SqlStatement } from './sqlite-engine.js'

/** A verb to be run: its number, its name, its arguments. */
export type Request = readonly [id: number, verb: string, ...args: unknown[]]

/** Verbs on one database. */
export interface Verbs {
  /** Called in a transaction, before the first verb. */
  begin(): void
  run(verb: string, args: readonly unknown[]): unknown
  /** Called after the last verb, before the commit. */
  finish(): void
  /** Drops what is cached of the tables: the transaction was rolled back. */
  reset(): void
}

/** Receives the outcome of each verb. */
export interface Outcomes {
  succeed(id: number, result: unknown): void
  fail(id: number, error: unknown): void
}

interface Waiting {
  readonly request: Request
  /** Milliseconds, by `performance.now`. */
  readonly since: number
}

/** How long a verb waits for another process that writes; below the library's timeout of 5 s for a store. */
const BUSY_MILLISECONDS = 4_000
const PAUSE_MILLISECONDS = 5

/**
 * Runs verbs in groups, each group in one transaction: all verbs that arrived during the last commit. So a hundred logins
 * wait for one sync of the disk and not for a hundred. A verb is acknowledged after its commit, never before.
 *
 * While another process writes, it retries every few milliseconds, and the thread does other work in between.
 */
export class GroupCommit {
  readonly #verbs: Verbs
  readonly #outcomes: Outcomes
  readonly #connection: SqlConnection
  readonly #begin: SqlStatement
  readonly #commit: SqlStatement
  #waiting: Waiting[] = []
  /** How many of the first have to run one by one, because one of them failed and its group was rolled back. */
  #singles = 0
  #timer: NodeJS.Timeout | undefined

  constructor(connection: SqlConnection, verbs: Verbs, outcomes: Outcomes) {
    this.#connection = connection
    this.#verbs = verbs
    this.#outcomes = outcomes
    this.#begin = connection.prepare('BEGIN IMMEDIATE')
    this.#commit = connection.prepare('COMMIT')
  }

  /** @param since - when it was called: milliseconds, by `performance.now` */
  add(request: Request, since: number): void {
    this.#waiting.push({ request, since })
  }

  /** Runs the waiting verbs. @param onCommitted - called after each group whose outcomes are known */
  run(onCommitted: () => void): void {
    clearTimeout(this.#timer)
    while (this.#waiting.length > 0) {
      try {
        this.#begin.run()
      } catch (error) {
        this.#failToBegin(error)
        if (this.#waiting.length > 0) {
          this.#timer = setTimeout(() => {
            this.run(onCommitted)
          }, PAUSE_MILLISECONDS)
        }
        onCommitted()
        return
      }
      this.#runGroup(this.#singles > 0 ? this.#waiting.splice(0, 1) : this.#waiting.splice(0))
      onCommitted()
    }
  }

  /** Runs work of our own in a transaction, if that is possible at once. @returns undefined where it is not */
  attempt<T>(work: () => T): T | undefined {
    try {
      this.#begin.run()
      this.#verbs.begin()
      const result = work()
      this.#commit.run()
      return result
    } catch {
      this.#abandon()
      return undefined
    }
  }

  #runGroup(group: Waiting[]): void {
    this.#singles = Math.max(0, this.#singles - 1)
    const results: unknown[] = []
    try {
      this.#verbs.begin()
      for (const { request } of group) {
        const [, verb, ...args] = request
        results.push(this.#verbs.run(verb, args))
      }
      this.#verbs.finish()
      this.#commit.run()
    } catch (error) {
      this.#abandon()
      if (group.length > 1) {
        this.#waiting = [...group, ...this.#waiting]
        this.#singles = group.length
      } else for (const { request } of group) this.#outcomes.fail(request[0], error)
      return
    }
    group.forEach(({ request }, index) => {
      this.#outcomes.succeed(request[0], results[index])
    })
  }

  #abandon(): void {
    rollBack(this.#connection)
    this.#verbs.reset()
  }

  #failToBegin(error: unknown): void {
    // A transaction that began and was reported not to have would be in the way of the next.
    rollBack(this.#connection)
    const now = performance.now()
    const isOver = ({ since }: Waiting): boolean => !isBusy(error) || now - since >= BUSY_MILLISECONDS
    for (const one of this.#waiting) if (isOver(one)) this.#outcomes.fail(one.request[0], error)
    this.#waiting = this.#waiting.filter((one) => !isOver(one))
    this.#singles = Math.min(this.#singles, this.#waiting.length)
  }
}

import type { MessagePort } from 'node:worker_threads'
import { runVerb, type SqlQuery, type SqlResult, type SqlStatement, type SqlVerbs } from '../sql/query.js'
import { isBusy, rollBack, getSqliteCode, type SqlConnection, type SqlValue } from './sqlite-engine.js'
import { CLOSE, type Batch, type Reply, type Request } from './sqlite-thread.js'

/** Verbs that a thread runs on its database, and hooks around them. */
export interface ServedVerbs {
  readonly verbs: SqlVerbs
  /** Verbs that write nothing: they are answered before the commit of the others, and run in no transaction. */
  readonly reads: ReadonlySet<string>
  /** Called in each transaction, before its first verb. What it throws fails the group. */
  readonly beforeGroup?: () => void
  /** Called with the error of a verb. True: it removed the cause, and a verb that writes is run once more. */
  readonly onFailure?: (verb: string, error: unknown) => boolean
}

/** Serves the verbs of a database in its own thread, in the order in which they arrive, for `SqliteThread`. */
export function serveSqlite(port: MessagePort, connection: SqlConnection, served: ServedVerbs): void {
  // The main thread has already warned that node:sqlite is experimental.
  process.removeAllListeners('warning')
  let replies: Reply[] = []
  let isJson = true
  /** Number of messages posted: each message is answered at once, though its verbs may wait for another process. */
  let posted = 0
  const post = (): void => {
    port.postMessage(isJson ? JSON.stringify(replies) : replies)
    replies = []
    posted += 1
  }
  const flush = (): void => {
    if (replies.length > 0) post()
  }
  const group = new GroupCommit(connection, served, (reply) => replies.push(reply))
  const receive = async ([waitedMilliseconds, ...requests]: Batch): Promise<void> => {
    const since = performance.now() - waitedMilliseconds
    const before = posted
    for (const request of requests) {
      if (served.reads.has(request[1])) await group.read(request)
      else group.add(request, since)
    }
    flush()
    await group.run(flush)
    if (posted === before) post()
  }
  let last = Promise.resolve()
  port.on('message', (message: string | Batch) => {
    if (message === CLOSE) {
      connection.close()
      port.close()
      return
    }
    isJson = typeof message === 'string'
    // A read must not run in the middle of a transaction.
    last = last.then(() => receive(typeof message === 'string' ? (JSON.parse(message) as Batch) : message))
    // A fault of the thread itself ends it, whatever Node does about rejections: the other side starts another.
    last.catch((error: unknown) => {
      setImmediate(() => {
        throw error
      })
    })
  })
}

interface Waiting {
  readonly request: Request
  /** Time of the call: milliseconds, by `performance.now`. */
  readonly since: number
  /** Whether it has failed once already. */
  readonly isRetry?: boolean
}

/** Time for which a verb waits for another process that writes; below the time limit of a store's verb. */
const BUSY_MILLISECONDS = 4_000
const PAUSE_MILLISECONDS = 5

/**
 * Runs verbs in groups, each group in one transaction: all verbs that arrived during the last commit. So a hundred
 * logins wait for one sync of the disk and not for a hundred. A verb is acknowledged after its commit, never before.
 *
 * The verbs of a group run one after another, each in a savepoint: one that throws leaves nothing behind, and the group
 * goes on. While another process writes, it retries every few milliseconds, and the thread does other work in between.
 */
export class GroupCommit {
  readonly #connection: SqlConnection
  readonly #run: RunStatement
  readonly #served: Omit<ServedVerbs, 'reads'>
  readonly #reply: (reply: Reply) => void
  #waiting: Waiting[] = []
  /** How many of the first have to run one by one, because the commit of their group failed. */
  #singles = 0
  #timer: NodeJS.Timeout | undefined
  #isRunning = false

  constructor(connection: SqlConnection, served: Omit<ServedVerbs, 'reads'>, reply: (reply: Reply) => void) {
    this.#connection = connection
    this.#run = createStatementRunner(connection)
    this.#served = served
    this.#reply = reply
  }

  async read([id, name, ...args]: Request): Promise<void> {
    try {
      this.#reply([id, await this.#call(name, args)])
    } catch (error) {
      this.#served.onFailure?.(name, error)
      this.#reply(toFailure(id, error))
    }
  }

  add(request: Request, since: number): void {
    this.#waiting.push({ request, since })
  }

  /** Runs the waiting verbs. @param onCommitted - called after the replies of each group */
  async run(onCommitted: () => void): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    clearTimeout(this.#timer)
    while (this.#waiting.length > 0) {
      try {
        this.#run(BEGIN)
      } catch (error) {
        this.#failToBegin(error)
        if (this.#waiting.length > 0) this.#timer = setTimeout(() => void this.run(onCommitted), PAUSE_MILLISECONDS)
        onCommitted()
        break
      }
      await this.#runGroup(this.#singles > 0 ? this.#waiting.splice(0, 1) : this.#waiting.splice(0))
      onCommitted()
    }
    this.#isRunning = false
  }

  async #runGroup(group: readonly Waiting[]): Promise<void> {
    this.#singles = Math.max(0, this.#singles - 1)
    const replies: (() => void)[] = []
    try {
      this.#served.beforeGroup?.()
      for (const one of group) {
        const [id, name, ...args] = one.request
        this.#run(SAVE)
        try {
          const result = await this.#call(name, args)
          replies.push(() => this.#reply([id, result]))
        } catch (error) {
          // Some failures, such as a full disk, have taken the whole transaction back.
          try {
            this.#run(UNDO)
          } catch {
            throw error
          }
          replies.push(() => this.#fail(one, error))
        }
        this.#run(RELEASE)
      }
      this.#run(COMMIT)
    } catch (error) {
      this.#failGroup(group, error)
      return
    }
    for (const reply of replies) reply()
  }

  /** Handles a lost transaction, as on a full disk: several verbs are tried again one by one. */
  #failGroup(group: readonly Waiting[], error: unknown): void {
    rollBack(this.#connection)
    const [first] = group
    if (first !== undefined && group.length === 1) {
      this.#fail(first, error)
      return
    }
    this.#waiting.unshift(...group)
    this.#singles = group.length
  }

  /** Answers or repeats a failed verb. No transaction is open, so that space can be freed. */
  #fail(one: Waiting, error: unknown): void {
    const [id, name] = one.request
    const isRun = this.#served.onFailure?.(name, error) === true && one.isRetry !== true
    if (isRun) this.#waiting.push({ ...one, isRetry: true })
    else this.#reply(toFailure(id, error))
  }

  async #call(name: string, args: readonly unknown[]): Promise<unknown> {
    // After a failure rolled back the whole transaction, further statements of the verb would be committed separately.
    // PostgreSQL refuses them, and so does this, except for a PRAGMA, which is not part of a transaction.
    // Branches of the verb that still run after its end are refused as well.
    let failure: Error | undefined
    let hasEnded = false
    const query: SqlQuery = async (statement, values = []) => {
      const isRefused = (hasEnded || failure !== undefined) && !statement.text.startsWith('PRAGMA')
      if (isRefused) throw failure ?? new Error(`express-did-auth: the verb ${name} has ended`)
      try {
        return this.#run(statement, values)
      } catch (error) {
        // Both packages throw instances of Error.
        failure ??= error as Error
        throw error
      }
    }
    try {
      return await runVerb(this.#served.verbs, name, query, args)
    } finally {
      hasEnded = true
    }
  }

  #failToBegin(error: unknown): void {
    // A transaction that began and was reported not to have would be in the way of the next.
    rollBack(this.#connection)
    const now = performance.now()
    const isOver = ({ since }: Waiting): boolean => !isBusy(error) || now - since >= BUSY_MILLISECONDS
    for (const one of this.#waiting) if (isOver(one)) this.#reply(toFailure(one.request[0], error))
    this.#waiting = this.#waiting.filter((one) => !isOver(one))
    this.#singles = Math.min(this.#singles, this.#waiting.length)
  }
}

function toFailure(id: number, error: unknown): Reply {
  return [id, null, { message: error instanceof Error ? error.message : String(error), code: getSqliteCode(error) }]
}

const BEGIN = { text: 'BEGIN IMMEDIATE' }
const SAVE = { text: 'SAVEPOINT verb' }
const UNDO = { text: 'ROLLBACK TO verb' }
const RELEASE = { text: 'RELEASE verb' }
const COMMIT = { text: 'COMMIT' }

type RunStatement = (statement: SqlStatement, values?: readonly unknown[]) => SqlResult

/** Runs statements at once. A text says `$1` for a value, as for PostgreSQL; both engines bind values in order. */
function createStatementRunner(connection: SqlConnection): RunStatement {
  const known = new Map<string, (values: readonly unknown[]) => SqlResult>()
  const prepare = (text: string): ((values: readonly unknown[]) => SqlResult) => {
    const places: number[] = []
    const statement = connection.prepare(
      text.replace(/\$(\d+)/g, (_, number: string) => {
        places.push(Number(number) - 1)
        return '?'
      })
    )
    const answersRows = /^\s*(?:SELECT|WITH|PRAGMA)|\bRETURNING\b/.test(text)
    const run = (values: readonly unknown[]): SqlResult => {
      // Verbs pass only values that the columns of their tables can have.
      const bound = places.map((place) => values[place] as SqlValue)
      const rows = answersRows ? statement.all(...bound) : []
      const rowCount = answersRows ? rows.length : Number(statement.run(...bound).changes)
      return { rows, rowCount, isRepeat: false }
    }
    known.set(text, run)
    return run
  }
  return ({ text }, values = []) => (known.get(text) ?? prepare(text))(values)
}

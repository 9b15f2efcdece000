import { statSync } from 'node:fs'
import { parentPort, workerData, type MessagePort } from 'node:worker_threads'
import { limitMilliseconds } from '../../time-limits.js'
import type { SqlQuery, SqlResult, SqlStatement, SqlVerb } from '../sql/query.js'
import type { OpenedFile } from './prepare-tables.js'
import { getSqliteCode, isBusy, isDamaged, isFile, openConnection, rollBack } from './sqlite-engine.js'
import type { ConnectionOptions, EngineName, SqliteConnection, SqliteValue } from './sqlite-engine.js'
import { CLOSE, type Batch, type Reply, type Request, type ThreadRole } from './sqlite-thread.js'

/** Settings of a thread's database, which its worker receives. */
export interface ThreadDatabase extends OpenedFile {
  /** Package that opens the file. */
  readonly engine: EngineName
  /** Whether commits survive a power failure. */
  readonly synchronous: ConnectionOptions['synchronous']
  /** Whether the thread writes or only reads. */
  readonly role: ThreadRole
}

/** Suffixes of the files in WAL mode: the database, the write-ahead log and the index of the log. */
const SUFFIXES = ['', '-wal', '-shm']
/** Time for which a statement may block a thread while another process writes. */
const BUSY_MILLISECONDS = { writer: limitMilliseconds.sqliteStatement, reader: limitMilliseconds.sqliteBusy }

function findInode(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.ino
}

/**
 * Opens the database of a thread. A reader's connection refuses to write.
 *
 * @returns `assertInPlace` throws if an open file was moved or deleted, because the write would go to a file that no
 * later process opens
 * @throws Error with the code SQLITE_READONLY_DBMOVED if the file is not the one that the store has opened
 */
export function openThreadDatabase({ file, engine, synchronous, inode, role }: ThreadDatabase): {
  connection: SqliteConnection
  assertInPlace: () => void
} {
  const assertInode = (path: string, expected: number | undefined): void => {
    if (findInode(path) === expected) return
    throw Object.assign(new Error(`the database is no longer at ${path}`), { code: 'SQLITE_READONLY_DBMOVED' })
  }
  if (isFile(file)) assertInode(file, inode)
  const connection = openConnection(file, engine, { synchronous, busyMilliseconds: BUSY_MILLISECONDS[role] })
  if (!isFile(file)) return { connection, assertInPlace: () => undefined }
  if (role === 'reader') connection.exec('PRAGMA query_only = ON')
  const inodes = SUFFIXES.map((suffix) => [file + suffix, findInode(file + suffix)] as const)
  const assertInPlace = (): void => {
    for (const [path, expected] of inodes) assertInode(path, expected)
  }
  return { connection, assertInPlace }
}

/** Verbs that a thread runs on its database, and hooks. */
export interface ServedVerbs<D> {
  /** Verbs by the names that messages contain. */
  readonly verbs: ReadonlyMap<string, SqlVerb<D>>
  /** Dialect that the verbs get with their queries. */
  readonly dialect: D
  /**
   * Called in each transaction before its first verb. If it throws, all verbs of the group fail. Verbs that only read
   * run without it, so they are not checked.
   */
  readonly beforeGroup?: () => void
  /** Flag that the threads of a database share: 1 once one of them has found damage. Writes are then refused. */
  readonly damage?: Int32Array
  /** Tries to remove the cause of a verb's error. If it returns true, a verb that writes is repeated once. */
  readonly recover?: (verb: SqlVerb<D>, error: unknown) => boolean
}

/**
 * Serves the thread that started this one.
 *
 * @param serve - opens the database of the given settings, and serves a port
 */
export function serveParentThread(serve: (port: MessagePort, settings: never) => void): void {
  if (parentPort === null) throw new Error('express-did-auth: this file is started by a SQLite store')
  // The main thread has already warned that node:sqlite is experimental.
  process.removeAllListeners('warning')
  // The store that started this thread sent the settings of its own type.
  serve(parentPort, workerData as never)
}

/** Runs the verbs that a `SqliteThread` sends by a port, in the order of arrival. */
export function serveSqlite<D>(port: MessagePort, connection: SqliteConnection, served: ServedVerbs<D>): void {
  let replies: Reply[] = []
  let isJson = true
  /** Number of posted messages. Every received message is answered at once, even if its verbs still have to wait. */
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
    const calledAt = performance.now() - waitedMilliseconds
    const postedBefore = posted
    for (const request of requests) {
      const kind = served.verbs.get(request[1])?.kind
      // Reads and work on the whole file are answered before the others commit.
      if (kind === 'read' || kind === 'file') await group.read(request)
      else group.add(request, calledAt)
    }
    flush()
    await group.run(flush)
    if (posted === postedBefore) post()
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
    // A fault of the thread itself must end the thread, whatever Node does about rejections. The caller starts another.
    last.catch((error: unknown) => {
      setImmediate(() => {
        throw error
      })
    })
  })
}

/** A verb that waits for a transaction. */
interface Waiting {
  readonly request: Request
  /** Time of the call, in milliseconds by `performance.now`. */
  readonly calledAt: number
  /** Whether the verb has already failed once. */
  readonly isRetry?: boolean
}

const PAUSE_MILLISECONDS = 5

/**
 * Runs verbs in groups. A group is one transaction with all verbs that arrived during the last commit, so that a
 * hundred logins wait for one disk sync instead of a hundred. A verb is acknowledged only after its commit.
 *
 * The verbs of a group run one after another, each in a savepoint: if one throws, only its own changes are rolled back.
 * While another process writes, the group is retried every 5 ms, and the thread does other work in between.
 */
export class GroupCommit<D> {
  readonly #connection: SqliteConnection
  readonly #run: RunStatement
  readonly #served: ServedVerbs<D>
  readonly #reply: (reply: Reply) => void
  #waiting: Waiting[] = []
  /** Number of verbs, from the front, that run one by one because their group failed. */
  #singles = 0
  #timer: NodeJS.Timeout | undefined
  #isRunning = false

  constructor(connection: SqliteConnection, served: ServedVerbs<D>, reply: (reply: Reply) => void) {
    this.#connection = connection
    this.#run = createStatementRunner(connection)
    this.#served = served
    this.#reply = reply
  }

  async read([id, name, ...args]: Request): Promise<void> {
    try {
      this.#reply([id, await this.#call(name, args)])
    } catch (error) {
      this.#recover(name, error)
      this.#reply(toFailure(id, error))
    }
  }

  add(request: Request, calledAt: number): void {
    this.#waiting.push({ request, calledAt })
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
      if (this.#served.damage?.[0] === 1)
        throw Object.assign(new Error('the database is damaged'), { code: 'SQLITE_CORRUPT' })
      this.#served.beforeGroup?.()
      for (const waiting of group) {
        const [id, name, ...args] = waiting.request
        this.#run(SAVE)
        try {
          const result = await this.#call(name, args)
          replies.push(() => this.#reply([id, result]))
        } catch (error) {
          // Some failures, such as a full disk, have rolled back the whole transaction.
          try {
            this.#run(UNDO)
          } catch {
            throw error
          }
          replies.push(() => this.#fail(waiting, error))
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

  /** Handles a failed transaction, for example on a full disk: the verbs of a larger group are retried one by one. */
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

  /** Answers or repeats a failed verb. No transaction is open, so that `recover` can free disk space. */
  #fail(waiting: Waiting, error: unknown): void {
    const [id, name] = waiting.request
    const isRepeated = this.#recover(name, error) && waiting.isRetry !== true
    if (isRepeated) this.#waiting.push({ ...waiting, isRetry: true })
    else this.#reply(toFailure(id, error))
  }

  #recover(name: string, error: unknown): boolean {
    const { verbs, damage } = this.#served
    if (damage !== undefined && isDamaged(error)) damage[0] = 1
    const verb = verbs.get(name)
    return verb !== undefined && this.#served.recover?.(verb, error) === true
  }

  async #call(name: string, args: readonly unknown[]): Promise<unknown> {
    // If a failure rolls back the whole transaction, further statements of the verb would be committed separately.
    // Refuse them, as PostgreSQL does, except for PRAGMA, which is not part of a transaction. Also refuse statements
    // that a verb sends after its end.
    let failure: Error | undefined
    let hasEnded = false
    const query: SqlQuery = async (statement, values = []) => {
      const isRefused = (hasEnded || failure !== undefined) && !statement.text.startsWith('PRAGMA')
      if (isRefused) throw failure ?? new Error(`express-did-auth: the verb ${name} has ended`)
      try {
        return this.#run(statement, values)
      } catch (error) {
        // Both engines throw instances of Error.
        failure ??= error as Error
        throw error
      }
    }
    try {
      const { verbs, dialect } = this.#served
      const verb = verbs.get(name)
      if (verb === undefined) throw new Error(`express-did-auth: no such verb: ${name}`)
      // The types of the caller's verbs ensure that the arguments match the verb.
      return await verb.run(Object.assign(query, { dialect }), ...(args as never[]))
    } finally {
      hasEnded = true
    }
  }

  #failToBegin(error: unknown): void {
    // If the transaction has begun despite the error, it would block the next one.
    rollBack(this.#connection)
    const now = performance.now()
    const hasFailed = ({ calledAt }: Waiting): boolean =>
      !isBusy(error) || now - calledAt >= limitMilliseconds.sqliteBusy
    for (const waiting of this.#waiting) if (hasFailed(waiting)) this.#reply(toFailure(waiting.request[0], error))
    this.#waiting = this.#waiting.filter((waiting) => !hasFailed(waiting))
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

/**
 * Creates a function that runs statements synchronously. Texts contain `$1` as for PostgreSQL. It is replaced by `?`,
 * because both engines bind values by position.
 */
function createStatementRunner(connection: SqliteConnection): RunStatement {
  const prepared = new Map<string, (values: readonly unknown[]) => SqlResult>()
  const prepare = (text: string): ((values: readonly unknown[]) => SqlResult) => {
    const positions: number[] = []
    const statement = connection.prepare(
      text.replace(/\$(\d+)/g, (_, number: string) => {
        positions.push(Number(number) - 1)
        return '?'
      })
    )
    const answersRows = /^\s*(?:SELECT|WITH|PRAGMA)|\bRETURNING\b/.test(text)
    const run = (values: readonly unknown[]): SqlResult => {
      // Verbs pass only values that the columns of their tables can have.
      const bound = positions.map((position) => values[position] as SqliteValue)
      const rows = answersRows ? statement.all(...bound) : []
      const rowCount = answersRows ? rows.length : Number(statement.run(...bound).changes)
      return { rows, rowCount, isRepeat: false }
    }
    prepared.set(text, run)
    return run
  }
  return ({ text }, values = []) => (prepared.get(text) ?? prepare(text))(values)
}

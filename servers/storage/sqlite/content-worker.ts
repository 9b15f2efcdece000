/** The thread that owns a content store's database: reads at once, writes in groups. */
import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import {
  GroupCommit,
  isDamaged,
  openSqliteConnection,
  sqliteCode,
  type EngineName,
  type Outcomes,
  type Request,
  type SqlConnection,
  type Verbs
} from 'express-did-auth/stores/sqlite'
import { useReserve } from '../disk-space.js'
import { READS, REMOVALS, runVerb, threadVerbs, type ThreadVerbs } from './thread-verbs.js'

/** What the thread is started with. */
export interface ThreadSettings {
  readonly file: string
  readonly engine: EngineName
  readonly synchronous: 'FULL' | 'NORMAL'
  /** Whether new content is to be pinned on a node. */
  readonly tracksPins: boolean
}

/** Verbs, and for how many milliseconds the first of them has waited already. */
type Batch = readonly [waitedMilliseconds: number, ...requests: Request[]]

/** A verb's number with its result, or with what is left of an error. */
type Reply = readonly [id: number, result: unknown, failure?: { readonly message: string; readonly code: string }]

/** How long a statement may hold up the thread while another process writes. */
const BUSY_MILLISECONDS = 20
/** A quota of the disk is told as the second. */
const NO_SPACE: ReadonlySet<string> = new Set(['SQLITE_FULL', 'SQLITE_IOERR_WRITE'])
const MAX_LOG_BYTES = 16_777_216

/** A database and the verbs on it: reads are run at once, what writes in groups. */
class ContentThread implements Verbs, Outcomes {
  readonly #file: string
  readonly #post: (replies: readonly Reply[]) => void
  readonly #connection: SqlConnection
  readonly #verbs: ThreadVerbs
  readonly #writes: GroupCommit
  readonly #inode: number
  /** Removals that were not tried with the reserve yet. */
  readonly #removals = new Map<number, Request>()
  #damage: Error | undefined
  #replies: Reply[] = []
  /** How many were posted. */
  #messages = 0

  constructor({ file, engine, synchronous, tracksPins }: ThreadSettings, post: (replies: readonly Reply[]) => void) {
    this.#file = file
    this.#post = post
    this.#connection = openSqliteConnection(file, engine, { synchronous, busyMilliseconds: BUSY_MILLISECONDS })
    // A large write makes the log of changes long; it gives the disk back once they are in the file.
    this.#connection.exec(`PRAGMA journal_size_limit = ${MAX_LOG_BYTES}; PRAGMA cache_size = -32768`)
    this.#inode = statSync(file).ino
    this.#verbs = threadVerbs(this.#connection, tracksPins)
    this.#writes = new GroupCommit(this.#connection, this, this)
  }

  /** Runs the verbs of a message. */
  receive([waitedMilliseconds, ...requests]: Batch): void {
    const since = performance.now() - waitedMilliseconds
    const messages = this.#messages
    for (const request of requests) {
      const [id, verb] = request
      if (READS.has(verb)) {
        this.#read(request)
        continue
      }
      if (REMOVALS.has(verb)) this.#removals.set(id, request)
      this.#writes.add(request, since)
    }
    this.#flush()
    this.#writes.run(this.#flush)
    // Reads are not to wait while writes wait for another process.
    if (this.#messages === messages) this.#postReplies()
  }

  /** Before the first verb of a transaction: nothing is written to a file that is damaged, or no longer at its path. */
  begin(): void {
    if (this.#damage !== undefined) throw this.#damage
    if (statSync(this.#file, { throwIfNoEntry: false })?.ino === this.#inode) return
    throw Object.assign(new Error(`the database is no longer at ${this.#file}`), { code: 'SQLITE_READONLY_DBMOVED' })
  }

  run(verb: string, args: readonly unknown[]): unknown {
    return runVerb(this.#verbs, verb, args)
  }

  finish(): void {
    // Everything is written already.
  }

  reset(): void {
    // Nothing is known of the tables beside them.
  }

  succeed(id: number, result: unknown): void {
    this.#removals.delete(id)
    this.#replies.push([id, result])
  }

  fail(id: number, error: unknown): void {
    const removal = this.#removals.get(id)
    this.#removals.delete(id)
    if (removal !== undefined && NO_SPACE.has(sqliteCode(error))) {
      this.#useReserve()
      this.#writes.add(removal, performance.now())
      return
    }
    if (isDamaged(error) && error instanceof Error) this.#damage ??= error
    const message = error instanceof Error ? error.message : String(error)
    this.#replies.push([id, null, { message, code: sqliteCode(error) }])
  }

  close(): void {
    this.#connection.close()
  }

  #read([id, verb, ...args]: Request): void {
    try {
      this.succeed(id, this.run(verb, args))
    } catch (error) {
      this.fail(id, error)
    }
  }

  /** Makes space for the log of changes: what is in the file already is written over, and the reserve is free. */
  #useReserve(): void {
    try {
      this.#connection.exec('PRAGMA wal_checkpoint(RESTART)')
    } catch {
      // What cannot be brought into the file stays in the log.
    }
    useReserve(this.#file)
  }

  readonly #flush = (): void => {
    if (this.#replies.length > 0) this.#postReplies()
  }

  #postReplies(): void {
    this.#post(this.#replies)
    this.#replies = []
    this.#messages += 1
  }
}

// That node:sqlite is experimental, the main thread has said already.
process.removeAllListeners('warning')

const port = parentPort
if (port === null) throw new Error('express-did-auth: this file is started by openContentStore')
const thread = new ContentThread(workerData as ThreadSettings, (replies) => {
  port.postMessage(replies)
})
port.on('message', (message: unknown) => {
  if (Array.isArray(message)) {
    thread.receive(message as unknown as Batch)
    return
  }
  thread.close()
  port.close()
})

import { SweepClock } from '../sweep-clock.js'
import { isFile } from './better-sqlite3.js'
import { GroupCommit, type Outcomes, type Request } from './group-commit.js'
import { prepareTables } from './prepare-tables.js'
import { SessionVerbs } from './session-database.js'
import { openConnection, type SqlConnection } from './sqlite-engine.js'
import { sqliteCode } from './sqlite-error.js'
import { Sweeper } from './sweeper.js'
import { parseNowSeconds, parseBatch, type Reply, type WorkerSettings } from './worker-message.js'

/** How long a statement may block the thread while another connection writes. */
const BUSY_MILLISECONDS = 20

const READS = new Set(['findSession', 'listSessions', 'countChallengeUses'])

/** A database and the verbs on it. */
export class StoreWorker implements Outcomes {
  readonly #post: (message: string) => void
  readonly #connection: SqlConnection
  readonly #sessions: SessionVerbs
  readonly #writes: GroupCommit
  readonly #sweeper: Sweeper
  #replies: Reply[] = []
  /** How many were posted: each that comes is answered at once, though its verbs may wait for another process. */
  #messages = 0

  constructor({ file, engine, bounds, sustainedSeconds }: WorkerSettings, post: (message: string) => void) {
    this.#post = post
    const options = { synchronous: 'FULL', busyMilliseconds: BUSY_MILLISECONDS } as const
    const connection = openConnection(file, engine, options)
    if (!isFile(file)) prepareTables(connection)
    const clock = new SweepClock(undefined, sustainedSeconds)
    const sessions = new SessionVerbs(connection, bounds, clock)
    const writes = new GroupCommit(connection, sessions, this)
    this.#connection = connection
    this.#sessions = sessions
    this.#writes = writes
    this.#sweeper = new Sweeper(clock, (sweepSeconds, isFirst) => {
      // Another process may have added and deleted rows.
      if (isFirst) sessions.reset()
      return writes.attempt(() => sessions.sweep(sweepSeconds)) ?? false
    })
  }

  /** Runs the verbs of a message. Reads are answered before the commit. */
  receive(message: string): void {
    const [waitedMilliseconds, ...requests] = parseBatch(message)
    const since = performance.now() - waitedMilliseconds
    const messages = this.#messages
    for (const request of requests) this.#accept(request, since)
    this.#flush()
    this.#writes.run(this.#flush)
    if (this.#messages === messages) this.#postReplies()
    this.#sweeper.run()
  }

  succeed(id: number, result: unknown): void {
    this.#replies.push([id, result])
  }

  fail(id: number, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    this.#replies.push([id, null, { message, code: sqliteCode(error) }])
  }

  close(): void {
    this.#sweeper.stop()
    this.#connection.close()
  }

  #accept(request: Request, since: number): void {
    const [id, verb, ...args] = request
    if (READS.has(verb)) {
      this.#read(id, verb, args)
      return
    }
    this.#sweeper.see(parseNowSeconds(args))
    this.#writes.add(request, since)
  }

  #read(id: number, verb: string, args: readonly unknown[]): void {
    try {
      this.succeed(id, this.#sessions.run(verb, args))
    } catch (error) {
      this.fail(id, error)
    }
  }

  readonly #flush = (): void => {
    if (this.#replies.length > 0) this.#postReplies()
  }

  #postReplies(): void {
    this.#post(JSON.stringify(this.#replies))
    this.#replies = []
    this.#messages += 1
  }
}

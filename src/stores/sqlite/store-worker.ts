import { SweepClock } from '../sweep-clock.js'
import { isFile } from './better-sqlite3.js'
import { GroupCommit, type Outcomes, type Request } from './group-commit.js'
import { prepareTables } from './prepare-tables.js'
import { QuotaCounter } from './quota-counter.js'
import { openQuotaConnection, quotaFile } from './quota-database.js'
import { SessionVerbs } from './session-database.js'
import { openConnection, type SqlConnection } from './sqlite-engine.js'
import { sqliteCode } from './sqlite-error.js'
import { Sweeper } from './sweeper.js'
import { parseNowSeconds, parseBatch, QUOTAS_IN_MEMORY, type Reply, type WorkerSettings } from './worker-message.js'

/** How long a statement may block the thread while another connection writes. */
const BUSY_MILLISECONDS = 20

const READS = new Set(['findSession', 'listSessions', 'findMigratedSessionId', 'countChallengeUses'])

/** A database and the verbs on it. */
export class StoreWorker implements Outcomes {
  readonly #post: (message: string) => void
  readonly #connections: SqlConnection[] = []
  readonly #sessions: SessionVerbs
  readonly #writes: GroupCommit
  readonly #sessionSweeper: Sweeper
  readonly #charges: QuotaCounter | undefined
  readonly #quotaSweeper: Sweeper | undefined
  #replies: Reply[] = []
  #hasTold = false
  /** How many were posted: each that comes is answered at once, though its verbs may wait for another process. */
  #messages = 0

  constructor({ file, engine, role, bounds, sustainedSeconds }: WorkerSettings, post: (message: string) => void) {
    this.#post = post
    const options = { synchronous: 'FULL', busyMilliseconds: BUSY_MILLISECONDS } as const
    const durable = this.#opened(openConnection(file, engine, options))
    if (!isFile(file)) prepareTables(durable)
    const clock = new SweepClock(undefined, sustainedSeconds)
    const sessions = new SessionVerbs(durable, bounds, clock)
    const writes = new GroupCommit(durable, sessions, this)
    this.#sessions = sessions
    this.#writes = writes
    this.#sessionSweeper = new Sweeper(clock, (sweepSeconds, isFirst) => {
      // Another process may have added and deleted rows.
      if (isFirst) sessions.reset()
      return writes.attempt(() => sessions.sweep(sweepSeconds)) ?? false
    })
    if (role === 'durable') return
    const quick = this.#opened(openQuotaConnection(quotaFile(file), engine, BUSY_MILLISECONDS))
    const charges = new QuotaCounter(quick, bounds.maxQuotas, this, this.#tellOnce)
    this.#charges = charges
    this.#quotaSweeper = new Sweeper(clock, (sweepSeconds) => charges.sweep(sweepSeconds))
  }

  /** Runs the verbs of a message. Reads and charges, which never wait for the disk, are answered before the commit. */
  receive(message: string): void {
    const [waitedMilliseconds, ...requests] = parseBatch(message)
    const since = performance.now() - waitedMilliseconds
    const messages = this.#messages
    for (const request of requests) this.#accept(request, since)
    this.#charges?.run(this.#flush)
    this.#flush()
    this.#writes.run(this.#flush)
    if (this.#messages === messages) this.#postReplies()
    this.#sessionSweeper.run()
    this.#quotaSweeper?.run()
  }

  succeed(id: number, result: unknown): void {
    this.#replies.push([id, result])
  }

  fail(id: number, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    this.#replies.push([id, null, { message, code: sqliteCode(error) }])
  }

  close(): void {
    this.#sessionSweeper.stop()
    this.#quotaSweeper?.stop()
    for (const connection of this.#connections) connection.close()
  }

  #accept(request: Request, since: number): void {
    const [id, verb, ...args] = request
    if (READS.has(verb)) {
      this.#read(id, verb, args)
      return
    }
    const isCharge = verb === 'chargeQuota' && this.#charges !== undefined
    const sweeper = isCharge ? this.#quotaSweeper : this.#sessionSweeper
    sweeper?.see(parseNowSeconds(args))
    const group = isCharge ? this.#charges : this.#writes
    group.add(request, since)
  }

  #read(id: number, verb: string, args: readonly unknown[]): void {
    try {
      this.succeed(id, this.#sessions.run(verb, args))
    } catch (error) {
      this.fail(id, error)
    }
  }

  readonly #tellOnce = (): void => {
    if (this.#hasTold) return
    this.#hasTold = true
    this.#post(QUOTAS_IN_MEMORY)
  }

  readonly #flush = (): void => {
    if (this.#replies.length > 0) this.#postReplies()
  }

  #postReplies(): void {
    this.#post(JSON.stringify(this.#replies))
    this.#replies = []
    this.#messages += 1
  }

  #opened(connection: SqlConnection): SqlConnection {
    this.#connections.push(connection)
    return connection
  }
}

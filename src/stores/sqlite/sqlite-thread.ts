import type { Worker } from 'node:worker_threads'
import type { RunVerb, SqlVerb } from '../sql/query.js'

/** Role of a thread. The reader reads while the writer waits for the disk. */
export type ThreadRole = 'writer' | 'reader'

/** A request to run a verb. */
export type Request = readonly [id: number, verb: string, ...args: unknown[]]

/** A message with requests. `waitedMilliseconds`: time that the first of them has already waited. */
export type Batch = readonly [waitedMilliseconds: number, ...requests: Request[]]

/**
 * A thread's reply to a request, with the result, or with those fields of an error that can be sent between threads.
 */
export type Reply = readonly [id: number, result: unknown, failure?: Readonly<Record<'message' | 'code', string>>]

/** Message that makes a thread close its database and end. All other messages are batches. */
export const CLOSE = 'close'

/** Options of a {@link SqliteThread}. */
export interface SqliteThreadOptions {
  /** Starts the thread. Called at once, and again for the next verb after the thread has ended. */
  readonly start: () => Worker
  /** Format of messages: `json` is faster, `clone` is needed for bytes. Default `json`. */
  readonly format?: 'json' | 'clone'
}

/**
 * A handle of a thread that owns a SQLite database, for the thread that calls its verbs.
 *
 * Messages between threads are expensive, so one message contains all verbs of a turn of the event loop. The next
 * message waits for the first reply to the previous one, so that messages contain many verbs under load. If the thread
 * ends, its unanswered verbs are rejected, and the next verb starts a new thread.
 */
export class SqliteThread {
  readonly #options: SqliteThreadOptions
  #worker: Worker | undefined
  #lastId = 0
  /** Requests that have not been sent yet. */
  #batch: Request[] = []
  /** Time of the first call in the batch, in milliseconds by `performance.now`. */
  #batchSince = 0
  readonly #pending = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>()
  /** Whether the last message has not been answered yet. */
  #isAwaiting = false
  #isScheduled = false
  #closing: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor(options: SqliteThreadOptions) {
    this.#options = options
    this.#worker = this.#start()
  }

  /**
   * Runs a verb by its name.
   * @throws Error with the `code` of SQLite, or if the store is closed or its thread has ended
   */
  run(verb: string, args: readonly unknown[]): Promise<unknown> {
    if (this.#closing !== undefined) return Promise.reject(new Error('express-did-auth: the store is closed'))
    return new Promise((resolve, reject) => {
      this.#lastId += 1
      this.#pending.set(this.#lastId, { resolve, reject })
      if (this.#batch.length === 0) this.#batchSince = performance.now()
      this.#batch.push([this.#lastId, verb, ...args])
      this.#schedule()
    })
  }

  /** Closes the database after all accepted verbs have been answered. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    if (this.#pending.size > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    const worker = this.#worker
    if (worker === undefined) return
    await new Promise<void>((resolve) => {
      worker.ref()
      worker.once('exit', () => resolve())
      worker.postMessage(CLOSE)
    })
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isAwaiting) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#send()
    })
  }

  #send(): void {
    if (this.#isAwaiting || this.#batch.length === 0) return
    const message: Batch = [performance.now() - this.#batchSince, ...this.#batch]
    this.#batch = []
    this.#isAwaiting = true
    this.#worker ??= this.#start()
    this.#worker.ref()
    this.#worker.postMessage(this.#options.format === 'clone' ? message : JSON.stringify(message))
  }

  #start(): Worker {
    const worker = this.#options.start()
    let cause: Error | undefined
    worker.on('message', (message: string | Reply[]) =>
      this.#receive(typeof message === 'string' ? (JSON.parse(message) as Reply[]) : message)
    )
    worker.on('error', (error: Error) => (cause = error))
    worker.on('exit', () => {
      if (this.#worker !== worker) return
      this.#worker = undefined
      this.#rejectSent(cause ?? new Error('express-did-auth: the thread of the SQLite store has ended'))
    })
    // An idle store must not keep the process alive.
    worker.unref()
    return worker
  }

  #receive(replies: readonly Reply[]): void {
    this.#isAwaiting = false
    for (const [id, result, failure] of replies) {
      const pending = this.#pending.get(id)
      this.#pending.delete(id)
      if (failure === undefined) pending?.resolve(result ?? undefined)
      else pending?.reject(Object.assign(new Error(failure.message), { code: failure.code }))
    }
    this.#settle()
  }

  #rejectSent(error: Error): void {
    const unsent = new Set(this.#batch.map(([id]) => id))
    for (const [id, pending] of this.#pending) {
      if (unsent.has(id)) continue
      this.#pending.delete(id)
      pending.reject(error)
    }
    this.#isAwaiting = false
    this.#settle()
  }

  #settle(): void {
    if (this.#batch.length > 0) this.#schedule()
    if (this.#pending.size > 0) return
    this.#worker?.unref()
    this.#onIdle?.()
  }
}

/** Options of {@link startSqliteThreads}. */
export interface SqliteThreadsOptions<D> extends Pick<SqliteThreadOptions, 'format'> {
  /** Starts the worker of a role. */
  readonly start: (role: ThreadRole) => Worker
  /** Verbs by the names that the threads know. */
  readonly verbs: ReadonlyMap<string, SqlVerb<D>>
  /** Whether a second thread may read. False for a database in memory, which has only one connection. Default true. */
  readonly hasReader?: boolean
}

/** Duration of a write after which the reader thread is started, so that no later read waits for its start. */
const SLOW_MILLISECONDS = 20

/**
 * Starts the writer thread of a database. The reader thread is started on the first read during a write, or after a
 * slow write. While nothing is written, the writer also reads, because its cache contains the pages that it has
 * written. A read sees every write that was answered before: the answer is sent after the commit, and each read has a
 * new snapshot.
 */
export function startSqliteThreads<D>({ start, format, verbs, hasReader = true }: SqliteThreadsOptions<D>): {
  run: RunVerb<D>
  close: () => Promise<void>
} {
  const startAs = (role: ThreadRole): SqliteThread =>
    new SqliteThread({ start: () => start(role), ...(format !== undefined && { format }) })
  const names = new Map<unknown, string>([...verbs].map(([name, verb]) => [verb, name]))
  const writer = startAs('writer')
  let reader: SqliteThread | undefined
  let [writes, isClosed] = [0, false]
  const write = async (name: string, args: readonly unknown[]): Promise<unknown> => {
    const startedAt = performance.now()
    writes += 1
    try {
      return await writer.run(name, args)
    } finally {
      writes -= 1
      if (performance.now() - startedAt > SLOW_MILLISECONDS && !isClosed && hasReader) reader ??= startAs('reader')
    }
  }
  const run = async (verb: SqlVerb<D>, ...args: readonly unknown[]): Promise<unknown> => {
    const name = names.get(verb) ?? 'undefined'
    if (verb.kind !== 'read' || !hasReader) return write(name, args)
    return (writes === 0 || isClosed ? writer : (reader ??= startAs('reader'))).run(name, args)
  }
  return {
    // A thread returns the result of the verb that has the name.
    run: run as RunVerb<D>,
    close: async () => {
      isClosed = true
      await Promise.all([reader?.close(), writer.close()])
    }
  }
}

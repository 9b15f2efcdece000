import type { Worker } from 'node:worker_threads'
import type { RunVerb } from '../sql/query.js'
import type { ThreadRole } from './thread-database.js'

/** A verb to be run. */
export type Request = readonly [id: number, verb: string, ...args: unknown[]]

/** Verbs, and for how many milliseconds the first of them has waited already. */
export type Batch = readonly [waitedMilliseconds: number, ...requests: Request[]]

/** A thread's answer to a verb; of an error, the fields that can cross threads. */
export type Reply = readonly [id: number, result: unknown, failure?: Readonly<Record<'message' | 'code', string>>]

/** Asks a thread to close its database and end. Other messages are lists of verbs. */
export const CLOSE = 'close'

/** Options for starting a thread, and for its messages. */
export interface SqliteThreadOptions {
  /** Starts the thread: once at once, and again for the next verb after it has ended. */
  readonly start: () => Worker
  /** Format of messages: `json` is cheaper, `clone` is needed for bytes. Default `json`. */
  readonly format?: 'json' | 'clone'
}

/**
 * A thread that owns a database of SQLite, seen from the threads that call its verbs.
 *
 * All verbs that are called in one round of the event loop form one message, and the next message waits for the first
 * reply to the last: messages are what costs, and under load each has many verbs. Verbs that a thread has not answered
 * when it ends are rejected; the next verb starts another.
 */
export class SqliteThread {
  readonly #options: SqliteThreadOptions
  #worker: Worker | undefined
  #lastId = 0
  /** Verbs that are not sent yet. */
  #batch: Request[] = []
  /** Time of the first call among them: milliseconds, by `performance.now`. */
  #batchSince = 0
  readonly #pending = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>()
  /** Whether the thread has a message that it did not answer yet. */
  #isAwaiting = false
  #isScheduled = false
  #closing: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor(options: SqliteThreadOptions) {
    this.#options = options
    this.#worker = this.#start()
  }

  /** Runs a verb. @throws Error with the `code` of SQLite, or when the store is closed or its thread ended */
  readonly run: RunVerb = (verb, args) => {
    if (this.#closing !== undefined) return Promise.reject(new Error('express-did-auth: the store is closed'))
    return new Promise((resolve, reject) => {
      this.#lastId += 1
      this.#pending.set(this.#lastId, { resolve, reject })
      if (this.#batch.length === 0) this.#batchSince = performance.now()
      this.#batch.push([this.#lastId, verb, ...args])
      this.#schedule()
    })
  }

  /** Closes the database once everything that was accepted is answered. */
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
    // An idle store does not keep the process alive.
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

/** Options for starting the threads of a database, and the verbs that each of them runs. */
export interface SqliteThreadsOptions extends Pick<SqliteThreadOptions, 'format'> {
  readonly start: (role: ThreadRole) => Worker
  /** Verbs that run in the thread that reads. Empty for a database in memory, which has one connection. */
  readonly reads: ReadonlySet<string>
}

/** Time of a write from which on the thread that reads is started, before a read has to wait for its start. */
const SLOW_MILLISECONDS = 20

/**
 * Starts the thread of a database, and another one for reads when one is called for the first time while a write waits
 * for the disk. While nothing is written, the first thread reads: its cache has the pages that it wrote. A read that is
 * called after the answer to a write sees it: the answer leaves after the commit, and each read begins a new snapshot.
 */
export function startSqliteThreads({ start, format, reads }: SqliteThreadsOptions): {
  run: RunVerb
  close: () => Promise<void>
} {
  const startAs = (role: ThreadRole): SqliteThread =>
    new SqliteThread({ start: () => start(role), ...(format !== undefined && { format }) })
  const writer = startAs('writer')
  let reader: SqliteThread | undefined
  let [writes, isClosed] = [0, false]
  return {
    run: async (name, args) => {
      if (reads.has(name)) return (writes === 0 || isClosed ? writer : (reader ??= startAs('reader'))).run(name, args)
      const since = performance.now()
      writes += 1
      try {
        return await writer.run(name, args)
      } finally {
        writes -= 1
        if (performance.now() - since > SLOW_MILLISECONDS && !isClosed && reads.size > 0) reader ??= startAs('reader')
      }
    },
    close: async () => {
      isClosed = true
      await Promise.all([reader?.close(), writer.close()])
    }
  }
}

import { EventEmitter } from 'node:events'
import { MessageChannel, Worker } from 'node:worker_threads'
import { basename } from 'node:path'
import type { ThreadDatabase } from '../../../src/stores/sqlite/serve-sqlite.js'
import type { ThreadSettings } from '../../../servers/content/sql/sqlite-verbs.js'

/**
 * Workers of a test, in the order of their start. `role` is `sessions`, for the worker of the library, or `content`.
 */
export const startedWorkers: { role: string; worker: Worker; settings: unknown }[] = []

/** URL of the folder .cache. This file runs as TypeScript, or compiled in a subfolder of .cache. */
const cache = import.meta.url.replace(/(?:[.]cache[/]compiled-[^/]+[/])?test[/]support[/]servers[/][^/]*$/, '.cache/')

/**
 * Whether stores run their verbs in threads, as in production. Child processes of tests always do, slow tests, and the
 * project `threads` of Jest.
 */
let areReal = !import.meta.url.endsWith('.ts') || 'hasSqliteThreads' in globalThis

/**
 * Makes all stores of this test file use threads. By default, stores run their verbs in the thread of the test, because
 * a new thread costs 150 ms of CPU time. Tests that stop a thread or lock the database from outside need threads.
 */
export function useThreads(): void {
  areReal = true
}

/**
 * Replaces `src/stores/sqlite/start-worker.ts` in Jest: starts the output of .config/compile-for-tests.js in a thread,
 * or runs the same code in this thread.
 */
export function startWorker(entry: URL, workerData: unknown): Worker {
  const isLibrary = basename(entry.pathname) === 'worker.js'
  const file = isLibrary ? 'sqlite-worker.mjs' : 'content-worker.mjs'
  const worker = areReal
    ? // Built files do not need the module hooks of a test process.
      new Worker(new URL(file, cache), { workerData, execArgv: [] })
    : // Stores use only this part of a worker.
      (new LocalWorker(isLibrary, workerData) as unknown as Worker)
  startedWorkers.push({ role: isLibrary ? 'sessions' : 'content', worker, settings: workerData })
  return worker
}

/** The part of a {@link Worker} that stores use, on the code of a worker that runs in this thread. */
class LocalWorker extends EventEmitter {
  readonly #port

  constructor(isLibrary: boolean, settings: unknown) {
    super()
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    port1.on('message', (message) => this.emit('message', message))
    port1.on('close', () => this.emit('exit', 0))
    const serve = async (): Promise<void> => {
      if (isLibrary) {
        const { serveSessions } = await import('../../../src/stores/sqlite/serve-sessions.js')
        serveSessions(port2, settings as ThreadDatabase)
      } else {
        const { serveContents } = await import('../../../servers/content/sql/serve-contents.js')
        serveContents(port2, settings as ThreadSettings)
      }
      // A thread of an idle store does not keep the process alive either.
      port2.unref()
    }
    serve().catch((error: unknown) => {
      this.emit('error', error)
      port1.close()
    })
  }

  postMessage(message: unknown): void {
    this.#port.postMessage(message)
  }

  ref(): void {
    this.#port.ref()
  }

  unref(): void {
    this.#port.unref()
  }
}

import { Worker } from 'node:worker_threads'
import { basename } from 'node:path'

/**
 * Workers of a test, in the order of their start. `role` is `sessions`, for the worker of the library, or `content`.
 */
export const startedWorkers: { role: string; worker: Worker; settings: unknown }[] = []

/** URL of the folder .cache. This file runs as TypeScript, or compiled in a subfolder of .cache. */
const cache = import.meta.url.replace(/(?:[.]cache[/]compiled-[^/]+[/])?test[/]support[/]servers[/][^/]*$/, '.cache/')

/** Replaces `src/stores/sqlite/start-worker.ts` in Jest: starts the output of .config/compile-for-tests.js. */
export function startWorker(entry: URL, workerData: unknown): Worker {
  const isLibrary = basename(entry.pathname) === 'worker.js'
  const file = isLibrary ? 'sqlite-worker.mjs' : 'content-worker.mjs'
  // Built files do not need the module hooks of a test process.
  const worker = new Worker(new URL(file, cache), { workerData, execArgv: [] })
  startedWorkers.push({ role: isLibrary ? 'sessions' : 'content', worker, settings: workerData })
  return worker
}

import { Worker } from 'node:worker_threads'
import { basename } from 'node:path'

/** The workers of a test, in the order in which they were started; `role` is that of the library's, or `content`. */
export const startedWorkers: { role: string; worker: Worker; settings: unknown }[] = []

/** This file runs as TypeScript, or compiled within the same folder. */
const cache = import.meta.url.replace(/(?:[.]cache[/]compiled-[^/]+[/])?test[/]support[/]servers[/][^/]*$/, '.cache/')

/** Replaces `src/stores/sqlite/start-worker.ts` in Jest: starts the output of .config/compile-for-tests.js. */
export function startWorker(entry: URL, workerData: unknown): Worker {
  const isLibrary = basename(entry.pathname) === 'worker.js'
  const file = isLibrary ? 'sqlite-worker.mjs' : 'content-worker.mjs'
  // Built files need none of the hooks that a process of a test was started with.
  const worker = new Worker(new URL(file, cache), { workerData, execArgv: [] })
  startedWorkers.push({ role: isLibrary ? 'sessions' : 'content', worker, settings: workerData })
  return worker
}

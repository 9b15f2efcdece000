import { Worker } from 'node:worker_threads'
import { basename } from 'node:path'

/** The workers of stores of a test, in the order in which they were started. */
export const startedWorkers: Worker[] = []

/** This file runs as TypeScript, or compiled within the same folder. */
const cache = import.meta.url.replace(/(?:[.]cache[/]compiled-[^/]+[/])?test[/]support[/][^/]*$/, '.cache/')

/** In the place of `src/stores/sqlite/start-worker.ts` in Jest: starts what .config/compile-for-tests.js made. */
export function startWorker(entry: URL, workerData: unknown): Worker {
  const isLibrary = basename(entry.pathname) === 'worker.js'
  const file = isLibrary ? 'sqlite-worker.mjs' : 'content-worker.mjs'
  // Built files need none of the hooks that a process of a test was started with.
  const worker = new Worker(new URL(file, cache), { workerData, execArgv: [] })
  if (isLibrary) startedWorkers.push(worker)
  return worker
}

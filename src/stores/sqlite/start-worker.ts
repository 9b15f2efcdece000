import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'

/**
 * Starts a thread that owns a database. Alone in this file, so that tests can start one in another way.
 * @param entry - of its built file, `.js`; where the sources themselves run by tsx, the `.ts` beside it is started
 */
export function startWorker(entry: URL, workerData: unknown): Worker {
  if (existsSync(entry)) return new Worker(entry, { workerData })
  // tsx does not reach into threads by itself before Node 22.
  const [tsx, source] = [import.meta.resolve('tsx/esm/api'), entry.href.replace(/js$/, 'ts')]
  const text = `import('${tsx}').then(({ register }) => { register(); return import('${source}') })`
  return new Worker(text, { workerData, eval: true })
}

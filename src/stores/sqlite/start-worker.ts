import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'

/**
 * Starts a thread that owns a database. This function has its own file, so that tests can replace it.
 * @param entry - URL of the built `.js` file. If tsx runs the sources, the `.ts` file next to it is started instead
 */
export function startWorker(entry: URL, workerData: unknown): Worker {
  if (existsSync(entry)) return new Worker(entry, { workerData })
  // Before Node 22, tsx does not register itself in threads.
  const [tsx, source] = [import.meta.resolve('tsx/esm/api'), entry.href.replace(/js$/, 'ts')]
  const text = `import('${tsx}').then(({ register }) => { register(); return import('${source}') })`
  return new Worker(text, { workerData, eval: true })
}

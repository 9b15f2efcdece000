import type { ServerResponse } from 'node:http'
import type { SlowReaders } from './slow-readers.js'

/** How long a client may take to fetch a file: all the while it is in memory, also when it had to go there. */
const PATIENCE_MILLISECONDS = 120_000

/** Sends the whole answer to a GET of a file that is in memory, and cuts off who takes longer than 2 minutes for it. */
export function sendFile(res: ServerResponse, answer: Buffer, slowReaders: SlowReaders): void {
  res.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': answer.length,
    'Cache-Control': 'no-store'
  })
  res.end(answer)
  // What the system has taken all at once is no longer ours. And who is gone already closes no more.
  if (res.destroyed || !res.socket?.writableLength) return
  slowReaders.add(res, answer)
  const timer = setTimeout(() => res.destroy(), PATIENCE_MILLISECONDS).unref()
  res.once('close', () => {
    clearTimeout(timer)
    slowReaders.remove(res, answer)
  })
}

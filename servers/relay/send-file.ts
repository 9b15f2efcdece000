import type { ServerResponse } from 'node:http'

/** How long a client may take to fetch a large file: all the while it is in memory, also when it had to go there. */
const PATIENCE_MILLISECONDS = 120_000
/** What is not longer leaves at once, into the memory of the system. */
const SMALL_BYTES = 65_536

/** Sends the whole answer to a GET of a file, and cuts off who takes longer than 2 minutes for it. */
export function sendFile(res: ServerResponse, answer: Buffer): void {
  res.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': answer.length,
    'Cache-Control': 'no-store'
  })
  res.end(answer)
  // Who is gone already closes no more.
  if (answer.length <= SMALL_BYTES || res.destroyed) return
  const timer = setTimeout(() => res.destroy(), PATIENCE_MILLISECONDS).unref()
  res.once('close', () => {
    clearTimeout(timer)
  })
}

import type { ServerResponse } from 'node:http'
import { limitMilliseconds } from '../config/time-limits.js'
import { MinimumRate } from './limits.js'

type Headers = Readonly<Record<string, string>>

/** Pieces of a response body. */
export type Chunks = AsyncGenerator<Uint8Array, void, undefined>

/** Size of a write in bytes. The transfer rate is measured by complete writes. */
const WRITE_BYTES = 65_536
const JSON_TYPE = { 'Content-Type': 'application/json; charset=utf-8' }

/**
 * Sends a JSON text in chunks, no faster than the client reads them. Only one chunk is in memory. A client below the
 * minimum transfer rate is disconnected. A failure after the first chunk closes the connection, so that the client
 * notices that the text is incomplete.
 *
 * @param headers - headers in addition to Content-Type
 * @throws errors of the source before its first chunk
 */
export async function sendChunks(res: ServerResponse, chunks: Chunks, headers: Headers = {}): Promise<void> {
  try {
    // The first chunk is read also for HEAD, because a source that never started does not close its input.
    let first: IteratorResult<Uint8Array, void> | undefined = await chunks.next()
    if (res.destroyed) return
    res.writeHead(200, { ...JSON_TYPE, ...headers })
    if (res.req.method === 'HEAD') {
      res.end()
      return
    }
    const written = write(res, first, chunks)
    // The first chunk is released, because sending the rest may take minutes.
    first = undefined
    await written
  } catch (error) {
    if (!res.headersSent) throw error
    res.destroy()
  } finally {
    await chunks.return()
  }
}

/**
 * Sends a JSON text in one write, which costs less than a stream. The minimum transfer rate limits the time.
 *
 * @param onEnd - called when the operating system has the whole text, or the client has disconnected
 */
export function sendWhole(res: ServerResponse, json: string | Buffer, headers: Headers, onEnd?: () => void): void {
  const byteCount = Buffer.byteLength(json)
  // Node sends a string together with the headers. A buffer would need a second write.
  res.writeHead(200, { ...JSON_TYPE, 'Content-Length': byteCount, ...headers }).end(json)
  if (res.destroyed || !res.socket?.writableLength) {
    onEnd?.()
    return
  }
  const rate = new MinimumRate(() => res.destroy(), Infinity)
  rate.add(byteCount)
  res.once('close', () => {
    rate.stop()
    onEnd?.()
  })
}

/**
 * Encodes content as a JSON string, with text before and after it. Pieces are UTF-8 and may end within a character.
 * It yields nothing before the first piece is verified.
 */
export async function* encodeJsonString(pieces: AsyncIterable<Uint8Array>, before = '', after = ''): Chunks {
  const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })
  let start = `${before}"`
  for await (const piece of pieces) {
    yield Buffer.from(start + JSON.stringify(utf8.decode(piece, { stream: true })).slice(1, -1))
    start = ''
  }
  yield Buffer.from(`${start}"${after}`)
}

async function write(res: ServerResponse, next: IteratorResult<Uint8Array, void>, chunks: Chunks): Promise<void> {
  const rate = new MinimumRate(() => res.destroy(), limitMilliseconds.downloadPause)
  rate.pause()
  // Only the rate limits the time. A socket also seems idle while the client reads data that the system has buffered.
  res.socket?.setTimeout(0)
  try {
    for (; next.done !== true; next = await chunks.next()) {
      const { value: chunk } = next
      for (let start = 0; start < chunk.length; start += WRITE_BYTES) {
        const part = chunk.subarray(start, start + WRITE_BYTES)
        rate.resume()
        await waitUntilTaken(res, () => res.write(part))
        rate.add(part.length)
        rate.pause()
        if (res.destroyed) return
      }
    }
    rate.resume()
    await waitUntilTaken(res, () => res.end())
  } finally {
    rate.stop()
  }
}

/** Resolves when the operating system has accepted the bytes, or the connection is closed. */
function waitUntilTaken(res: ServerResponse, writeNow: () => unknown): Promise<void> {
  // If `close` was emitted while the next chunk was read, no further event follows.
  if (res.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('finish', done).off('close', done)
      resolve()
    }
    res.on('drain', done).on('finish', done).on('close', done)
    if (writeNow() === true) done()
  })
}

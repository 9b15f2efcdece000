import type { IncomingMessage, ServerResponse } from 'node:http'
import { escapeJson } from './json-string.js'
import { MAX_SENDING_CREDIT_MILLISECONDS, MinimumRate } from './limits.js'

/** JSON text as it is, or content in pieces of UTF-8 that is sent as one JSON string; a piece may end within a character. */
export type JsonPart = string | Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/** An answer in JSON of known length. */
export interface JsonAnswer {
  /** Length of the whole answer. */
  readonly byteCount: number
  readonly parts: Iterable<JsonPart> | AsyncIterable<JsonPart>
}

/** Written at once: a list may have thousands of short parts, and progress is counted by what the client has taken. */
const WRITE_BYTES = 65_536
const QUOTE = Buffer.from('"')

/**
 * Sends an answer no faster than its client reads it; the connection of a client that is slower than the minimum data rate
 * is closed. An answer of any length holds one piece of content in memory. When the client disconnects, no more is read.
 *
 * What fails before the first 64 KiB are there is thrown, and can be answered. Later a failure breaks the connection,
 * because the length was promised.
 *
 * @param headers - beside Content-Type and Content-Length
 * @throws what the source throws, when nothing was sent yet
 * @example
 * const pieces = await content.pieces()
 * await sendContent(req, res, { byteCount: 9 + content.jsonByteCount, parts: ['{"file":', pieces, '}'] })
 */
export async function sendContent(
  req: Pick<IncomingMessage, 'method'>,
  res: ServerResponse,
  { byteCount, parts }: JsonAnswer,
  headers: Readonly<Record<string, string>> = {}
): Promise<void> {
  await sendJson(req, res, { byteCount, chunks: joined(bytesOf(parts)) }, headers)
}

/**
 * Sends a JSON text of known length that comes in chunks, as {@link sendContent} does. What fails before the first chunk is
 * there is thrown.
 */
export async function sendJson(
  req: Pick<IncomingMessage, 'method'>,
  res: ServerResponse,
  { byteCount, chunks }: { readonly byteCount: number; readonly chunks: AsyncGenerator<Uint8Array, void> },
  headers: Readonly<Record<string, string>> = {}
): Promise<void> {
  try {
    let first = req.method === 'HEAD' ? undefined : await chunks.next()
    if (res.destroyed) return
    res.writeHead(200, {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': byteCount,
      ...headers
    })
    if (first === undefined) {
      res.end()
      return
    }
    const written = write(res, byteCount, first, chunks)
    // Not held while the rest is sent, which may take minutes.
    first = undefined
    await written
  } catch (error) {
    if (!res.headersSent) throw error
    res.destroy()
  } finally {
    await chunks.return()
  }
}

async function write(
  res: ServerResponse,
  byteCount: number,
  next: IteratorResult<Uint8Array, void>,
  chunks: AsyncGenerator<Uint8Array, void>
): Promise<void> {
  const rate = new MinimumRate(() => res.destroy(), MAX_SENDING_CREDIT_MILLISECONDS)
  rate.pause()
  // The rate is what ends it: a socket is idle also while the client reads what the system has buffered.
  res.socket?.setTimeout(0)
  try {
    let missingBytes = byteCount
    for (; next.done !== true; next = await chunks.next()) {
      const { value: chunk } = next
      missingBytes -= chunk.length
      // Surplus bytes would be read as another answer.
      if (missingBytes < 0) break
      for (let start = 0; start < chunk.length; start += WRITE_BYTES) {
        if (res.destroyed) return
        const part = chunk.subarray(start, start + WRITE_BYTES)
        rate.resume()
        await taken(res, part, missingBytes === 0 && start + part.length === chunk.length)
        rate.add(part.length)
        rate.pause()
      }
      if (missingBytes === 0 || res.destroyed) return
    }
    res.destroy()
  } finally {
    rate.stop()
  }
}

/** Writes bytes, and resolves when the system has taken them, or the connection is closed. */
function taken(res: ServerResponse, bytes: Uint8Array, isLast: boolean): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('finish', done).off('close', done)
      resolve()
    }
    res.on('close', done)
    if (isLast) res.on('finish', done).end(bytes)
    else if (res.write(bytes)) done()
    else res.on('drain', done)
  })
}

/** Joins what is short. */
async function* joined(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  let held: Uint8Array[] = []
  let heldBytes = 0
  for await (const chunk of chunks) {
    held.push(chunk)
    heldBytes += chunk.length
    if (heldBytes < WRITE_BYTES) continue
    const whole = held.length === 1 ? chunk : Buffer.concat(held)
    held = []
    heldBytes = 0
    yield whole
  }
  if (heldBytes > 0) yield Buffer.concat(held)
}

async function* bytesOf(parts: JsonAnswer['parts']): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const part of parts) {
    if (typeof part === 'string') {
      yield Buffer.from(part)
      continue
    }
    yield QUOTE
    for await (const piece of part) yield escapeJson(piece)
    yield QUOTE
  }
}

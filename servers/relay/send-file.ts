import type { IncomingMessage, ServerResponse } from 'node:http'
import { escapeJson } from '../http/json-escape.js'
import { sendContent } from '../http/send-content.js'
import type { StoredContent } from '../storage/content-store.js'
import type { FileCache, FoundFile } from './file-cache.js'

const OPENING = '{"file":'
const CLOSING = '}'
const HEADERS = { 'Cache-Control': 'no-store' }
const GRACE_MILLISECONDS = 5_000
const MIN_BYTES_PER_SECOND = 4_096

/** The whole answer to a GET. @throws ServerError ERR_CONTENT_MISSING */
export async function encodeAnswer(content: StoredContent): Promise<Buffer> {
  const bytes = await content.bytes()
  return Buffer.concat([Buffer.from(`${OPENING}"`), escapeJson(bytes), Buffer.from(`"${CLOSING}`)])
}

/**
 * Sends a file: from memory where it is there and others do not have too much under way, else as a stream.
 *
 * @throws ServerError ERR_CONTENT_MISSING, ERR_STORAGE when nothing was sent yet
 */
export async function sendFile(
  req: IncomingMessage,
  res: ServerResponse,
  { answer, content }: FoundFile,
  cache: FileCache
): Promise<void> {
  if (answer !== undefined && cache.acquire(answer)) {
    sendAnswer(res, answer, () => {
      cache.release(answer)
    })
    return
  }
  const stored = await content()
  const byteCount = OPENING.length + stored.jsonByteCount + CLOSING.length
  await sendContent(req, res, { byteCount, parts: [OPENING, await stored.pieces(), CLOSING] }, HEADERS)
}

/** In one write, which costs less than a stream. The client has the time for it that the minimum data rate allows. */
function sendAnswer(res: ServerResponse, answer: Buffer, onEnd: () => void): void {
  const headers = { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': answer.length, ...HEADERS }
  res.writeHead(200, headers).end(answer)
  // All of it is with the system, or there is no client any more.
  if (res.destroyed || !res.socket?.writableLength) {
    onEnd()
    return
  }
  const milliseconds = GRACE_MILLISECONDS + (answer.length * 1_000) / MIN_BYTES_PER_SECOND
  const timer = setTimeout(() => res.destroy(), milliseconds).unref()
  res.once('close', () => {
    clearTimeout(timer)
    onEnd()
  })
}

import type { IncomingMessage, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'
import { escapeJson } from '../http/json-string.js'
import { sendContent } from '../http/send-content.js'
import type { StoredContent } from '../storage/content-store.js'

/** What an entry takes beside its answer: measured, rounded up. */
export const ENTRY_BYTES = 512

/** A file as it is sent. */
export interface CachedFile {
  /** The whole answer to a GET. */
  readonly answer: Buffer
  /** When the store was last asked about it, in seconds since the Unix epoch. */
  readonly askedAtSeconds: number
}

/** A file to be sent: from memory where `answer` is there, else as a stream. */
export interface FoundFile {
  readonly answer: Buffer | undefined
  readonly content: () => Promise<StoredContent>
}

/**
 * Answers in process memory, bounded in bytes: the least recently read is evicted first.
 *
 * An answer that is being sent stays in memory until its last reader has it, also when it was evicted. Those are bounded
 * as well, each answer counted once, however many read it.
 */
export class FileCache {
  readonly #maxSentBytes: number
  readonly #files: LRUCache<string, CachedFile>
  /** How many responses send each answer. */
  readonly #sent = new Map<Buffer, number>()
  #sentBytes = 0

  /**
   * @param maxBytes - of the answers, each with {@link ENTRY_BYTES}
   * @param maxSentBytes - of the answers that are being sent
   */
  constructor(maxBytes: number, maxSentBytes: number) {
    this.#maxSentBytes = maxSentBytes
    this.#files = new LRUCache({ maxSize: maxBytes, sizeCalculation: ({ answer }) => answer.length + ENTRY_BYTES })
  }

  get(cid: string): CachedFile | undefined {
    return this.#files.get(cid)
  }

  /** Keeps a file, unless it alone is larger than the cache. */
  set(cid: string, file: CachedFile): void {
    this.#files.set(cid, file)
  }

  delete(cid: string): void {
    this.#files.delete(cid)
  }

  /** Counts a response that sends an answer. False where its bytes are too many beside those of others. */
  acquire(answer: Buffer): boolean {
    const responses = this.#sent.get(answer) ?? 0
    if (responses === 0 && this.#sentBytes + answer.length > this.#maxSentBytes) return false
    if (responses === 0) this.#sentBytes += answer.length
    this.#sent.set(answer, responses + 1)
    return true
  }

  /** Ends what `acquire` began. */
  release(answer: Buffer): void {
    const responses = this.#sent.get(answer) ?? 0
    if (responses > 1) {
      this.#sent.set(answer, responses - 1)
      return
    }
    if (this.#sent.delete(answer)) this.#sentBytes -= answer.length
  }
}

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

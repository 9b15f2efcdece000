import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { type ContentHasher, ContentSink, type HashedContent } from './content-sink.js'
import { JsonTextDecoder } from './json-text.js'
import { ByteBudget, MinimumRate } from './limits.js'
import { ServerError } from './server-error.js'

/** A JSON string may spell each byte of its text as an escape of six characters. */
const MAX_ESCAPED = 6
const ENVELOPE_BYTES = 1_024
const MAX_FILES_PER_OWNER = 8

/** Content that has arrived whole. */
export interface ReceivedContent extends HashedContent {
  /** Length of the content as a JSON string, in bytes, with its quotes. */
  readonly jsonByteCount: number
  /** Its bytes where it has up to 64 KiB, else a file that holds just them. */
  readonly source: Uint8Array | { readonly file: string }
}

export interface BodyReaderOptions {
  /** Names a file for a body that is arriving, in a folder that exists. */
  spool: { newFile(): string }
  newHasher: () => ContentHasher
}

export interface BodyRequest {
  /** The field that holds the text. */
  field: string
  /** Of the text in UTF-8, however it is spelled. */
  maxBytes: number
  /** Canonical DID. */
  owner: string
}

/**
 * Reads content out of JSON bodies `{"<field>":"…"}`. Text is decoded and hashed while it arrives. Up to 64 KiB stay in
 * memory; what is longer goes to a file, at most 8 at once for an owner. So a body needs at most 64 KiB of memory.
 */
export class BodyReader {
  readonly #options: BodyReaderOptions
  readonly #files = new ByteBudget({ maxBytes: Infinity, maxBytesPerOwner: MAX_FILES_PER_OWNER })

  constructor(options: BodyReaderOptions) {
    this.#options = options
  }

  /**
   * Reads content and uses it. Its file is deleted afterwards, unless `use` has moved it.
   *
   * @returns what `use` resolves to
   * @throws ServerError ERR_CONTENT, ERR_CONTENT_TOO_LARGE, ERR_STORAGE_FULL, ERR_STORAGE; DidAuthError ERR_JSON (also when
   * the client disconnects), ERR_BUSY, ERR_REQUEST_TIMEOUT; what `use` throws
   * @example
   * await bodies.read(req, { field: 'content', maxBytes, owner: did }, (content) => store.writeEntry({ content, … }))
   */
  async read<T>(
    req: IncomingMessage,
    { field, maxBytes, owner }: BodyRequest,
    use: (content: ReceivedContent) => Promise<T>
  ): Promise<T> {
    if (!JSON_TYPE.test(req.headers['content-type'] ?? '')) throw new ServerError('ERR_CONTENT')
    const tooLarge = (): ServerError =>
      new ServerError('ERR_CONTENT_TOO_LARGE', { detail: `at most ${maxBytes} bytes` })
    const maxBodyBytes = maxBytes * MAX_ESCAPED + ENVELOPE_BYTES
    let release = (): void => undefined
    const sink = new ContentSink({
      maxBytes,
      expectedBytes: Math.min(maxBytes, announcedBytes(req) ?? maxBytes),
      newHasher: this.#options.newHasher,
      newFile: () => {
        release = this.#files.acquire(1, owner)
        return this.#options.spool.newFile()
      }
    })
    try {
      const decoder = new JsonTextDecoder(field, sink)
      await receiveBody(req, maxBodyBytes, tooLarge, (chunk) => {
        decoder.write(chunk)
        return sink.flush()
      })
      const jsonByteCount = decoder.end()
      if (sink.isTooLarge) throw tooLarge()
      return await use({ ...(await sink.finish()), jsonByteCount })
    } finally {
      await sink.dispose()
      release()
    }
  }
}

/** Content types of JSON, `application/json` and `application/<anything>+json`. */
export const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i

/** The length that a request announces, in bytes; undefined when it does not. */
export function announcedBytes({ headers }: Pick<IncomingMessage, 'headers'>): number | undefined {
  const { 'content-length': length } = headers
  return length === undefined ? undefined : Number(length)
}

/**
 * Receives the body of a request, chunk by chunk and no faster than the chunks are used. It has to keep the minimum data
 * rate. After a refusal the rest is read and dropped: a connection that is closed while its client sends may lose the answer.
 *
 * @param tooLarge - makes the error for a longer body
 * @param use - a promise that it returns is awaited before the next chunk; what it throws refuses the body
 * @throws DidAuthError ERR_JSON when the client disconnects, or the body was read before; ERR_REQUEST_TIMEOUT below the
 * minimum rate; what `tooLarge` makes
 */
export function receiveBody(
  req: IncomingMessage,
  maxBytes: number,
  tooLarge: () => Error,
  use: (chunk: Buffer) => Promise<void> | undefined
): Promise<void> {
  return new Promise((resolve, reject) => {
    let byteCount = 0
    let isOver = false
    /** What `use` is busy with. */
    let inUse: Promise<void> | undefined
    const rate = new MinimumRate(() => {
      refuse(new DidAuthError('ERR_REQUEST_TIMEOUT'))
    })
    const stop = (): void => {
      isOver = true
      rate.stop()
      req.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken)
    }
    const refuse = (error: Error): void => {
      stop()
      // An error that no one listens for would end the process.
      req.on('error', () => undefined).resume()
      const rejectBody = (): void => {
        reject(error)
      }
      // Not before `use` has ended: the caller closes what it writes to.
      if (inUse === undefined) rejectBody()
      else inUse.then(rejectBody, rejectBody)
    }
    const onData = (chunk: Buffer): void => {
      rate.add(chunk.length)
      byteCount += chunk.length
      if (byteCount > maxBytes) {
        refuse(tooLarge())
        return
      }
      try {
        inUse = use(chunk)
      } catch (error) {
        refuse(error as Error)
        return
      }
      if (inUse === undefined) return
      req.pause()
      rate.pause()
      inUse.then(() => {
        inUse = undefined
        if (isOver) return
        rate.resume()
        req.resume()
      }, refuse)
    }
    const onEnd = (): void => {
      stop()
      // Node may tell of the end while it is paused, when the last chunk has been handed over.
      if (inUse === undefined) resolve()
      else inUse.then(resolve, reject)
    }
    const onBroken = (): void => {
      refuse(new DidAuthError('ERR_JSON'))
    }
    if (req.destroyed || req.readableEnded) onBroken()
    else if ((announcedBytes(req) ?? 0) > maxBytes) refuse(tooLarge())
    else req.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  })
}

/** Reads a short body into memory, without copying one that arrives in one piece. As {@link receiveBody}. */
export async function readBytes(req: IncomingMessage, maxBytes: number, tooLarge: () => Error): Promise<Buffer> {
  const expectedBytes = Math.min(announcedBytes(req) ?? maxBytes, maxBytes)
  let only: Buffer | undefined
  let whole: Buffer | undefined
  let byteCount = 0
  await receiveBody(req, maxBytes, tooLarge, (chunk) => {
    if (chunk.length === expectedBytes) only = chunk
    else {
      // Copied, because a client may send bytes one by one, and each chunk costs memory beside its bytes.
      whole ??= Buffer.allocUnsafeSlow(expectedBytes)
      byteCount += chunk.copy(whole, byteCount)
    }
    return undefined
  })
  return only ?? whole?.subarray(0, byteCount) ?? Buffer.alloc(0)
}

import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { JSON_TYPE } from 'express-did-auth/server-kit'
import { type ContentHasher, ContentSink, type ReceivedContent } from './content-sink.js'
import { JsonTextDecoder } from './json-text.js'
import { ByteBudget, MinimumRate } from './limits.js'
import { ServerError } from './server-error.js'

/** A JSON string may spell each byte of its text as an escape of six characters. */
const MAX_ESCAPED = 6
const ENVELOPE_BYTES = 1_024
const MAX_FILES_PER_OWNER = 8

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
   * @throws ServerError ERR_CONTENT, ERR_CONTENT_TOO_LARGE, ERR_STORAGE_FULL, ERR_STORAGE; DidAuthError ERR_JSON (also
   * when the client disconnects), ERR_BUSY, ERR_REQUEST_TIMEOUT; what `use` throws
   * @example
   * await bodies.read(req, { field: 'content', maxBytes, owner: did }, (content) => store.writeEntry({ content, … }))
   */
  async read<T>(
    req: IncomingMessage,
    { field, maxBytes, owner }: BodyRequest,
    use: (content: ReceivedContent) => Promise<T>
  ): Promise<T> {
    if (!JSON_TYPE.test(req.headers['content-type'] ?? '')) throw new ServerError('ERR_CONTENT')
    const tooLarge = (): Error => new ServerError('ERR_CONTENT_TOO_LARGE', { detail: `at most ${maxBytes} bytes` })
    const announcedBytes = Number(req.headers['content-length'] ?? 0)
    const maxBodyBytes = maxBytes * MAX_ESCAPED + ENVELOPE_BYTES
    if (announcedBytes > maxBodyBytes) {
      dropRest(req)
      throw tooLarge()
    }
    let release = (): void => undefined
    const sink = new ContentSink({
      maxBytes,
      expectedBytes: Math.min(maxBytes, announcedBytes || maxBytes),
      newHasher: this.#options.newHasher,
      newFile: () => {
        release = this.#files.acquire(1, owner)
        return this.#options.spool.newFile()
      }
    })
    const decoder = new JsonTextDecoder(field, sink)
    let byteCount = 0
    try {
      await receiveBody(req, (chunk) => {
        byteCount += chunk.length
        if (byteCount > maxBodyBytes) throw tooLarge()
        decoder.write(chunk)
        return sink.flush()
      })
      decoder.end()
      if (sink.isTooLarge) throw tooLarge()
      return await use(await sink.finish())
    } finally {
      await sink.dispose()
      release()
    }
  }
}

/** Reads and drops what is left of a body: a connection that is closed while its client sends may lose the answer. */
function dropRest(req: IncomingMessage): void {
  // An error without a listener would end the process.
  req.on('error', () => undefined).resume()
}

/**
 * Receives the body of a request, chunk by chunk and no faster than the chunks are used. It has to keep the minimum
 * data rate. After a refusal the rest is dropped.
 *
 * @param use - a promise that it returns is awaited before the next chunk; what it throws refuses the body
 * @throws DidAuthError ERR_JSON when the client disconnects, or the body was read before; ERR_REQUEST_TIMEOUT below the
 * minimum rate
 */
function receiveBody(req: IncomingMessage, use: (chunk: Buffer) => Promise<unknown> | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    /** What `use` is busy with. */
    let inUse: Promise<unknown> | undefined
    let isOver = false
    /** Not before `use` has ended: the caller closes what it writes to. */
    const settle = (error?: Error): void => {
      if (isOver) return
      isOver = true
      rate.stop()
      req.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken)
      if (error !== undefined) dropRest(req)
      const end = (failure?: unknown): void => {
        if (error === undefined && failure === undefined) resolve()
        else reject(error ?? (failure as Error))
      }
      void (inUse ?? Promise.resolve()).then(() => end(), end)
    }
    const rate = new MinimumRate(() => settle(new DidAuthError('ERR_REQUEST_TIMEOUT')))
    const onData = (chunk: Buffer): void => {
      rate.add(chunk.length)
      try {
        inUse = use(chunk)
      } catch (error) {
        settle(error as Error)
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
      }, settle)
    }
    const onEnd = (): void => {
      // Node may tell of the end while it is paused, when the last chunk has been handed over.
      settle()
    }
    const onBroken = (): void => settle(new DidAuthError('ERR_JSON'))
    if (req.destroyed || req.readableEnded) onBroken()
    else req.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  })
}

import { open, unlink, type FileHandle } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { JSON_TYPE } from 'express-did-auth/server-kit'
import { ByteBudget, MinimumRate } from './limits.js'
import { ServerError } from '../http/server-error.js'
import type { NewContent } from '../storage/content-store.js'
import type { Spool } from '../storage/files.js'
import { toStorageError } from '../storage/storage-error.js'
import { LeafHasher } from '../storage/unixfs-blocks.js'
import { JsonTextDecoder, type TextSink } from './json-text.js'

/** Maximum number of characters in a JSON string for a byte of content: an escape has six characters. */
const MAX_ESCAPED = 6
const ENVELOPE_BYTES = 1_024
const MAX_FILES_PER_OWNER = 8
/** Maximum size in bytes of content in memory. Longer content is written to a file in buffers of this size. */
const BUFFER_BYTES = 65_536

export interface BodyRequest {
  field: string
  /** Maximum size of the decoded text in bytes of UTF-8. */
  maxBytes: number
  /** Canonical DID. */
  owner: string
}

/**
 * Reads content from JSON bodies `{"<field>":"…"}`. Text is decoded and hashed while it arrives. Up to 64 KiB stay in
 * memory; longer content is written to a file. An owner has at most 8 files at the same time.
 */
export class BodyReader {
  readonly #spool: Pick<Spool, 'newFile'>
  readonly #files = new ByteBudget({ maxBytes: Infinity, maxBytesPerOwner: MAX_FILES_PER_OWNER })

  constructor(spool: Pick<Spool, 'newFile'>) {
    this.#spool = spool
  }

  /**
   * Reads content and passes it to `use`. Its file is deleted afterwards, unless `use` has moved it.
   *
   * @throws ServerError ERR_CONTENT, ERR_CONTENT_TOO_LARGE, ERR_STORAGE_FULL, ERR_STORAGE; DidAuthError ERR_JSON (also
   * when the client disconnects), ERR_BUSY, ERR_REQUEST_TIMEOUT; errors of `use`
   */
  async read<T>(
    req: IncomingMessage,
    { field, maxBytes, owner }: BodyRequest,
    use: (content: NewContent) => Promise<T>
  ): Promise<T> {
    if (!JSON_TYPE.test(req.headers['content-type'] ?? '')) throw new ServerError('ERR_CONTENT')
    const tooLarge = (): Error => new ServerError('ERR_CONTENT_TOO_LARGE', { detail: `at most ${maxBytes} bytes` })
    const announcedBytes = Number(req.headers['content-length'] ?? 0)
    const maxBodyBytes = maxBytes * MAX_ESCAPED + ENVELOPE_BYTES
    if (announcedBytes > maxBodyBytes) {
      discardRest(req)
      throw tooLarge()
    }
    let release = (): void => undefined
    const sink = new ContentSink({
      maxBytes,
      expectedBytes: Math.min(maxBytes, announcedBytes || maxBytes),
      newFile: () => {
        release = this.#files.acquire(1, owner)
        return this.#spool.newFile()
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

/** Discards the rest of a body. Closing the connection while the client sends could destroy the response. */
function discardRest(req: IncomingMessage): void {
  // An error without a listener would end the process.
  req.on('error', () => undefined).resume()
}

/**
 * Receives the body of a request in chunks, no faster than `use` processes them. After an error the rest of the body is
 * discarded.
 *
 * @param use - processes a chunk; the next chunk waits for its promise, and its error refuses the body
 * @throws DidAuthError ERR_JSON for an incomplete body, or one that was read before; ERR_REQUEST_TIMEOUT for a slow one
 */
function receiveBody(req: IncomingMessage, use: (chunk: Buffer) => Promise<unknown> | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    let pendingUse: Promise<unknown> | undefined
    let isSettled = false
    /** Settles the promise, but only after `use` has ended: the caller then closes the file to which `use` writes. */
    const settle = (error?: Error): void => {
      if (isSettled) return
      isSettled = true
      rate.stop()
      req.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken)
      if (error !== undefined) discardRest(req)
      const end = (failure?: unknown): void => {
        if (error === undefined && failure === undefined) resolve()
        else reject(error ?? (failure as Error))
      }
      void (pendingUse ?? Promise.resolve()).then(() => end(), end)
    }
    const rate = new MinimumRate(() => settle(new DidAuthError('ERR_REQUEST_TIMEOUT')))
    const onData = (chunk: Buffer): void => {
      rate.add(chunk.length)
      try {
        pendingUse = use(chunk)
      } catch (error) {
        settle(error as Error)
        return
      }
      if (pendingUse === undefined) return
      req.pause()
      rate.pause()
      pendingUse.then(() => {
        pendingUse = undefined
        if (isSettled) return
        rate.resume()
        req.resume()
      }, settle)
    }
    // The event `end` may be emitted while the request is paused after its last chunk.
    const onEnd = (): void => settle()
    const onBroken = (): void => settle(new DidAuthError('ERR_JSON'))
    if (req.destroyed || req.readableEnded) onBroken()
    else req.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  })
}

interface ContentSinkOptions {
  maxBytes: number
  /** Maximum length according to `Content-Length`, which may be less than `maxBytes`. */
  expectedBytes: number
  /** Returns the name of a new file. @throws DidAuthError ERR_BUSY if the owner has too many files */
  newFile: () => string
}

class ContentSink implements TextSink {
  readonly #options: ContentSinkOptions
  readonly #bufferBytes: number
  #hasher = new LeafHasher()
  #byteCount = 0
  #buffer: Buffer | undefined
  #usedBytes = 0
  /** Full buffers that are not written yet. */
  #fullBuffers: Buffer[] = []
  #file: { name: string; handle: FileHandle } | undefined
  /** Whether the file is empty or contains bytes of an earlier value of the field. */
  #isFileStale = true

  constructor(options: ContentSinkOptions) {
    this.#options = options
    this.#bufferBytes = Math.min(BUFFER_BYTES, options.expectedBytes)
  }

  /** Whether the content is larger than `maxBytes`. The rest of it is then discarded. */
  get isTooLarge(): boolean {
    return this.#byteCount > this.#options.maxBytes
  }

  /** Copies the bytes into buffers, because a client may send single bytes, and each chunk costs additional memory. */
  write(bytes: Uint8Array): void {
    this.#byteCount += bytes.length
    if (this.isTooLarge) return
    for (let start = 0; start < bytes.length;) {
      if (this.#buffer !== undefined && this.#usedBytes === this.#bufferBytes) {
        this.#fullBuffers.push(this.#buffer)
        this.#buffer = undefined
        this.#usedBytes = 0
      }
      this.#buffer ??= Buffer.allocUnsafeSlow(this.#bufferBytes)
      const part = bytes.subarray(start, start + this.#bufferBytes - this.#usedBytes)
      this.#buffer.set(part, this.#usedBytes)
      this.#usedBytes += part.length
      start += part.length
    }
  }

  restart(): void {
    this.#hasher = new LeafHasher()
    this.#byteCount = 0
    this.#usedBytes = 0
    this.#fullBuffers = []
    this.#isFileStale = true
  }

  /** Writes full buffers. Do not write meanwhile. @throws ServerError ERR_STORAGE_FULL, ERR_STORAGE; as `newFile` */
  flush(): Promise<unknown> | undefined {
    return this.#fullBuffers.length === 0 ? undefined : this.#write()
  }

  /** Returns the content. Call it once, at the end. @throws as {@link flush} */
  async finish(): Promise<NewContent> {
    const lastBytes = this.#buffer?.subarray(0, this.#usedBytes) ?? Buffer.alloc(0)
    if (this.#fullBuffers.length === 0 && this.#isFileStale) {
      this.#hasher.update(lastBytes)
      return { ...this.#hasher.finish(), source: lastBytes }
    }
    this.#fullBuffers.push(lastBytes)
    const { name, handle } = await this.#write()
    await handle.close().catch(throwStorageError)
    return { ...this.#hasher.finish(), source: { file: name } }
  }

  async dispose(): Promise<void> {
    if (this.#file === undefined) return
    const { name, handle } = this.#file
    // `finish` has closed the file already, unless the body was refused.
    await handle.close().catch(() => undefined)
    await unlink(name).catch(() => undefined)
  }

  async #write(): Promise<{ name: string; handle: FileHandle }> {
    const fullBuffers = this.#fullBuffers
    this.#fullBuffers = []
    for (const buffer of fullBuffers) this.#hasher.update(buffer)
    try {
      if (this.#file === undefined) {
        const name = this.#options.newFile()
        this.#file = { name, handle: await open(name, 'ax', 0o600) }
      } else if (this.#isFileStale) await this.#file.handle.truncate()
      this.#isFileStale = false
      for (const buffer of fullBuffers) await this.#file.handle.appendFile(buffer)
      return this.#file
    } catch (error) {
      return throwStorageError(error)
    }
  }
}

function throwStorageError(error: unknown): never {
  throw toStorageError(error)
}

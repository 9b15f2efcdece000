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

/** Maximum number of characters for a byte of content, since a JSON string may escape each. */
const MAX_ESCAPED = 6
const ENVELOPE_BYTES = 1_024
const MAX_FILES_PER_OWNER = 8
/** Maximum size of content in memory. Longer content is written to a file in buffers of this size. */
const BUFFER_BYTES = 65_536

export interface BodyRequest {
  field: string
  /** Maximum size of the decoded text in UTF-8. */
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
   * Reads content and uses it. Its file is deleted afterwards, unless `use` has moved it.
   *
   * @throws ServerError ERR_CONTENT, ERR_CONTENT_TOO_LARGE, ERR_STORAGE_FULL, ERR_STORAGE; DidAuthError ERR_JSON (also
   * when the client disconnects), ERR_BUSY, ERR_REQUEST_TIMEOUT; what `use` throws
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
      dropRest(req)
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

/** Drops the rest of a body. If the connection were closed while the client sends, the response could be lost. */
function dropRest(req: IncomingMessage): void {
  // An error without a listener would end the process.
  req.on('error', () => undefined).resume()
}

/**
 * Receives the body of a request, chunk by chunk and no faster than the chunks are used. After a refusal the rest is
 * dropped.
 *
 * @param use - a promise that it returns is awaited before the next chunk; what it throws refuses the body
 * @throws DidAuthError ERR_JSON for a body that is not whole, or was read before; ERR_REQUEST_TIMEOUT for a slow one
 */
function receiveBody(req: IncomingMessage, use: (chunk: Buffer) => Promise<unknown> | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    let inUse: Promise<unknown> | undefined
    let isOver = false
    /** Settles the promise after `use` has ended, because the caller then closes the file to which `use` writes. */
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
    // The end may arrive while the request is paused after its last chunk.
    const onEnd = (): void => settle()
    const onBroken = (): void => settle(new DidAuthError('ERR_JSON'))
    if (req.destroyed || req.readableEnded) onBroken()
    else req.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  })
}

interface ContentSinkOptions {
  maxBytes: number
  /** Content cannot be longer than this, also when `maxBytes` is more. */
  expectedBytes: number
  /** Returns the name of a new file, if one is needed. @throws DidAuthError ERR_BUSY if the owner has too many */
  newFile: () => string
}

class ContentSink implements TextSink {
  readonly #options: ContentSinkOptions
  readonly #bufferBytes: number
  #hasher = new LeafHasher()
  #byteCount = 0
  #buffer: Buffer | undefined
  #usedBytes = 0
  /** Full buffers that are not yet written. */
  #full: Buffer[] = []
  #file: { name: string; handle: FileHandle } | undefined
  /** Whether the file's bytes do not belong to this content. */
  #isFileStale = true

  constructor(options: ContentSinkOptions) {
    this.#options = options
    this.#bufferBytes = Math.min(BUFFER_BYTES, options.expectedBytes)
  }

  /** Whether the content is larger than `maxBytes`. The rest of it is then dropped. */
  get isTooLarge(): boolean {
    return this.#byteCount > this.#options.maxBytes
  }

  /** Copies the bytes into buffers. A client may send them one by one, and each chunk needs additional memory. */
  write(bytes: Uint8Array): void {
    this.#byteCount += bytes.length
    if (this.isTooLarge) return
    for (let start = 0; start < bytes.length;) {
      if (this.#buffer !== undefined && this.#usedBytes === this.#bufferBytes) {
        this.#full.push(this.#buffer)
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
    this.#full = []
    this.#isFileStale = true
  }

  /** Writes full buffers. Add nothing meanwhile. @throws ServerError ERR_STORAGE_FULL, ERR_STORAGE; as `newFile` */
  flush(): Promise<unknown> | undefined {
    return this.#full.length === 0 ? undefined : this.#write()
  }

  /** Returns the content. Call it once, at the end. @throws as {@link flush} */
  async finish(): Promise<NewContent> {
    const rest = this.#buffer?.subarray(0, this.#usedBytes) ?? Buffer.alloc(0)
    if (this.#full.length === 0 && this.#isFileStale) {
      this.#hasher.update(rest)
      return { ...this.#hasher.finish(), source: rest }
    }
    this.#full.push(rest)
    const { name, handle } = await this.#write()
    await handle.close().catch(refuseSpool)
    return { ...this.#hasher.finish(), source: { file: name } }
  }

  async dispose(): Promise<void> {
    if (this.#file === undefined) return
    const { name, handle } = this.#file
    // The file is already closed if the content was used.
    await handle.close().catch(() => undefined)
    await unlink(name).catch(() => undefined)
  }

  async #write(): Promise<{ name: string; handle: FileHandle }> {
    const full = this.#full
    this.#full = []
    for (const buffer of full) this.#hasher.update(buffer)
    try {
      if (this.#file === undefined) {
        const name = this.#options.newFile()
        this.#file = { name, handle: await open(name, 'ax', 0o600) }
      } else if (this.#isFileStale) await this.#file.handle.truncate()
      this.#isFileStale = false
      for (const buffer of full) await this.#file.handle.appendFile(buffer)
      return this.#file
    } catch (error) {
      return refuseSpool(error)
    }
  }
}

function refuseSpool(error: unknown): never {
  throw toStorageError(error)
}

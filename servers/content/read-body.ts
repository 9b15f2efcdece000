import { open, unlink, type FileHandle } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { JSON_TYPE } from 'express-did-auth/server-kit'
import { ByteBudget, discardRest, receiveBody } from './limits.js'
import { ServerError } from '../http/server-error.js'
import type { NewContent } from './content-store.js'
import type { Spool } from './files.js'
import { toStorageError } from './storage-error.js'
import { createNewContent, LeafHasher } from './unixfs-blocks.js'
import { JsonTextDecoder, type DecodedText } from './json-text.js'

/** Maximum number of characters in a JSON string for a byte of content: an escape has six characters. */
const MAX_ESCAPED = 6
const ENVELOPE_BYTES = 1_024
const MAX_FILES_PER_OWNER = 8
/** Maximum size in bytes of content that is passed on in memory. Longer content is written to a file. */
const MAX_MEMORY_BYTES = 65_536
/** Size of a reused buffer. A body of 1 MiB needs 6 writes; with 64 KiB it would need 16. */
const REUSED_BYTES = 262_144
/** Maximum number of reused buffers: 8 MiB. Other bodies have buffers of their own, of 64 to 128 KiB. */
const MAX_REUSED = 32
/** Size of the largest chunk that Node reads from a socket. A longer one would only enlarge the buffer. */
const MAX_CHUNK_BYTES = 65_536

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
  readonly #buffers = new BufferPool()

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
    let buffer: Buffer | undefined
    const expectedBytes = Math.min(maxBytes, announcedBytes || maxBytes)
    const sink = new ContentSink({
      maxBytes,
      newBuffer: () => (buffer = this.#buffers.take(expectedBytes)),
      newFile: () => {
        release = this.#files.acquire(1, owner)
        return this.#spool.newFile()
      }
    })
    const decoder = new JsonTextDecoder(field)
    let byteCount = 0
    try {
      await receiveBody(req, (chunk) => {
        byteCount += chunk.length
        if (byteCount > maxBodyBytes) throw tooLarge()
        sink.add(decoder.write(chunk))
        return sink.flush()
      })
      decoder.end()
      if (sink.isTooLarge) throw tooLarge()
      return await use(await sink.finish())
    } finally {
      await sink.dispose()
      this.#buffers.giveBack(buffer)
      release()
    }
  }
}

/** Buffers for long bodies. They are reused, because new ones cause a fifth of the CPU time in garbage collections. */
class BufferPool {
  readonly #unused: Buffer[] = []
  #count = 0

  /** Returns a buffer that may be shorter than expected. */
  take(expectedBytes: number): Buffer {
    if (expectedBytes <= MAX_MEMORY_BYTES) return Buffer.allocUnsafeSlow(expectedBytes)
    const unused = this.#unused.pop()
    if (unused !== undefined || this.#count === MAX_REUSED) return unused ?? Buffer.allocUnsafeSlow(MAX_MEMORY_BYTES)
    this.#count += 1
    return Buffer.allocUnsafeSlow(REUSED_BYTES)
  }

  /** Takes a buffer back that nobody reads any more. */
  giveBack(buffer: Buffer | undefined): void {
    if (buffer?.length === REUSED_BYTES) this.#unused.push(buffer)
  }
}

interface ContentSinkOptions {
  maxBytes: number
  newBuffer: () => Buffer
  /** Returns the name of a new file. @throws DidAuthError ERR_BUSY if the owner has too many files */
  newFile: () => string
}

class ContentSink {
  readonly #options: ContentSinkOptions
  #byteCount = 0
  #buffer: Buffer | undefined
  /** Number of bytes in the buffer that are not written yet. */
  #usedBytes = 0
  #file: { name: string; handle: FileHandle } | undefined
  /** Hasher of the bytes in the file. Undefined without file, and while it contains an earlier value. */
  #hasher: LeafHasher | undefined

  constructor(options: ContentSinkOptions) {
    this.#options = options
  }

  /** Whether the content is larger than `maxBytes`. The rest of it is then discarded. */
  get isTooLarge(): boolean {
    return this.#byteCount > this.#options.maxBytes
  }

  /** Adds text that has been decoded. */
  add({ isNewValue, parts }: DecodedText): void {
    if (isNewValue) this.#restart()
    for (const part of parts) this.#copy(part)
  }

  /** Copies the bytes into a buffer, because a client may send single bytes, and each chunk costs additional memory. */
  #copy(bytes: Uint8Array): void {
    this.#byteCount += bytes.length
    if (this.isTooLarge) return
    const end = this.#usedBytes + bytes.length
    this.#buffer ??= this.#options.newBuffer()
    if (end > this.#buffer.length) this.#buffer = Buffer.concat([this.#buffer], end)
    this.#buffer.set(bytes, this.#usedBytes)
    this.#usedBytes = end
  }

  #restart(): void {
    this.#hasher = undefined
    this.#byteCount = 0
    this.#usedBytes = 0
  }

  /**
   * Writes the buffer to the file once the content exceeds 64 KiB, then whenever the next chunk may not fit. Do not
   * write meanwhile.
   *
   * @throws ServerError ERR_STORAGE_FULL, ERR_STORAGE; as `newFile`
   */
  flush(): Promise<unknown> | undefined {
    const bufferBytes = this.#file === undefined ? 0 : (this.#buffer?.length ?? 0)
    return this.#usedBytes > Math.max(MAX_MEMORY_BYTES, bufferBytes - MAX_CHUNK_BYTES) ? this.#write() : undefined
  }

  /** Returns the content, which is valid until `dispose`. Call it once, at the end. @throws as {@link flush} */
  async finish(): Promise<NewContent> {
    if (this.#usedBytes <= MAX_MEMORY_BYTES && this.#hasher === undefined) {
      const source = this.#buffer?.subarray(0, this.#usedBytes) ?? Buffer.alloc(0)
      return createNewContent(source)
    }
    const { name, handle, hasher } = await this.#write()
    return { ...hasher.finish(), source: { file: name, handle } }
  }

  async dispose(): Promise<void> {
    if (this.#file === undefined) return
    const { name, handle } = this.#file
    await Promise.allSettled([handle.close(), unlink(name)])
  }

  async #write(): Promise<{ name: string; handle: FileHandle; hasher: LeafHasher }> {
    const bytes = this.#buffer?.subarray(0, this.#usedBytes) ?? Buffer.alloc(0)
    this.#usedBytes = 0
    const isStale = this.#hasher === undefined
    const hasher = (this.#hasher ??= new LeafHasher())
    hasher.update(bytes)
    try {
      if (this.#file === undefined) {
        const name = this.#options.newFile()
        this.#file = { name, handle: await open(name, 'ax', 0o600) }
      } else if (isStale) await this.#file.handle.truncate()
      await this.#file.handle.appendFile(bytes)
      return { ...this.#file, hasher }
    } catch (error) {
      return throwStorageError(error)
    }
  }
}

function throwStorageError(error: unknown): never {
  throw toStorageError(error)
}

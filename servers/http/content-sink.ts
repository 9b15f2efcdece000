import { open, rm, type FileHandle } from 'node:fs/promises'
import { DidAuthError } from 'express-did-auth'
import { codeOf } from '../config/startup-error.js'
import type { TextSink } from './json-text.js'
import { ServerError } from './server-error.js'

/** Content up to here stays in memory; longer content is written to a file in buffers of this size. */
const BUFFER_BYTES = 65_536

/** What is known of content by its bytes. */
export interface HashedContent {
  /** CIDv1 in base32. */
  readonly cid: string
  readonly byteCount: number
  /** SHA-256 of each leaf of 256 KiB, 32 bytes each, in order. */
  readonly leafHashes: Uint8Array
}

/** Content that has arrived whole. */
export interface ReceivedContent extends HashedContent {
  /** Its bytes where it has up to 64 KiB, else a file that holds just them. */
  readonly source: Uint8Array | { readonly file: string }
}

/** Computes the cid of content that arrives in parts. */
export interface ContentHasher {
  update(bytes: Uint8Array): void
  /** To be called once, at the end. */
  finish(): HashedContent
}

export interface ContentSinkOptions {
  maxBytes: number
  /** Content cannot be longer than this, also when `maxBytes` is more. */
  expectedBytes: number
  newHasher: () => ContentHasher
  /** Names the file, when one is needed. @throws DidAuthError ERR_BUSY when none may be opened now */
  newFile: () => string
}

/** Collects content: up to 64 KiB in memory, more in a file. */
export class ContentSink implements TextSink {
  readonly #options: ContentSinkOptions
  readonly #bufferBytes: number
  #hasher: ContentHasher
  #byteCount = 0
  #buffer: Buffer | undefined
  #usedBytes = 0
  /** Full buffers that are not yet written. */
  #full: Buffer[] = []
  #file: { name: string; handle: FileHandle } | undefined
  /** What the file holds is not of this content. */
  #isFileStale = true

  constructor(options: ContentSinkOptions) {
    this.#options = options
    this.#bufferBytes = Math.min(BUFFER_BYTES, options.expectedBytes)
    this.#hasher = options.newHasher()
  }

  /** Whether there was more than `maxBytes`, of which nothing more is kept then. */
  get isTooLarge(): boolean {
    return this.#byteCount > this.#options.maxBytes
  }

  /** Copies the bytes: a client may send them one by one, and each chunk costs memory beside its bytes. */
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
    this.#hasher = this.#options.newHasher()
    this.#byteCount = 0
    this.#usedBytes = 0
    this.#full = []
    this.#isFileStale = true
  }

  /** Nothing may be added until it resolves. @throws ServerError ERR_STORAGE_FULL, ERR_STORAGE; as `newFile` */
  flush(): Promise<unknown> | undefined {
    return this.#full.length === 0 ? undefined : this.#write()
  }

  /** To be called once, when all of it was added. @throws as {@link flush} */
  async finish(): Promise<ReceivedContent> {
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

  /** Deletes the file, unless it was moved. */
  async dispose(): Promise<void> {
    if (this.#file === undefined) return
    const { name, handle } = this.#file
    // Closed already, where the content was used.
    await handle.close().catch(() => undefined)
    await rm(name, { force: true }).catch(() => undefined)
  }

  async #write(): Promise<{ name: string; handle: FileHandle }> {
    const full = this.#full
    this.#full = []
    for (const buffer of full) this.#hasher.update(buffer)
    try {
      if (this.#file === undefined) {
        const name = this.#options.newFile()
        this.#file = { name, handle: await open(name, 'ax', 0o600) }
      }
      if (this.#isFileStale) await this.#file.handle.truncate()
      this.#isFileStale = false
      for (const buffer of full) await this.#file.handle.appendFile(buffer)
      return this.#file
    } catch (error) {
      return refuseSpool(error)
    }
  }
}

function refuseSpool(cause: unknown): never {
  if (cause instanceof DidAuthError) throw cause
  const isFull = ['ENOSPC', 'EDQUOT'].includes(codeOf(cause) ?? '')
  throw new ServerError(isFull ? 'ERR_STORAGE_FULL' : 'ERR_STORAGE', { cause })
}

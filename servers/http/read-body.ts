import type { IncomingMessage } from 'node:http'
import { ContentSink, type ContentHasher, type HashedContent } from './content-sink.js'
import { JsonTextDecoder } from './json-text.js'
import { ByteBudget } from './limits.js'
import { announcedBytes, JSON_TYPE, receiveBody } from './receive-body.js'
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

import type { Clock } from 'express-did-auth'
import { contentOf } from '../shared/content-blocks.js'
import type { JsonText } from '../shared/json-text.js'
import { ServerError } from '../shared/server-error.js'
import type { FileStore } from './file-store.js'
import type { MemoryFile, MemoryFiles } from './memory-files.js'

const OPENING = Buffer.from('{"file":')
const CLOSING = Buffer.from('}')
/** What a slice may keep alive beyond its own length: the headers that arrived together with a short body. */
const SLACK_BYTES = 2_048

export interface FileRelayParts {
  maxBytesPerDid: number
  fileTtlSeconds: number
  maxMemoryBytes: number
  memory: MemoryFiles
  store: FileStore
  clock: Clock
}

export interface RelayFile {
  /** `relay://<cid>` */
  url: string
  cid: string
}

/** Keeps what is posted, and hands it out again. */
export class FileRelay {
  readonly #parts: FileRelayParts
  /** Bytes that users are just posting, so that many posts at once cannot pass a bound that one could not. */
  readonly #posting = new Map<string, number>()

  constructor(parts: FileRelayParts) {
    this.#parts = parts
  }

  /**
   * Stores a file, then keeps it in memory: what can be fetched is stored as well.
   *
   * @param did - canonical DID of the user
   * @throws ServerError ERR_STORAGE_FULL; as `FileStore.keep`
   */
  async post(did: string, text: JsonText): Promise<RelayFile> {
    const { memory, store, clock } = this.#parts
    const content = contentOf(text.bytes)
    const file = { cid: content.cid, byteCount: content.byteCount, answer: answerOf(text) }
    this.#assertRoom(did, file)
    this.#addPosting(did, file.byteCount)
    try {
      await store.keep(content, text.bytes, clock.nowSeconds())
      memory.keep(file, did, clock.nowSeconds())
    } finally {
      this.#addPosting(did, -file.byteCount)
    }
    return { url: `relay://${file.cid}`, cid: file.cid }
  }

  /**
   * The whole answer to a GET, as it is sent.
   *
   * @param name - whatever the path holds
   * @throws ServerError ERR_NOT_FOUND
   */
  find(name: string): Buffer {
    const answer = this.#parts.memory.find(name, this.#parts.clock.nowSeconds())
    if (answer === undefined) throw new ServerError('ERR_NOT_FOUND')
    return answer
  }

  #assertRoom(did: string, file: MemoryFile): void {
    const { memory, maxBytesPerDid, maxMemoryBytes, clock } = this.#parts
    if (!memory.canHold(file)) {
      throw new ServerError('ERR_STORAGE_FULL', { detail: `${maxMemoryBytes} bytes of memory in all` })
    }
    const held = memory.heldBytes(did, file.cid, clock.nowSeconds()) + (this.#posting.get(did) ?? 0)
    if (held + file.byteCount <= maxBytesPerDid) return
    const detail = `${held} of ${maxBytesPerDid} bytes held by this DID, ${file.byteCount} needed`
    throw new ServerError('ERR_STORAGE_FULL', { detail })
  }

  #addPosting(did: string, bytes: number): void {
    const posting = (this.#posting.get(did) ?? 0) + bytes
    if (posting === 0) this.#posting.delete(did)
    else this.#posting.set(did, posting)
  }
}

/** `{"file":"…"}`: the body as it was posted where it was spelled in just this way, so that nothing is copied. */
function answerOf({ bytes, json }: JsonText): Buffer {
  const isPartOfBody = json.buffer === bytes.buffer && json.byteOffset === bytes.byteOffset - 1
  const isAlone = json.buffer.byteLength <= json.length + SLACK_BYTES
  if (isPartOfBody && isAlone) {
    return Buffer.from(json.buffer, json.byteOffset - OPENING.length, OPENING.length + json.length + CLOSING.length)
  }
  return ownBuffer([OPENING, json, CLOSING])
}

/** In memory of its own: a slice of Node's pool would keep all of it alive. */
function ownBuffer(parts: readonly Buffer[]): Buffer {
  const whole = Buffer.allocUnsafeSlow(parts.reduce((sum, { length }) => sum + length, 0))
  let start = 0
  for (const part of parts) start += part.copy(whole, start)
  return whole
}

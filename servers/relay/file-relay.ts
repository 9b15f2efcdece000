import type { Clock } from 'express-did-auth'
import { contentOf } from '../shared/content/content-blocks.js'
import type { JsonText } from '../shared/upload/json-text.js'
import { ServerError } from '../shared/http/server-error.js'
import { uploadRoom, type UploadRoom } from '../shared/upload/upload-room.js'
import type { FileStore } from './file-store.js'
import type { MemoryFile, MemoryFiles } from './memory-files.js'
import { PostingFiles } from './posting-files.js'
import { answerOf } from './relay-answer.js'
import { restoreFile } from './restore-files.js'

export interface FileRelayParts {
  maxBytesPerDid: number
  maxMemoryBytes: number
  memory: MemoryFiles
  store: FileStore
  /** Ends when what is left of the time before a restart is in memory again; until then, a file may still be in the store. */
  restored: Promise<void>
  clock: Clock
  /** Where what is posted counts until it is stored. */
  room?: UploadRoom
}

export interface RelayFile {
  /** `relay://<cid>` */
  url: string
  cid: string
}

/** Keeps what is posted, and hands it out again. */
export class FileRelay {
  readonly #parts: FileRelayParts
  readonly #posting = new PostingFiles()
  #isRestoring = true

  constructor(parts: FileRelayParts) {
    this.#parts = parts
    const stop = (): void => {
      this.#isRestoring = false
    }
    parts.restored.then(stop, stop)
  }

  /**
   * Stores a file, then keeps it in memory: what can be fetched is stored as well.
   *
   * @param did - canonical DID of the user
   * @throws ServerError ERR_STORAGE_FULL; DidAuthError ERR_BUSY; as `FileStore.keep`
   */
  async post(did: string, text: JsonText): Promise<RelayFile> {
    const { memory, store, clock, room = uploadRoom } = this.#parts
    const content = contentOf(text.bytes)
    const { cid, byteCount } = content
    const file = { cid, byteCount, answer: answerOf(text) }
    this.#assertRoom(did, file)
    this.#posting.add(did, file)
    try {
      // A node may take its time, and until then nothing else counts these bytes.
      await room.hold(heldBytes(text, file), did, async () => {
        await store.keep(content, text.bytes, clock.nowSeconds())
        memory.keep(file, did, clock.nowSeconds())
      })
    } finally {
      this.#posting.remove(did, file)
    }
    return { url: `relay://${cid}`, cid }
  }

  /**
   * The whole answer to a GET, as it is sent. It is in memory now.
   *
   * @param name - whatever the path holds
   * @throws ServerError ERR_NOT_FOUND
   */
  find(name: string): Buffer {
    const { memory, clock } = this.#parts
    const nowSeconds = clock.nowSeconds()
    const answer = memory.find(name, nowSeconds) ?? this.#restored(name, nowSeconds)
    if (answer === undefined) throw new ServerError('ERR_NOT_FOUND')
    return answer
  }

  /** Lets go of what has ended, in memory and in the store. @throws as `FileStore.sweep` */
  async sweep(signal: AbortSignal): Promise<void> {
    const nowSeconds = this.#parts.clock.nowSeconds()
    this.#parts.memory.dropEnded(nowSeconds)
    await this.#parts.store.sweep(nowSeconds, signal)
  }

  /** A file that comes back before its turn, so that nobody waits for all the others. */
  #restored(name: string, nowSeconds: number): Buffer | undefined {
    const { memory, store } = this.#parts
    const file = this.#isRestoring ? store.find(name) : undefined
    if (file === undefined || memory.isOver(file.keptAtSeconds, nowSeconds)) return undefined
    restoreFile({ memory, store }, file)
    return memory.find(name, nowSeconds)
  }

  #assertRoom(did: string, file: MemoryFile): void {
    const { memory, maxBytesPerDid, maxMemoryBytes, clock } = this.#parts
    if (!memory.canHold(file)) {
      throw new ServerError('ERR_STORAGE_FULL', { detail: `${maxMemoryBytes} bytes of memory in all` })
    }
    const isCounted = (cid: string): boolean => cid === file.cid || memory.isHeldBy(cid, did)
    const held = memory.heldBytes(did, file.cid, clock.nowSeconds()) + this.#posting.bytes(did, isCounted)
    if (held + file.byteCount <= maxBytesPerDid) return
    const detail = `${held} of ${maxBytesPerDid} bytes held by this DID, ${file.byteCount} needed`
    throw new ServerError('ERR_STORAGE_FULL', { detail })
  }
}

/** What a post keeps alive: the answer, and the text where that is elsewhere. */
function heldBytes({ bytes }: JsonText, { answer }: MemoryFile): number {
  return answer.buffer.byteLength + (bytes.buffer === answer.buffer ? 0 : bytes.buffer.byteLength)
}

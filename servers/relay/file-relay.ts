import type { Clock } from 'express-did-auth'
import { ServerError } from '../http/server-error.js'
import type { ContentRepair } from '../ipfs/content-repair.js'
import type { ContentReads, FileStore, NewContent, StoredContent } from '../storage/content-store.js'
import type { StoreBound } from '../storage/disk-space.js'
import { isCid } from '../storage/unixfs-blocks.js'
import { type CachedFile, encodeAnswer, type FileCache, type FoundFile } from './file-cache.js'

/** What a DID posts is counted for so long. */
const SLOT_SECONDS = 86_400
/** Larger files are streamed. Of a file as a JSON string with its quotes: 1 MiB of text that needs no escapes. */
const MAX_CACHED_BYTES = 1_048_576 + 2
/** While so many are looked for at once, files are streamed, so that reading them into memory is bounded. */
const MAX_ASKING = 16
/** For the IPFS node to answer what is damaged here. */
const REPAIR_MILLISECONDS = 10_000

export interface FileRelayParts {
  store: Pick<FileStore, 'writeFile' | 'findFile'> & Pick<ContentReads, 'readContents'>
  /** Carries out pins; none without an IPFS node. */
  pins: { settle(cids: readonly string[]): Promise<boolean> } | undefined
  /** Reads from the IPFS node what is damaged here. */
  repair: Pick<ContentRepair, 'whileReading'>
  disk: StoreBound
  cache: FileCache
  ttlSeconds: number
  maxStoreBytes: number
  maxBytesPerDid: number
  clock: Clock
}

export interface RelayFile {
  /** `relay://<cid>` */
  url: string
  cid: string
}

/** Stores what is posted, and finds it again. */
export class FileRelay {
  readonly #parts: FileRelayParts
  /** One question at a time for each cid. */
  readonly #asking = new Map<string, Promise<FoundFile>>()

  constructor(parts: FileRelayParts) {
    this.#parts = parts
  }

  /** Seconds for which a file stays from when it is posted, or posted again. */
  get ttlSeconds(): number {
    return this.#parts.ttlSeconds
  }

  /**
   * Stores a file.
   *
   * @param did - canonical DID of the user
   * @throws ServerError ERR_STORAGE_FULL where the disk is; as `FileStore.writeFile`
   */
  async post(did: string, content: NewContent): Promise<RelayFile> {
    const { store, disk, ttlSeconds, maxStoreBytes, maxBytesPerDid, clock } = this.#parts
    await disk.assertFree()
    const bounds = { maxStoreBytes, maxBytesPerDid, slotSeconds: SLOT_SECONDS }
    await store.writeFile({ did, content, nowSeconds: clock.nowSeconds(), ttlSeconds, bounds })
    return { url: `relay://${content.cid}`, cid: content.cid }
  }

  /** Whether the pin of a file is done, also of one that was posted before. Waits for an IPFS node that is quick. */
  async isPinned(cid: string): Promise<boolean> {
    return (await this.#parts.pins?.settle([cid])) ?? true
  }

  /**
   * Finds a file: in memory, or in the store. The store is asked once a second about a file in memory, so that a file that
   * ended or was taken down by another process is refused a second later.
   *
   * @param name - whatever the path holds
   * @throws ServerError ERR_NOT_FOUND, ERR_TAKEN_DOWN, ERR_CONTENT_MISSING, ERR_STORAGE
   */
  async find(name: string): Promise<FoundFile> {
    if (!isCid(name)) throw new ServerError('ERR_NOT_FOUND')
    const nowSeconds = this.#parts.clock.nowSeconds()
    const cached = this.#parts.cache.get(name)
    if (cached?.askedAtSeconds === nowSeconds) return this.#found(name, cached.answer)
    const asking = this.#asking.get(name) ?? this.#ask(name, nowSeconds, cached)
    this.#asking.set(name, asking)
    try {
      return await asking
    } finally {
      this.#asking.delete(name)
    }
  }

  async #ask(cid: string, nowSeconds: number, cached: CachedFile | undefined): Promise<FoundFile> {
    const { store, cache } = this.#parts
    let answer = cached?.answer
    const mayLoad = this.#asking.size < MAX_ASKING
    try {
      const file = await store.findFile(cid, nowSeconds)
      if (file === undefined) throw new ServerError('ERR_NOT_FOUND')
      const isCached = mayLoad && file.jsonByteCount <= MAX_CACHED_BYTES
      if (answer === undefined && isCached) answer = await encodeAnswer(await this.#read(cid))
    } catch (error) {
      cache.delete(cid)
      throw error
    }
    if (answer !== undefined) cache.set(cid, { answer, askedAtSeconds: nowSeconds })
    return this.#found(cid, answer)
  }

  #found(cid: string, answer: Buffer | undefined): FoundFile {
    return { answer, content: () => this.#read(cid) }
  }

  /** @throws ServerError ERR_NOT_FOUND when it ended since it was found */
  async #read(cid: string): Promise<StoredContent> {
    const [content] = await this.#parts.store.readContents([cid])
    if (content === undefined) throw new ServerError('ERR_NOT_FOUND')
    return this.#parts.repair.whileReading(content, REPAIR_MILLISECONDS)
  }
}

import type { IncomingMessage } from 'node:http'
import type { Clock } from 'express-did-auth'
import { computeClientNetwork, createSingleFlight } from 'express-did-auth/server-kit'
import type { Response } from 'express'
import { LRUCache } from 'lru-cache'
import type { ServerEnv } from '../config/read-env.js'
import { limitMilliseconds } from '../config/time-limits.js'
import { ByteBudget } from '../content/limits.js'
import { encodeJsonString, sendChunks, sendWhole } from '../content/send-content.js'
import { ServerError } from '../http/server-error.js'
import { restoreWhileReading } from '../ipfs/content-repair.js'
import type { ContentWork } from '../process/content-work.js'
import type { ContentReads, FileStore } from '../content/content-store.js'
import type { createStoreBound } from '../content/disk-space.js'
import { isCid } from '../content/unixfs-blocks.js'

/** Duration in seconds of the quota window for the posts of a DID. */
const SLOT_SECONDS = 86_400
/** Maximum size in bytes of a cached file. Larger files are streamed. */
const MAX_CACHED_BYTES = 1_048_576
/** Memory in bytes of a cached file in addition to its response, measured and rounded up. */
const ENTRY_BYTES = 512
/** Maximum number of bytes in a JSON string for each byte of the file. */
const MAX_ESCAPED = 6

/** Parts of the file store of the relay. */
export interface FileRelayParts extends Pick<ContentWork, 'bodies' | 'repair' | 'settlePins'> {
  store: Pick<FileStore, 'writeFile' | 'findFile'> & Pick<ContentReads, 'readContents'>
  assertDiskFree: ReturnType<typeof createStoreBound>
  env: ServerEnv
  clock: Clock
}

interface StoredFile {
  /** Complete response body of a GET, if it is in memory. */
  readonly answer: Buffer | undefined
  readonly expiresAtSeconds: number
}

interface CachedFile extends StoredFile {
  readonly answer: Buffer
  /** Time at which the store last confirmed the file, in seconds since the Unix epoch. */
  readonly confirmedAtSeconds: number
}

/** Creates the file store of the relay: it stores posted files and sends them. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function createFileRelay({ store, bodies, repair, settlePins, assertDiskFree, env, clock }: FileRelayParts) {
  const { RELAY_MAX_STORE_BYTES: maxStoreBytes, RELAY_MAX_BYTES_PER_DID: maxBytesPerDid } = env
  const bounds = { maxStoreBytes, maxBytesPerDid, slotSeconds: SLOT_SECONDS }
  const cache = new LRUCache<string, CachedFile>({
    maxSize: env.RELAY_MAX_MEMORY_BYTES,
    sizeCalculation: ({ answer }) => answer.length + ENTRY_BYTES
  })
  /** Memory for files while they are read from the store. Files that exceed it are streamed. */
  const reading = new ByteBudget({ maxBytes: 67_108_864 })
  /** Memory for responses that are being sent, within the shares of client networks. Others are streamed. */
  const sending = new SharedAnswers(new ByteBudget({ maxBytes: 33_554_432 }))
  const refreshOnce = createSingleFlight<StoredFile>()

  /** Looks a file up in the store, and caches it if it is small. */
  async function refresh(cid: string, nowSeconds: number, cachedAnswer: Buffer | undefined): Promise<StoredFile> {
    try {
      const file = await store.findFile(cid, nowSeconds)
      if (file === undefined) throw new ServerError('ERR_NOT_FOUND')
      const answer = cachedAnswer ?? (await load(cid, file.byteCount))
      const { expiresAtSeconds } = file
      if (answer !== undefined) cache.set(cid, { answer, expiresAtSeconds, confirmedAtSeconds: nowSeconds })
      return { answer, expiresAtSeconds }
    } catch (error) {
      cache.delete(cid)
      throw error
    }
  }

  async function load(cid: string, byteCount: number): Promise<Buffer | undefined> {
    if (byteCount > MAX_CACHED_BYTES) return undefined
    const release = reading.tryAcquire(byteCount * MAX_ESCAPED)
    if (release === undefined) return undefined
    try {
      const bytes = await (await read(cid)).bytes()
      return Buffer.from(JSON.stringify({ file: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) }))
    } finally {
      release()
    }
  }

  /** Reads a file from the store. @throws ServerError ERR_NOT_FOUND if it has expired since the lookup */
  async function read(cid: string): Promise<ReturnType<typeof restoreWhileReading>> {
    const [content] = await store.readContents([cid])
    if (content === undefined) throw new ServerError('ERR_NOT_FOUND')
    return restoreWhileReading(content, () => repair(content, limitMilliseconds.ipfsCall))
  }

  return {
    /**
     * Stores the file in a body for a canonical DID.
     *
     * @returns `isPinned`: whether the IPFS node has pinned it, now or after an earlier post
     * @throws ServerError ERR_STORAGE_FULL for a full disk; as `BodyReader.read` and `FileStore.writeFile`
     */
    post(req: IncomingMessage, did: string): Promise<{ cid: string; isPinned: boolean }> {
      const body = { field: 'file', maxBytes: env.RELAY_MAX_FILE_BYTES, owner: did }
      return bodies.read(req, body, async (content) => {
        await assertDiskFree()
        const [nowSeconds, ttlSeconds] = [clock.nowSeconds(), env.RELAY_FILE_TTL_SECONDS]
        const { changedPins } = await store.writeFile({ did, content, nowSeconds, ttlSeconds, bounds })
        return { cid: content.cid, isPinned: changedPins.length === 0 || (await settlePins(changedPins)) }
      })
    },

    /**
     * Sends a file from memory, or streams it from the store. A cached file is looked up again once per second, because
     * it may have expired, or another process may have taken it down.
     *
     * @param name - path segment, which is not validated yet
     * @throws ServerError ERR_NOT_FOUND, ERR_TAKEN_DOWN, ERR_CONTENT_MISSING, ERR_STORAGE before the first byte is sent
     */
    async send(res: Response, name: string): Promise<void> {
      if (!isCid(name)) throw new ServerError('ERR_NOT_FOUND')
      const nowSeconds = clock.nowSeconds()
      const cached = cache.get(name)
      const isFresh = cached?.confirmedAtSeconds === nowSeconds
      const file = isFresh ? cached : await refreshOnce(() => refresh(name, nowSeconds, cached?.answer), name)
      const { answer, expiresAtSeconds } = file
      const headers = { 'Cache-Control': 'no-store', 'File-Expires-In': String(expiresAtSeconds - nowSeconds) }
      const release = answer && sending.tryAcquire(answer, computeClientNetwork(res.req.ip ?? ''))
      if (answer !== undefined && release !== undefined) {
        sendWhole(res, answer, headers, release)
        return
      }
      const content = await read(name)
      await sendChunks(res, encodeJsonString(await content.pieces(), '{"file":', '}'), headers)
    }
  }
}

/**
 * Response bodies that are being sent. A body that several clients receive counts once against the memory budget. It is
 * not a single flight, because it shares memory and not work.
 */
export class SharedAnswers {
  readonly #budget: ByteBudget
  readonly #sent = new Map<Buffer, { readers: number; release: () => void }>()

  constructor(budget: ByteBudget) {
    this.#budget = budget
  }

  /**
   * Acquires memory for sending a body. It counts for the client network that requested the body first. Returns
   * undefined if the share of the network or the total would be exceeded.
   */
  tryAcquire(answer: Buffer, network?: string): (() => void) | undefined {
    const release = this.#sent.get(answer)?.release ?? this.#budget.tryAcquire(answer.length, network)
    if (release === undefined) return undefined
    const sent = this.#sent.get(answer) ?? { readers: 0, release }
    sent.readers += 1
    this.#sent.set(answer, sent)
    return () => {
      sent.readers -= 1
      if (sent.readers > 0) return
      this.#sent.delete(answer)
      release()
    }
  }
}

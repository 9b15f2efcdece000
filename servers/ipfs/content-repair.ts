import type { Logger } from 'pino'
import { ServerError } from '../http/server-error.js'
import { describeError } from '../observability/error-fields.js'
import type { ContentInfo, ContentReads, StoredContent } from '../storage/content-store.js'
import { isMissing } from '../storage/storage-error.js'
import { newContentOf } from '../storage/unixfs-blocks.js'
import type { IpfsNode } from './ipfs-node.js'
import { waitAtMost } from './ipfs-call.js'

/** Anybody may read, and each question to the node may take seconds. */
const MAX_CALLS = 16

/** What the repair is built of. */
export interface ContentRepairParts {
  store: Pick<ContentReads, 'repairContent'>
  /** Undefined: none is configured. */
  node: IpfsNode | undefined
  log: Logger
}

/** Restores content that is missing or damaged here and that the IPFS node still has. */
export class ContentRepair {
  readonly #parts: ContentRepairParts
  readonly #underWay = new Map<string, Promise<Uint8Array>>()

  constructor(parts: ContentRepairParts) {
    this.#parts = parts
  }

  /**
   * The bytes of content, read from the node, verified, and put back.
   *
   * @param milliseconds - how long to wait for the node; the repair goes on
   * @throws ServerError ERR_CONTENT_MISSING
   */
  async read(content: ContentInfo, milliseconds: number): Promise<Uint8Array> {
    const bytes = await waitAtMost(Math.max(0, milliseconds), this.#shared(content))
    if (bytes === undefined) throw new ServerError('ERR_CONTENT_MISSING')
    return bytes
  }

  /**
   * The same content, restored while it is read where it is damaged or its object is lost.
   *
   * @param milliseconds - how long a reader waits for the node
   */
  whileReading(content: StoredContent, milliseconds: number): StoredContent {
    const restore = (error: unknown): Promise<Uint8Array> => {
      if (!isMissing(error)) throw error
      return this.read(content, milliseconds)
    }
    const rest = async function* (pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
      let sent = 0
      try {
        for await (const piece of pieces) {
          sent += piece.length
          yield piece
        }
      } catch (error) {
        // Every piece that was sent was verified.
        yield (await restore(error)).subarray(sent)
      }
    }
    return {
      ...content,
      bytes: () => content.bytes().catch(restore),
      pieces: async () => rest(await content.pieces().catch(async (error: unknown) => inOne(await restore(error))))
    }
  }

  #shared(content: ContentInfo): Promise<Uint8Array> {
    const underWay = this.#underWay.get(content.cid)
    if (underWay !== undefined) return underWay
    if (this.#underWay.size >= MAX_CALLS) return Promise.reject(new ServerError('ERR_CONTENT_MISSING'))
    const fetched = this.#fetch(content).finally(() => this.#underWay.delete(content.cid))
    this.#underWay.set(content.cid, fetched)
    return fetched
  }

  async #fetch({ cid, byteCount, jsonByteCount }: ContentInfo): Promise<Uint8Array> {
    const { store, node, log } = this.#parts
    if (node === undefined) throw new ServerError('ERR_CONTENT_MISSING')
    const bytes = await node.read(cid, byteCount).catch((cause: unknown) => {
      throw new ServerError('ERR_CONTENT_MISSING', { cause })
    })
    const content = newContentOf(bytes, jsonByteCount)
    if (content.cid !== cid) throw new ServerError('ERR_CONTENT_MISSING')
    try {
      await store.repairContent(content)
      log.warn({ event: 'content-repaired' }, 'missing content was read from the IPFS node and put back')
    } catch (error) {
      // The reader has it all the same.
      log.error({ event: 'repair-failed', ...describeError(error) }, 'missing content could not be put back')
    }
    return bytes
  }
}

async function* inOne(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
}

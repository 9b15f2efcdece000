import { singleFlight, waitAtMost } from 'express-did-auth/server-kit'
import type { Logger } from 'pino'
import { ServerError } from '../http/server-error.js'
import { describeError } from '../observability/error-fields.js'
import type { ContentInfo, ContentReads, StoredContent } from '../storage/content-store.js'
import { isMissing } from '../storage/storage-error.js'
import { newContentOf } from '../storage/unixfs-blocks.js'
import type { IpfsNode } from './ipfs-node.js'

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
  readonly #fetchOnce = singleFlight<Uint8Array>()
  #calls = 0

  constructor(parts: ContentRepairParts) {
    this.#parts = parts
  }

  /**
   * The bytes of content, read from the node, verified, and stored again.
   *
   * @param milliseconds - how long to wait for the node; the repair continues
   * @throws ServerError ERR_CONTENT_MISSING
   */
  async read(content: ContentInfo, milliseconds: number): Promise<Uint8Array> {
    const fetched = this.#fetchOnce(() => this.#fetch(content), content.cid)
    const bytes = await waitAtMost(milliseconds, fetched)
    if (bytes === undefined) throw new ServerError('ERR_CONTENT_MISSING')
    return bytes
  }

  async #fetch({ cid, byteCount }: ContentInfo): Promise<Uint8Array> {
    const { store, node, log } = this.#parts
    if (node === undefined || this.#calls >= MAX_CALLS) throw new ServerError('ERR_CONTENT_MISSING')
    this.#calls += 1
    try {
      const bytes = await node.read(cid, byteCount).catch((cause: unknown) => {
        throw new ServerError('ERR_CONTENT_MISSING', { cause })
      })
      const content = newContentOf(bytes)
      if (content.cid !== cid) throw new ServerError('ERR_CONTENT_MISSING')
      await store.repairContent(content).then(
        () => log.warn({ event: 'content-repaired' }, 'missing content was read from the IPFS node and stored again'),
        // The reader has it all the same.
        (error: unknown) =>
          log.error({ event: 'repair-failed', ...describeError(error) }, 'missing content could not be stored again')
      )
      return bytes
    } finally {
      this.#calls -= 1
    }
  }
}

/** Content that is restored while it is read. @param content - undefined where there is none */
export function restoring(
  content: StoredContent | undefined,
  restore: () => Promise<Uint8Array>
): Pick<StoredContent, 'bytes' | 'pieces'> {
  const restoreMissing = (error: unknown): Promise<Uint8Array> => {
    if (!isMissing(error)) throw error
    return restore()
  }
  const piecesFrom = async function* (pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    let sent = 0
    try {
      for await (const piece of pieces) {
        sent += piece.length
        yield piece
      }
    } catch (error) {
      // Every piece that was sent was verified.
      yield (await restoreMissing(error)).subarray(sent)
    }
  }
  const restored = async function* (bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
    yield bytes
  }
  if (content === undefined) return { bytes: restore, pieces: async () => restored(await restore()) }
  return {
    bytes: () => content.bytes().catch(restoreMissing),
    pieces: () => content.pieces().then(piecesFrom, async (error: unknown) => restored(await restoreMissing(error)))
  }
}

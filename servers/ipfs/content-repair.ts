import { createSingleFlight, waitAtMost } from 'express-did-auth/server-kit'
import type { Logger } from 'pino'
import { ByteBudget } from '../content/limits.js'
import { ServerError } from '../http/server-error.js'
import { describeError } from '../observability/error-fields.js'
import type { ContentInfo, ContentReads, StoredContent } from '../content/content-store.js'
import { isMissing } from '../content/storage-error.js'
import { createNewContent } from '../content/unixfs-blocks.js'
import type { IpfsNode } from './ipfs-node.js'

/** Maximum number of parallel calls. Everyone may cause calls by reading, and each call may take seconds. */
const MAX_CALLS = 16

/** Parts of the repair. */
export type ContentRepairParts = { store: Pick<ContentReads, 'repairContent'>; node: IpfsNode | undefined; log: Logger }

/**
 * Restores content that is missing or damaged in the store: reads its bytes from the IPFS node, verifies and stores
 * them. The caller waits at most `milliseconds`, and the repair continues. @throws ServerError ERR_CONTENT_MISSING
 */
export type ContentRepair = (content: ContentInfo, milliseconds: number) => Promise<Uint8Array>

/** Creates the function that repairs a store from the IPFS node. */
export function createContentRepair({ store, node, log }: ContentRepairParts): ContentRepair {
  const fetchOnce = createSingleFlight<Uint8Array>()
  const calls = new ByteBudget({ maxBytes: MAX_CALLS })

  async function fetch({ cid, byteCount }: ContentInfo): Promise<Uint8Array> {
    const release = node && calls.tryAcquire(1)
    if (node === undefined || release === undefined) throw new ServerError('ERR_CONTENT_MISSING')
    try {
      const bytes = await node.read(cid, byteCount).catch((cause: unknown) => {
        throw new ServerError('ERR_CONTENT_MISSING', { cause })
      })
      const content = createNewContent(bytes)
      if (content.cid !== cid) throw new ServerError('ERR_CONTENT_MISSING')
      await store.repairContent(content).then(
        () => log.warn({ event: 'content-repaired' }, 'restored missing content from the IPFS node'),
        // The reader gets the content even if it cannot be stored.
        (error: unknown) =>
          log.error(
            { event: 'repair-failed', ...describeError(error) },
            'read missing content from the IPFS node, but could not store it'
          )
      )
      return bytes
    } finally {
      release()
    }
  }

  return async (content, milliseconds) => {
    const bytes = await waitAtMost(
      milliseconds,
      fetchOnce(() => fetch(content), content.cid)
    )
    if (bytes === undefined) throw new ServerError('ERR_CONTENT_MISSING')
    return bytes
  }
}

/** Returns content whose missing parts are restored while it is read. @param content - undefined if it is not stored */
export function restoreWhileReading(
  content: StoredContent | undefined,
  restore: () => Promise<Uint8Array>
): Pick<StoredContent, 'bytes' | 'pieces'> {
  const restoreMissing = (error: unknown): Promise<Uint8Array> => {
    if (!isMissing(error)) throw error
    return restore()
  }
  const restorePieces = async function* (
    pieces: AsyncIterable<Uint8Array>
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let sentBytes = 0
    try {
      for await (const piece of pieces) {
        sentBytes += piece.length
        yield piece
      }
    } catch (error) {
      // The pieces before the damage were verified before they were sent.
      yield (await restoreMissing(error)).subarray(sentBytes)
    }
  }
  const toPieces = async function* (bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
    yield bytes
  }
  if (content === undefined) return { bytes: restore, pieces: async () => toPieces(await restore()) }
  return {
    bytes: () => content.bytes().catch(restoreMissing),
    pieces: () => content.pieces().then(restorePieces, async (error: unknown) => toPieces(await restoreMissing(error)))
  }
}

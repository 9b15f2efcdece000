import type { ContentStore } from '../../shared/content/content-store.js'
import { ServerError } from '../../shared/http/server-error.js'
import type { LostContent } from './lost-content.js'
import type { VaultEntry, VaultIndex } from '../vault-index.js'
import { within } from '../within.js'

/** An entry was removed after it was listed. */
export class EntryGone extends Error {
  override readonly name = 'EntryGone'
}

/** What entries are read from. */
export interface EntryReaderParts {
  index: Pick<VaultIndex, 'findOne'>
  contents: Pick<ContentStore, 'read'>
  lost: Pick<LostContent, 'fetch'>
}

/** Content of an entry, at once when it is here and undamaged. @throws EntryGone; ServerError ERR_CONTENT_LOST */
export type ReadEntry = (key: string, id: string) => Buffer | Promise<Buffer>

const PATIENCE_MILLISECONDS = 10_000

/**
 * Makes the reader of one answer's entries.
 *
 * @param did - canonical, whose entries they are
 * @param patienceMilliseconds - for the IPFS node, in all: each of many contents may be lost
 */
export function entryReader(
  { index, contents, lost }: EntryReaderParts,
  did: string,
  patienceMilliseconds = PATIENCE_MILLISECONDS
): ReadEntry {
  let leftMilliseconds = patienceMilliseconds
  const fetch = async (entry: VaultEntry): Promise<Buffer> => {
    const startedAt = performance.now()
    const bytes = await within(Math.max(0, leftMilliseconds), lost.fetch(entry))
    leftMilliseconds -= performance.now() - startedAt
    if (bytes === undefined) throw new ServerError('ERR_CONTENT_LOST')
    return bufferOf(bytes)
  }
  return (key, id) => {
    const bytes = contents.read(id)
    if (bytes !== undefined) return bufferOf(bytes)
    const entry = index.findOne(did, key, id)
    if (entry === undefined) throw new EntryGone()
    return fetch(entry)
  }
}

/** The same memory. */
function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

import type { ContentStore } from '../shared/content-store.js'
import type { LostContent } from './lost-content.js'
import type { KeyedEntry, VaultIndex } from './vault-index.js'

/** An entry was removed after it was listed. */
export class EntryGone extends Error {
  override readonly name = 'EntryGone'
}

/** What entries are read from. */
export interface EntryReaderParts {
  index: VaultIndex
  contents: ContentStore
  lost: LostContent
}

/**
 * Reads the content of a listed entry: at once when it is here and undamaged, else from the IPFS node.
 *
 * @throws EntryGone; ServerError ERR_CONTENT_LOST
 */
export function readEntry(
  { index, contents, lost }: EntryReaderParts,
  did: string,
  { key, id, byteCount }: KeyedEntry
): Buffer | Promise<Buffer> {
  const bytes = contents.read(id)
  if (bytes !== undefined) return bufferOf(bytes)
  if (index.findOne(did, key, id) === undefined) throw new EntryGone()
  return lost.fetch({ id, byteCount }).then(bufferOf)
}

/** The same memory. */
function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

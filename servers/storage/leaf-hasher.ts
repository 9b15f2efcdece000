import { createHash } from 'node:crypto'
import type { NewContent } from './content-store.js'
import { cidOfLeaves, LEAF_BYTES } from './unixfs-blocks.js'

/** Computes the cid of content that arrives in parts, and the hashes that its pieces are verified by later. */
export class LeafHasher {
  readonly #hashes: Buffer[] = []
  #leaf = createHash('sha256')
  #leafByteCount = 0
  #byteCount = 0

  update(bytes: Uint8Array): void {
    for (let start = 0; start < bytes.length;) {
      if (this.#leafByteCount === LEAF_BYTES) this.#endLeaf()
      const part = bytes.subarray(start, start + LEAF_BYTES - this.#leafByteCount)
      this.#leaf.update(part)
      this.#leafByteCount += part.length
      start += part.length
    }
    this.#byteCount += bytes.length
  }

  /** To be called once, at the end. */
  finish(): Pick<NewContent, 'cid' | 'byteCount' | 'leafHashes'> {
    this.#endLeaf()
    const leafHashes = Buffer.concat(this.#hashes)
    return { cid: cidOfLeaves(leafHashes, this.#byteCount) ?? '', byteCount: this.#byteCount, leafHashes }
  }

  #endLeaf(): void {
    this.#hashes.push(this.#leaf.digest())
    this.#leaf = createHash('sha256')
    this.#leafByteCount = 0
  }
}

/**
 * Content that lies in memory whole.
 *
 * @param jsonByteCount - length of the content as a JSON string, in bytes, with its quotes
 */
export function newContentOf(bytes: Uint8Array, jsonByteCount: number): NewContent {
  const hasher = new LeafHasher()
  hasher.update(bytes)
  return { ...hasher.finish(), jsonByteCount, source: bytes }
}

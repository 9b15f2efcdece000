import { createHash } from 'node:crypto'
import type { ContentHasher, HashedContent } from '../../servers/http/content-sink.js'
import { contentOf } from '../../servers/storage/unixfs-blocks.js'

const LEAF_BYTES = 262_144

/** The hash of content that lies in memory whole: what a hasher of parts has to agree with. */
export function hashedContentOf(bytes: Uint8Array): HashedContent {
  const { cid, byteCount } = contentOf(bytes)
  const leafCount = Math.max(1, Math.ceil(bytes.length / LEAF_BYTES))
  const leaves = Array.from({ length: leafCount }, (_, index) =>
    createHash('sha256')
      .update(bytes.subarray(index * LEAF_BYTES, (index + 1) * LEAF_BYTES))
      .digest()
  )
  return { cid, byteCount, leafHashes: Buffer.concat(leaves) }
}

/** A hasher that keeps all it is given. */
export function keepingHasher(): ContentHasher {
  const parts: Buffer[] = []
  return {
    // A copy: its giver may use the memory again.
    update: (bytes) => void parts.push(Buffer.from(bytes)),
    finish: () => hashedContentOf(Buffer.concat(parts))
  }
}

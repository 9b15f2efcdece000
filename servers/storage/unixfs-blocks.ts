import { createHash } from 'node:crypto'
import { createLink, createNode, encode } from '@ipld/dag-pb'
import { UnixFS } from 'ipfs-unixfs'
import { CID, digest } from 'multiformats'
import type { NewContent } from './content-store.js'

/** How every IPFS node has to split content, so that its cid is ours: bytes of a leaf, and links of a node above leaves. */
export const LEAF_BYTES = 262_144
const MAX_LINKS = 174

const RAW = 0x55
const DAG_PB = 0x70
const SHA2_256 = 0x12
const HASH_BYTES = 32

/** Bytes under the hash that names them. */
export interface Block {
  /** CIDv1 in base32. */
  cid: string
  bytes: Uint8Array
}

/** Content as a UnixFS file: a tree of blocks, or just one. */
export interface Content {
  /** Of the root, which stands for the whole. */
  cid: string
  byteCount: number
  /** Leaves first; a block that occurs twice is there twice. */
  blocks: readonly Block[]
}

interface Subtree {
  cid: CID
  /** Of the content below. */
  byteCount: bigint
  /** Of all blocks from here down. */
  treeBytes: number
}

/**
 * Splits content into its blocks, and so computes its cid: CIDv1, SHA2-256, UnixFS, raw leaves of 256 KiB, balanced with
 * 174 links a node.
 *
 * By hand, because the importer takes a multiple of what the hashes alone cost. Tests hold it against the importer and a
 * real node.
 *
 * @see https://specs.ipfs.tech/unixfs/
 */
export function contentOf(bytes: Uint8Array): Content {
  const blocks: Block[] = []
  let level: Subtree[] = []
  for (let start = 0; start === 0 || start < bytes.length; start += LEAF_BYTES) {
    const leaf = bytes.subarray(start, start + LEAF_BYTES)
    const cid = cidOf(RAW, leaf)
    blocks.push({ cid: cid.toString(), bytes: leaf })
    level.push({ cid, byteCount: BigInt(leaf.length), treeBytes: leaf.length })
  }
  while (level.length > 1) {
    const nodes = above(level)
    for (const { subtree, bytes: node } of nodes) blocks.push({ cid: subtree.cid.toString(), bytes: node })
    level = nodes.map(({ subtree }) => subtree)
  }
  return { cid: blocks.at(-1)?.cid ?? '', byteCount: bytes.length, blocks }
}

/**
 * The cid of content by the hashes of its leaves, so that nothing else of it has to be kept to tell it.
 *
 * @param leafHashes - SHA-256 of each leaf of 256 KiB, 32 bytes each, in order
 * @returns undefined when there are more or fewer of them than so many bytes have
 */
export function cidOfLeaves(leafHashes: Uint8Array, byteCount: number): string | undefined {
  const leafCount = Math.max(1, Math.ceil(byteCount / LEAF_BYTES))
  if (leafHashes.length !== leafCount * HASH_BYTES) return undefined
  let level: Subtree[] = []
  for (let index = 0; index < leafCount; index += 1) {
    const hash = leafHashes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES)
    const treeBytes = Math.min(LEAF_BYTES, byteCount - index * LEAF_BYTES)
    level.push({ cid: CID.createV1(RAW, digest.create(SHA2_256, hash)), byteCount: BigInt(treeBytes), treeBytes })
  }
  while (level.length > 1) level = above(level).map(({ subtree }) => subtree)
  return level[0]?.cid.toString()
}

/** The nodes that link to a level, with what they encode to. */
function above(level: readonly Subtree[]): { subtree: Subtree; bytes: Uint8Array }[] {
  return Array.from({ length: Math.ceil(level.length / MAX_LINKS) }, (_, index) => {
    const children = level.slice(index * MAX_LINKS, (index + 1) * MAX_LINKS)
    const bytes = encodeNode(children)
    const subtree = {
      cid: cidOf(DAG_PB, bytes),
      byteCount: children.reduce((sum, child) => sum + child.byteCount, 0n),
      treeBytes: children.reduce((sum, child) => sum + child.treeBytes, bytes.length)
    }
    return { subtree, bytes }
  })
}

function encodeNode(children: readonly Subtree[]): Uint8Array {
  const file = new UnixFS({ type: 'file', blockSizes: children.map(({ byteCount }) => byteCount) })
  const links = children.map(({ cid, treeBytes }) => createLink('', treeBytes, cid))
  return encode(createNode(file.marshal(), links))
}

function cidOf(codec: number, bytes: Uint8Array): CID {
  return CID.createV1(codec, digest.create(SHA2_256, createHash('sha256').update(bytes).digest()))
}

/** Whether text is a cid as we write them. */
export function isCid(text: string): boolean {
  return /^baf[a-z2-7]{56}$/.test(text)
}

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

import { createHash } from 'node:crypto'
import { createLink, createNode, decode, encode } from '@ipld/dag-pb'
import { UnixFS } from 'ipfs-unixfs'
import { CID, digest } from 'multiformats'

/** How every IPFS node has to split content, so that its cid is ours: bytes of a leaf, and links of a node above leaves. */
const LEAF_BYTES = 262_144
const MAX_LINKS = 174

const RAW = 0x55
const DAG_PB = 0x70
const SHA2_256 = 0x12

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
    const above: Subtree[] = []
    for (let start = 0; start < level.length; start += MAX_LINKS) {
      const children = level.slice(start, start + MAX_LINKS)
      const node = encodeNode(children)
      const cid = cidOf(DAG_PB, node)
      blocks.push({ cid: cid.toString(), bytes: node })
      above.push({
        cid,
        byteCount: children.reduce((sum, child) => sum + child.byteCount, 0n),
        treeBytes: children.reduce((sum, child) => sum + child.treeBytes, node.length)
      })
    }
    level = above
  }
  return { cid: blocks.at(-1)?.cid ?? '', byteCount: bytes.length, blocks }
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

/** Whether bytes are those that a cid of ours names. */
export function isBlockOf(cid: string, bytes: Uint8Array): boolean {
  return cidOf(isLeaf(cid) ? RAW : DAG_PB, bytes).toString() === cid
}

/** The cids that a block links to, in order; none for a leaf. @throws Error when it is no node */
export function childrenOf({ cid, bytes }: Block): string[] {
  return isLeaf(cid) ? [] : decode(bytes).Links.map((link) => link.Hash.toString())
}

/** Whether a block is content itself. The codec stands in the third to seventh character: `bafkrei` is raw, `bafybei` dag-pb. */
export function isLeaf(cid: string): boolean {
  return cid.startsWith('bafkrei')
}

import { concatBytes, encodeHex, getSubtle, type Bytes } from '../wire/seal.js'

/** Sizes with which IPFS nodes split content, so that CIDs match: bytes per leaf and links per node. */
export const LEAF_BYTES = 262_144
export const MAX_LINKS = 174

/** Root of a tree of blocks. A single block is a tree, too. */
interface Tree {
  cid: Bytes
  /** Size of the content, in bytes. */
  size: number
  /** Size of all blocks including the root, in bytes. */
  total: number
}

/** Computes the CID of content: CIDv1, SHA2-256, UnixFS, raw leaves of 256 KiB, balanced with 174 links per node. */
export async function computeCid(content: Bytes): Promise<string> {
  const leaves = split(content.length, LEAF_BYTES, (start, end) => createTree(true, content.subarray(start, end)))
  let level = await Promise.all(leaves)
  while (level[1]) {
    const trees = level
    level = await Promise.all(split(trees.length, MAX_LINKS, (start, end) => createParentNode(trees.slice(start, end))))
  }
  return level.map(({ cid }) => encodeBase32(cid)).join()
}

/** Maps each part of a length; a length of 0 has one empty part. */
function split<T>(length: number, size: number, mapPart: (start: number, end: number) => T): T[] {
  return Array.from({ length: Math.ceil(length / size) || 1 }, (_, index) => mapPart(index * size, (index + 1) * size))
}

/** Creates the tree of one block: raw content, or a dag-pb node. */
export async function createTree(isRaw: boolean, bytes: Bytes, size = bytes.length, total = size): Promise<Tree> {
  const hash = new Uint8Array(await getSubtle().digest('SHA-256', bytes))
  return { cid: concatBytes([[1, isRaw ? 0x55 : 0x70, 0x12, 32], hash]), size, total }
}

/** Creates a node that links to trees. The links have hash, empty name and size; the UnixFS sizes follow them. */
async function createParentNode(trees: readonly Tree[]): Promise<Tree> {
  const links: number[] = []
  const sizes: number[] = []
  let size = 0
  let total = 0
  for (const tree of trees) {
    links.push(...encodeField(0x12, [...encodeField(0x0a, [...tree.cid]), 0x12, 0, 0x18, ...encodeVarint(tree.total)]))
    sizes.push(0x20, ...encodeVarint(tree.size))
    size += tree.size
    total += tree.total
  }
  const node = Uint8Array.from([...links, ...encodeField(0x0a, [0x08, 2, 0x18, ...encodeVarint(size), ...sizes])])
  return createTree(false, node, size, node.length + total)
}

function encodeField(tag: number, bytes: readonly number[]): number[] {
  return [tag, ...encodeVarint(bytes.length), ...bytes]
}

/** Encodes a number as a protobuf varint: 7 bits per byte, the lowest first. */
function encodeVarint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...encodeVarint(value >> 7)]
}

/** Encodes a CID of 36 bytes as text: the prefix `b`, then base32 in lower case without padding. */
export function encodeBase32(bytes: Bytes): string {
  const digits = (BigInt(`0x0${encodeHex(bytes)}`) << 2n).toString(32).padStart(58, '0')
  return `b${digits.replace(/./g, encodeDigit)}`
}

/** Converts a digit of JavaScript (0 to 9, then letters) to one of RFC 4648's base32 (a to z, then 2 to 7). */
function encodeDigit(digit: string): string {
  const value = parseInt(digit, 32)
  return (value < 26 ? value + 10 : value - 24).toString(36)
}

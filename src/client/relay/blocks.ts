import { MISMATCH, NOT_FOUND } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { ask, readAtMost, withoutSlash, type Service } from '../request.js'
import { hexOf, joined, type Bytes } from '../seal.js'

/** How every IPFS node splits content, so that its cid is ours: bytes of a leaf, and links of a node above leaves. */
const LEAF_BYTES = 262_144
const MAX_LINKS = 174

/** A block, or a tree of blocks, by its root. */
interface Tree {
  cid: Bytes
  /** Of the content below. */
  size: number
  /** Of all blocks from the root down. */
  total: number
}

/** The cid of content: CIDv1, SHA2-256, UnixFS, raw leaves of 256 KiB, balanced with 174 links a node. */
export async function cidOf(content: Bytes): Promise<string> {
  const leaves = split(content.length, LEAF_BYTES, (start, end) => treeOf(true, content.subarray(start, end)))
  let level = await Promise.all(leaves)
  while (level[1]) {
    const trees = level
    level = await Promise.all(split(trees.length, MAX_LINKS, (start, end) => above(trees.slice(start, end))))
  }
  return level.map(({ cid }) => encodeBase32(cid)).join()
}

/** What is made of each part of a length; of one part where there is nothing. */
function split<T>(length: number, size: number, make: (start: number, end: number) => T): T[] {
  return Array.from({ length: Math.ceil(length / size) || 1 }, (_, index) => make(index * size, (index + 1) * size))
}

/** Whether a text is a cid of such a block: SHA2-256, raw or dag-pb. */
const isCid = (text: string): boolean => /^baf(?:krei|ybei)[a-z2-7]{52}$/.test(text)

/** Whether bytes are the block that a cid names. */
export async function isBlockOf(cid: string, bytes: Bytes): Promise<boolean> {
  return encodeBase32((await treeOf(isLeaf(cid), bytes)).cid) === cid
}

/** Whether a block is content itself: `bafkrei` is raw, `bafybei` dag-pb. */
function isLeaf(cid: string): boolean {
  return cid.startsWith('bafk')
}

/**
 * The cids that a node of ours links to, in order: links stand first, and each is shorter than 128 bytes. Other nodes are
 * of no file that was sent, so what is made of them cannot be decrypted.
 */
export function linksOf(node: Bytes): string[] {
  const cids: string[] = []
  // Tag 0x12 and length of the link, tag and length of its hash, the hash.
  for (let start = 0; node[start] === 0x12; start += 2 + (node[start + 1] ?? 0)) {
    cids.push(encodeBase32(node.subarray(start + 4, start + 40)))
  }
  return cids
}

async function treeOf(isRaw: boolean, bytes: Bytes, size = bytes.length, total = size): Promise<Tree> {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return { cid: joined([Uint8Array.of(1, isRaw ? 0x55 : 0x70, 0x12, 32), hash]), size, total }
}

/** The node that links to trees: each link has hash, empty name and size. Then the sizes as UnixFS has them. */
async function above(trees: readonly Tree[]): Promise<Tree> {
  const links: number[] = []
  const sizes: number[] = []
  let size = 0
  let total = 0
  for (const tree of trees) {
    links.push(...field(0x12, [...field(0x0a, [...tree.cid]), 0x12, 0, 0x18, ...varint(tree.total)]))
    sizes.push(0x20, ...varint(tree.size))
    size += tree.size
    total += tree.total
  }
  const node = Uint8Array.from([...links, ...field(0x0a, [0x08, 2, 0x18, ...varint(size), ...sizes])])
  return treeOf(false, node, size, node.length + total)
}

function field(tag: number, bytes: readonly number[]): number[] {
  return [tag, ...varint(bytes.length), ...bytes]
}

/** A number as protobuf writes it: 7 bits a byte, the lowest first. */
function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)]
}

/** As IPFS writes a cid of 36 bytes: lower case, without padding, `b` before it. */
function encodeBase32(bytes: Bytes): string {
  const digits = (BigInt(`0x0${hexOf(bytes)}`) << 2n).toString(32).padStart(58, '0')
  return `b${digits.replace(/./g, letterOf)}`
}

/** JavaScript counts 0 to 9, then letters; base32 of RFC 4648 a to z, then 2 to 7. */
function letterOf(digit: string): string {
  const value = parseInt(digit, 32)
  return (value < 26 ? value + 10 : value - 24).toString(36)
}

/**
 * Reads a file from an IPFS gateway, block by block. Each block is compared with its cid, from the root down, so that
 * the gateway need not be trusted.
 *
 * @throws DidAuthClientError MISMATCH, NOT_FOUND; else as `ask`
 * @see https://specs.ipfs.tech/http-gateways/trustless-gateway/
 */
export async function readFromGateway(relay: Service, url: string, cid: string, signal: AbortSignal): Promise<Bytes> {
  const gateway: Service = {
    ...relay,
    url: withoutSlash(url),
    init: { credentials: 'omit' },
    meaningOf: (status) => status === 404 && NOT_FOUND,
    read: (response) => readAtMost(LEAF_BYTES, response)
  }
  // Of one file: 64 MiB are 256 leaves and 3 nodes.
  let left = 300
  const read = async (block: string): Promise<Bytes> => {
    // Gateways differ in whether they look at the query or at the header.
    const headers = { Accept: 'application/vnd.ipld.raw' }
    const { body } = await ask(gateway, { path: `/ipfs/${block}?format=raw`, headers, signal })
    if (!(await isBlockOf(block, body))) throw new DidAuthClientError(MISMATCH)
    if (isLeaf(block)) return body
    // A node that was made to harm links to more than a file of ours, or to something else.
    const links = linksOf(body)
    left -= links.length
    if (left < 0 || links.length > MAX_LINKS || !links.every(isCid)) throw new DidAuthClientError(MISMATCH)
    const parts: Bytes[] = []
    // A few at once, of one node.
    while (links.length) parts.push(...(await Promise.all(links.splice(0, 8).map(read))))
    return joined(parts)
  }
  return read(cid)
}

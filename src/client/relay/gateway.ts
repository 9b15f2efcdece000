import { MISMATCH, NOT_FOUND } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { ask, parseServiceUrl, readAtMost, type Service } from '../request.js'
import { concatBytes, type Bytes } from '../seal.js'
import { encodeBase32, LEAF_BYTES, MAX_LINKS, createTree } from './blocks.js'

/** Whether a text is a cid of such a block: SHA2-256, raw or dag-pb. */
const isCid = (text: string): boolean => /^baf(?:krei|ybei)[a-z2-7]{52}$/.test(text)

/** Whether bytes are the block that a cid names. */
export async function hasCid(cid: string, bytes: Bytes): Promise<boolean> {
  return encodeBase32((await createTree(isLeaf(cid), bytes)).cid) === cid
}

/** Whether a block is content itself: `bafkrei` is raw, `bafybei` dag-pb. */
function isLeaf(cid: string): boolean {
  return cid.startsWith('bafk')
}

/**
 * Returns the cids that a node links to, in order: links are first, and each is shorter than 128 bytes. Other nodes
 * are of no file that was sent, so what is made of them cannot be decrypted.
 */
export function readLinks(node: Bytes): string[] {
  const cids: string[] = []
  // Tag 0x12 and length of the link, tag and length of its hash, the hash.
  for (let start = 0; node[start] === 0x12; start += 2 + (node[start + 1] ?? 0)) {
    cids.push(encodeBase32(node.subarray(start + 4, start + 40)))
  }
  return cids
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
    url: parseServiceUrl(url),
    init: { credentials: 'omit' },
    findErrorKind: (status) => status === 404 && NOT_FOUND,
    read: (response) => readAtMost(LEAF_BYTES, response)
  }
  // Limit of blocks for one file: 64 MiB are 256 leaves and 3 nodes.
  let left = 300
  const read = async (block: string): Promise<Bytes> => {
    // Gateways differ in whether they look at the query or at the header.
    const headers = { Accept: 'application/vnd.ipld.raw' }
    const { body } = await ask(gateway, { path: `/ipfs/${block}?format=raw`, headers, signal })
    if (!(await hasCid(block, body))) throw new DidAuthClientError(MISMATCH)
    if (isLeaf(block)) return body
    // A malicious node links to more blocks than a file can have, or to something else.
    const links = readLinks(body)
    left -= links.length
    if (left < 0 || links.length > MAX_LINKS || !links.every(isCid)) throw new DidAuthClientError(MISMATCH)
    const parts: Bytes[] = []
    // Read a few children of one node at once.
    while (links.length) parts.push(...(await Promise.all(links.splice(0, 8).map(read))))
    return concatBytes(parts)
  }
  return read(cid)
}

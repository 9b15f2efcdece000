import { MISMATCH, NOT_FOUND } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { ask, parseServiceUrl, readAtMost, type Service } from '../wire/request.js'
import { concatBytes, type Bytes } from '../wire/seal.js'
import { encodeBase32, LEAF_BYTES, MAX_LINKS, createTree } from './blocks.js'

/** Whether a text is the CID of a raw or dag-pb block with SHA2-256. */
const isCid = (text: string): boolean => /^baf(?:krei|ybei)[a-z2-7]{52}$/.test(text)

/** Whether bytes match a CID. */
export async function hasCid(cid: string, bytes: Bytes): Promise<boolean> {
  return encodeBase32((await createTree(isLeaf(cid), bytes)).cid) === cid
}

/** Whether a block is raw content: the prefix is `bafkrei` for raw, `bafybei` for dag-pb. */
function isLeaf(cid: string): boolean {
  return cid.startsWith('bafk')
}

/**
 * Returns the CIDs that a node links to, in order. It expects the links at the beginning, each shorter than 128 bytes,
 * as in all nodes of sent files. For any other node the result is useless, and its content cannot be decrypted.
 */
export function readLinks(node: Bytes): string[] {
  const cids: string[] = []
  // A link has the tag 0x12, its length, the tag and length of the hash, and the hash.
  for (let start = 0; node[start] === 0x12; start += 2 + (node[start + 1] ?? 0)) {
    cids.push(encodeBase32(node.subarray(start + 4, start + 40)))
  }
  return cids
}

/**
 * Reads a file from an IPFS gateway, block by block. It verifies each block against its CID from the root down, so the
 * gateway need not be trusted.
 *
 * @throws DidAuthClientError MISMATCH, NOT_FOUND; otherwise as `ask`
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
  // Maximum number of blocks per file. A file of 64 MiB has 256 leaves and 3 nodes.
  let left = 300
  const read = async (block: string): Promise<Bytes> => {
    // Some gateways read the format from the query, others from the header.
    const headers = { Accept: 'application/vnd.ipld.raw' }
    const { body } = await ask(gateway, { path: `/ipfs/${block}?format=raw`, headers, signal })
    if (!(await hasCid(block, body))) throw new DidAuthClientError(MISMATCH)
    if (isLeaf(block)) return body
    // Rejects malicious nodes, which link to too many blocks or to other content.
    const links = readLinks(body)
    left -= links.length
    if (left < 0 || links.length > MAX_LINKS || !links.every(isCid)) throw new DidAuthClientError(MISMATCH)
    const parts: Bytes[] = []
    // Reads at most 8 children of a node at once.
    while (links.length) parts.push(...(await Promise.all(links.splice(0, 8).map(read))))
    return concatBytes(parts)
  }
  return read(cid)
}

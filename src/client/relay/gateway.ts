import { MISMATCH, NOT_FOUND } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { exchange, refusalOf, type ExchangeOptions } from '../exchange.js'
import { withoutSlash } from '../requests.js'
import { joined, type Bytes } from '../seal.js'
import { isBlockOf, isCid, isLeaf, LEAF_BYTES, linksOf, MAX_LINKS } from './cid.js'

/** Of one file: 64 MiB are 256 leaves and 3 nodes. */
const MAX_BLOCKS = 300
/** Asked for at once, of one node. */
const AT_ONCE = 8

/**
 * Reads a file from an IPFS gateway, block by block. Each block is compared with its cid, from the root down, so that
 * the gateway need not be trusted.
 *
 * @param gateway - its URL, as in `https://ipfs.io`
 * @throws DidAuthClientError MISMATCH, NOT_FOUND; else as `exchange`
 * @see https://specs.ipfs.tech/http-gateways/trustless-gateway/
 */
export async function readFromGateway(gateway: string, cid: string, options: ExchangeOptions): Promise<Bytes> {
  let left = MAX_BLOCKS
  const read = async (block: string): Promise<Bytes> => {
    const answer = await exchange(
      `${withoutSlash(gateway)}/ipfs/${block}?format=raw`,
      // Gateways differ in which of the two they look at.
      { headers: { Accept: 'application/vnd.ipld.raw' }, credentials: 'omit' },
      LEAF_BYTES,
      options
    )
    const { status, body } = answer
    if (status !== 200) throw status === 404 ? new DidAuthClientError(NOT_FOUND) : refusalOf(answer)
    if (!(await isBlockOf(block, body))) throw new DidAuthClientError(MISMATCH)
    if (isLeaf(block)) return body
    // A node that was made to harm links to more than a file of ours, or to something else.
    const links = linksOf(body)
    left -= links.length
    if (left < 0 || links.length > MAX_LINKS || !links.every(isCid)) throw new DidAuthClientError(MISMATCH)
    const parts: Bytes[] = []
    while (links.length) parts.push(...(await Promise.all(links.splice(0, AT_ONCE).map(read))))
    return joined(parts)
  }
  return read(cid)
}

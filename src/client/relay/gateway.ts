import { ContentError } from '../content-errors.js'
import { exchange, refusalOf, type ExchangeOptions } from '../exchange.js'
import { joined, type Bytes } from '../seal.js'
import { isBlockOf, isLeaf, LEAF_BYTES, linksOf } from './cid.js'

/** Of one file: 64 MiB are 256 leaves and 3 nodes. */
const MAX_BLOCKS = 300

/**
 * Reads a file from an IPFS gateway, block by block. Each block is compared with its cid, from the root down, so that
 * the gateway need not be trusted.
 *
 * @param gateway - its URL, as in `https://ipfs.io`
 * @throws ContentError `mismatch`, `notFound`; else as `exchange`
 * @see https://specs.ipfs.tech/http-gateways/trustless-gateway/
 */
export async function readFromGateway(gateway: string, cid: string, options: ExchangeOptions): Promise<Bytes> {
  let left = MAX_BLOCKS
  const read = async (block: string): Promise<Bytes> => {
    left -= 1
    const answer = await exchange(`${gateway}/ipfs/${block}?format=raw`, { credentials: 'omit' }, LEAF_BYTES, options)
    const { status, body } = answer
    if (status !== 200) throw status === 404 ? new ContentError('notFound') : refusalOf(answer)
    if (left < 0 || !(await isBlockOf(block, body))) throw new ContentError('mismatch')
    return isLeaf(block) ? body : joined(await Promise.all(linksOf(body).map(read)))
  }
  return read(cid)
}

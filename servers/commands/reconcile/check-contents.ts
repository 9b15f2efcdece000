import { ServerError } from '../../http/server-error.js'
import type { IpfsNode } from '../../ipfs/ipfs-node.js'
import type { CheckMode, ContentInfo, ContentReads, StoredContent } from '../../storage/content-store.js'
import type { ContentInspection } from '../../storage/sql/inspection-steps.js'
import { newContentOf } from '../../storage/unixfs-blocks.js'
import { isMissing } from '../../storage/storage-error.js'

const BATCH = 100

/** What the check works on. */
export interface CheckContentsParts {
  store: ContentReads
  inspection: Pick<ContentInspection, 'listUsedContents' | 'countUses'>
  /** Undefined: none is configured. */
  node: Pick<IpfsNode, 'read'> | undefined
}

/** What the check found. */
export interface CheckedContents {
  total: number
  /** Put back from the node, or could be. */
  repaired: number
  /** Cids. */
  missing: readonly string[]
}

/** Reads all content that is in use and verifies it. What is missing or damaged is fetched from the node and put back. */
export async function checkContents(parts: CheckContentsParts, { isDryRun }: CheckMode): Promise<CheckedContents> {
  const found = { total: 0, repaired: 0, missing: [] as string[] }
  let node = parts.node
  let after = ''
  for (;;) {
    const batch = await parts.inspection.listUsedContents(after, BATCH)
    const contents = await parts.store.readContents(batch.map(({ cid }) => cid))
    for (const [index, info] of batch.entries()) {
      found.total += 1
      if (await isWhole(contents[index])) continue
      // Beside a running server, its last entry may have been deleted meanwhile.
      if (contents[index] === undefined && !(await isUsed(parts.inspection, info.cid))) continue
      const outcome = node === undefined ? 'missing' : await repair({ ...parts, node }, info, isDryRun)
      // A node that is unavailable is not asked again for each.
      if (outcome === 'unavailable') node = undefined
      if (outcome === 'repaired') found.repaired += 1
      else found.missing.push(info.cid)
    }
    const last = batch.at(-1)
    if (last === undefined) return found
    after = last.cid
  }
}

async function isWhole(content: StoredContent | undefined): Promise<boolean> {
  if (content === undefined) return false
  try {
    // Each piece is verified by reading it.
    for await (const _piece of await content.pieces());
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

async function isUsed(inspection: Pick<ContentInspection, 'countUses'>, cid: string): Promise<boolean> {
  const { entries } = await inspection.countUses(cid)
  return entries > 0
}

async function repair(
  { store, node }: Pick<CheckContentsParts, 'store'> & { node: Pick<IpfsNode, 'read'> },
  { cid, byteCount }: ContentInfo,
  isDryRun: boolean
): Promise<'repaired' | 'missing' | 'unavailable'> {
  try {
    const content = newContentOf(await node.read(cid, byteCount))
    if (content.cid !== cid) return 'missing'
    if (!isDryRun) await store.repairContent(content)
    return 'repaired'
  } catch (error) {
    if (!(error instanceof ServerError) || !error.code.startsWith('ERR_IPFS_')) throw error
    return error.code === 'ERR_IPFS_UNAVAILABLE' ? 'unavailable' : 'missing'
  }
}

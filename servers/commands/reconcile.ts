import { readEnv } from '../config/read-env.js'
import { ServerError } from '../http/server-error.js'
import type { IpfsNode } from '../ipfs/ipfs-node.js'
import { ipfsHttpNode } from '../ipfs/ipfs-rpc-client.js'
import { assertIpfsClientInstalled } from '../ipfs/load-ipfs-client.js'
import { Connections } from '../storage/connections.js'
import type { ContentInfo, ContentReads, StoredContent } from '../storage/content-store.js'
import { openExistingContents } from '../storage/engine.js'
import type { PinLedger } from '../storage/pin-ledger.js'
import type { ContentInspection } from '../storage/sql/inspection-steps.js'
import { isMissing } from '../storage/storage-error.js'
import { newContentOf } from '../storage/unixfs-blocks.js'
import { readArguments, type CommandLine } from './command-line.js'

const OPTIONS = { 'accept-damage': { type: 'boolean' }, 'dry-run': { type: 'boolean' } } as const
/** Contents that are looked up at once. */
const BATCH = 100
const MAX_NAMED = 10
const REMEDY = 'with entries missing or changed (restore the last backup, or reconcile --accept-damage)'

/** What `reconcile` works on. */
export interface ReconcileParts {
  store: ContentReads & PinLedger
  inspection: ContentInspection
  /** Undefined: none is configured. */
  node: Pick<IpfsNode, 'read' | 'listPins'> | undefined
  /** Nothing is written then. */
  isDryRun: boolean
  /** Lists that lost entries keep those that are left. */
  acceptsDamage: boolean
}

/** What a check found: a line for the operator, and how much of it is not, or not yet, in order. */
interface Finding {
  text: string
  faults: number
}

/**
 * `vault reconcile`, also beside its server: changes the database and the pin ledger; the server carries out what the
 * ledger says.
 *
 * @returns the exit code: 0 all is in order, 1 it is not
 * @throws UsageError; StartError when there is no vault, or its database cannot be opened
 */
export async function runReconcile({ args, env: given, out }: CommandLine): Promise<number> {
  const { values } = readArguments(args, OPTIONS, [0, 0])
  const [isDryRun, acceptsDamage] = [values['dry-run'] === true, values['accept-damage'] === true]
  const env = readEnv(given, 'vault', false, 'operate')
  if (env.IPFS_API_URL !== undefined) assertIpfsClientInstalled()
  const connections = await Connections.open(env)
  const { store, inspection } = await openExistingContents(env, connections)
  const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
  try {
    return (await reconcile({ store, inspection, node, isDryRun, acceptsDamage }, out)) ? 0 : 1
  } finally {
    node?.close()
    await store.close()
    await connections.close()
  }
}

/**
 * Compares database, index, content, counters and pins with each other and with the IPFS node, and repairs what can be
 * derived. It runs beside a running server as well. Pins change in the ledger only: the server carries them out.
 *
 * @param out - gets one line for each check
 * @returns whether all is in order now
 */
export async function reconcile(parts: ReconcileParts, out: (line: string) => void): Promise<boolean> {
  // What a damaged file answers to the other checks means nothing.
  const checks = [checkDatabase, checkContents, checkCounts, checkObjects, checkPins, checkNode, countOpenPins]
  let isInOrder = true
  for (const check of checks) {
    const { text, faults } = await check(parts)
    out(text)
    if (faults > 0) isInOrder = false
    if (faults > 0 && check === checkDatabase) break
  }
  return isInOrder
}

async function checkDatabase({ inspection, isDryRun }: ReconcileParts): Promise<Finding> {
  const { damage, indexes } = await inspection.checkDatabase({ isDryRun })
  if (damage.length > 0) {
    const remedy = 'Stop the server, keep a copy of the folder, and restore the last backup.'
    return { text: `database: the file is damaged: ${named(damage)}. ${remedy}`, faults: damage.length }
  }
  if (indexes.length === 0) return { text: 'database: sound', faults: 0 }
  const text = `database: damaged indexes ${isDryRun ? 'to rebuild' : 'rebuilt'}: ${named(indexes)}`
  return { text, faults: isDryRun ? indexes.length : 0 }
}

/** Reads all content that is in use and verifies it. What is missing or damaged is restored from the node. */
async function checkContents(parts: ReconcileParts): Promise<Finding> {
  const { store, inspection, isDryRun } = parts
  let { node } = parts
  let [total, repaired] = [0, 0]
  const missing: string[] = []
  for (let after: string | undefined = ''; after !== undefined;) {
    const batch: ContentInfo[] = await inspection.listUsedContents(after, BATCH)
    const contents = await store.readContents(batch.map(({ cid }) => cid))
    for (const [index, info] of batch.entries()) {
      total += 1
      if (await isWhole(contents[index])) continue
      // Beside a running server, its last entry may have been deleted meanwhile.
      if (contents[index] === undefined && (await inspection.countUses(info.cid)).entries === 0) continue
      const outcome = node === undefined ? 'missing' : await repair(store, node, info, isDryRun)
      // A node that is unavailable is not asked again for each.
      if (outcome === 'unavailable') node = undefined
      if (outcome === 'repaired') repaired += 1
      else missing.push(info.cid)
    }
    after = batch.at(-1)?.cid
  }
  const text = [
    `content: ${counted(total, 'content')} in use`,
    ...(repaired > 0 ? [`${repaired} ${isDryRun ? 'to put back' : 'put back'} from the IPFS node`] : []),
    ...(missing.length > 0 ? [`${missing.length} missing: ${named(missing)}`] : []),
    ...(repaired + missing.length === 0 ? ['all undamaged'] : [])
  ].join(', ')
  return { text, faults: missing.length + (isDryRun ? repaired : 0) }
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

async function repair(
  store: ContentReads,
  node: Pick<IpfsNode, 'read'>,
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

async function checkCounts({ inspection, isDryRun, acceptsDamage }: ReconcileParts): Promise<Finding> {
  const { owners, damagedLists, unusedContents } = await inspection.recount({ isDryRun, acceptsDamage })
  const done = isDryRun ? 'to ' : ''
  const isAccepted = acceptsDamage && !isDryRun
  const damagedPlaces = damagedLists.map(({ did, key }) => `${did} ${JSON.stringify(key)}`)
  const damagedText = `${counted(damagedLists.length, 'list')} ${isAccepted ? 'accepted with what is left' : REMEDY}`
  const text = [
    ...(owners > 0 ? [`usage ${done}${isDryRun ? 'correct' : 'corrected'} for ${counted(owners, 'user')}`] : []),
    ...(unusedContents > 0
      ? [`${counted(unusedContents, 'unused content')} ${done}${isDryRun ? 'delete' : 'deleted'}`]
      : []),
    ...(damagedLists.length > 0 ? [`${damagedText}: ${named(damagedPlaces)}`] : [])
  ]
  const lost = isAccepted ? 0 : damagedLists.length
  const faults = lost + (isDryRun ? owners + unusedContents : 0)
  return { text: `index: ${text.length === 0 ? 'right for all users' : text.join(', ')}`, faults }
}

async function checkObjects({ inspection, isDryRun }: ReconcileParts): Promise<Finding> {
  const { unused } = await inspection.checkObjects({ isDryRun })
  if (unused === 0) return { text: 'objects: all in use', faults: 0 }
  return { text: `objects: ${unused} unused, ${isDryRun ? 'to delete' : 'deleted'}`, faults: isDryRun ? unused : 0 }
}

async function checkPins({ inspection, node, isDryRun }: ReconcileParts): Promise<Finding> {
  // Without a node nothing is desired of one.
  if (node === undefined) return { text: 'pins: no IPFS node, IPFS_API_URL is not given', faults: 0 }
  const { toPin, toUnpin } = await inspection.trackPins({ isDryRun })
  if (toPin + toUnpin === 0) return { text: 'pins: desired for all content and nothing else', faults: 0 }
  const text = `pins: ${counted(toPin, 'content')} to pin, ${counted(toUnpin, 'content')} to unpin`
  return { text, faults: isDryRun ? toPin + toUnpin : 0 }
}

async function checkNode({ store, node, isDryRun }: ReconcileParts): Promise<Finding> {
  if (node === undefined) return { text: 'IPFS node: not compared', faults: 0 }
  try {
    const { missing, others } = await store.comparePins(() => node.listPins(), { isDryRun })
    const ours = missing === 0 ? 'has all pins of this vault' : `${counted(missing, 'pin')} missing, to pin again`
    return { text: `IPFS node: ${ours}, ${counted(others, 'pin')} of others`, faults: isDryRun ? missing : 0 }
  } catch (error) {
    if (!(error instanceof ServerError) || !error.code.startsWith('ERR_IPFS_')) throw error
    return { text: `IPFS node: its pins cannot be listed: ${error.message}`, faults: 1 }
  }
}

async function countOpenPins({ store, node }: ReconcileParts): Promise<Finding> {
  const open = await store.countOpen()
  const who = node === undefined ? 'they wait until there is an IPFS node' : 'the running server carries them out'
  return { text: open === 0 ? 'open: no pins' : `open: ${counted(open, 'pin')}, ${who}`, faults: 0 }
}

/** `no pins`, `1 pin`, `1,000 pins`. */
function counted(count: number, noun: string): string {
  return `${count === 0 ? 'no' : count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
}

/** Some of many names. */
function named(names: readonly string[]): string {
  const more = names.length - MAX_NAMED
  return names.slice(0, MAX_NAMED).join('; ') + (more > 0 ? ` and ${more} more` : '')
}

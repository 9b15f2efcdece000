import { readEnv } from '../config/read-env.js'
import { ServerError } from '../http/server-error.js'
import type { IpfsNode } from '../ipfs/ipfs-node.js'
import { createIpfsHttpNode } from '../ipfs/ipfs-rpc-client.js'
import type { ContentInfo, ContentReads, PinLedger } from '../content/content-store.js'
import { useExistingContents } from '../content/engine.js'
import type { ContentInspection } from '../content/sql/content-inspection.js'
import { isWhole } from '../content/sql/stored-content.js'
import { createNewContent } from '../content/unixfs-blocks.js'
import { readArguments, type CommandLine } from './command-line.js'

const OPTIONS = { 'accept-damage': { type: 'boolean' }, 'dry-run': { type: 'boolean' } } as const
/** Number of contents that are read from the store at once. */
const BATCH = 100
/** Maximum number of names in an output line. */
const MAX_NAMED = 10
const DAMAGE_AND_REMEDY = 'with missing or changed entries (restore the last backup, or run reconcile --accept-damage)'

/** Parts and options of `reconcile`. */
export interface ReconcileParts {
  store: ContentReads & PinLedger
  inspection: ContentInspection
  /** IPFS node; undefined if none is configured. */
  node: Pick<IpfsNode, 'read' | 'listPins'> | undefined
  isDryRun: boolean
  /** Whether lists with lost entries are accepted with their remaining entries. */
  acceptsDamage: boolean
}

/**
 * Result of a check. Each line with a count above 0 is printed; if there is none, `sound` is printed instead.
 * `isInOrder` is false for a line that reports a fault which is not repaired.
 */
type Finding = readonly [sound: string, ...lines: (readonly [count: number, text: string, isInOrder: boolean])[]]

/**
 * Runs `vault reconcile`. @returns the exit code: 0 if all is in order, otherwise 1
 * @throws UsageError; StartError if there is no vault, or its database cannot be opened
 */
export async function runReconcile({ args, env: variables, out }: CommandLine): Promise<number> {
  const { values } = readArguments(args, OPTIONS, [0, 0])
  const [isDryRun, acceptsDamage] = [values['dry-run'] === true, values['accept-damage'] === true]
  const env = readEnv(variables, 'vault', false, 'operate')
  return useExistingContents(env, async ({ store, inspection }) => {
    const node = env.IPFS_API_URL === undefined ? undefined : createIpfsHttpNode(env.IPFS_API_URL)
    const result = reconcile({ store, inspection, node, isDryRun, acceptsDamage }, out)
    return (await result.finally(() => node?.close())) ? 0 : 1
  })
}

/**
 * Compares database, index, content, counters and pins with each other and with the IPFS node. It repairs everything
 * that other data or the node can restore. A server may run at the same time. The command changes pins only in the
 * ledger; the server then changes them on the node.
 *
 * @returns whether all is in order now
 */
export async function reconcile(parts: ReconcileParts, out: (line: string) => void): Promise<boolean> {
  let areInOrder = true
  for (const [subject, check] of Object.entries(CHECKS)) {
    const [sound, ...lines] = await check(parts)
    const relevantLines = lines.filter(([count]) => count > 0)
    out(`${subject}: ${relevantLines.map(([, text]) => text).join(', ') || sound}`)
    areInOrder &&= relevantLines.every(([, , isInOrder]) => isInOrder)
    // Results of the other checks would be meaningless for a damaged file.
    if (!areInOrder && check === checkDatabase) break
  }
  return areInOrder
}

const CHECKS: Readonly<Record<string, (parts: ReconcileParts) => Promise<Finding>>> = {
  database: checkDatabase,
  content: checkContents,
  index: checkCounts,
  objects: checkObjects,
  pins: checkPins,
  'IPFS node': checkNode,
  open: countOpenPins
}

async function checkDatabase({ inspection, isDryRun }: ReconcileParts): Promise<Finding> {
  const { damage, indexes } = await inspection.checkDatabase({ isDryRun })
  const remedy = 'Stop the server, keep a copy of the folder, and restore the last backup.'
  if (damage.length > 0) return ['', [1, `the file is damaged: ${formatNames(damage)}. ${remedy}`, false]]
  const state = isDryRun ? 'to rebuild' : 'rebuilt'
  return ['sound', [indexes.length, `damaged indexes ${state}: ${formatNames(indexes)}`, !isDryRun]]
}

/** Reads and verifies all content in use. Missing or damaged content is restored from the IPFS node. */
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
      // A running server may have deleted the last entry of this content in the meantime.
      if (contents[index] === undefined && (await inspection.countEntries(info.cid)) === 0) continue
      const outcome = await repair({ ...parts, node }, info)
      // An unavailable node is not asked again for every missing content.
      if (outcome === 'unavailable') node = undefined
      if (outcome === 'repaired') repaired += 1
      else missing.push(info.cid)
    }
    after = batch.at(-1)?.cid
  }
  return [
    '',
    [1, `${formatCount(total, 'content')} in use`, true],
    [repaired, `${repaired} ${isDryRun ? 'to restore' : 'restored'} from the IPFS node`, !isDryRun],
    [missing.length, `${missing.length} missing: ${formatNames(missing)}`, false],
    [repaired + missing.length === 0 ? 1 : 0, 'all undamaged', true]
  ]
}

async function repair(
  { store, node, isDryRun }: ReconcileParts,
  { cid, byteCount }: ContentInfo
): Promise<'repaired' | 'missing' | 'unavailable'> {
  if (node === undefined) return 'missing'
  try {
    const content = createNewContent(await node.read(cid, byteCount))
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
  const isAccepted = acceptsDamage && !isDryRun
  const places = formatNames(damagedLists.map(({ did, key }) => `${did} ${JSON.stringify(key)}`))
  const damage = isAccepted ? 'accepted with the remaining entries' : DAMAGE_AND_REMEDY
  return [
    'correct for all users',
    [owners, `usage ${isDryRun ? 'to correct' : 'corrected'} for ${formatCount(owners, 'user')}`, !isDryRun],
    [
      unusedContents,
      `${formatCount(unusedContents, 'unused content')} ${isDryRun ? 'to delete' : 'deleted'}`,
      !isDryRun
    ],
    [damagedLists.length, `${formatCount(damagedLists.length, 'list')} ${damage}: ${places}`, isAccepted]
  ]
}

async function checkObjects({ inspection, isDryRun }: ReconcileParts): Promise<Finding> {
  const unused = await inspection.checkObjects({ isDryRun })
  return ['all in use', [unused, `${unused} unused, ${isDryRun ? 'to delete' : 'deleted'}`, !isDryRun]]
}

async function checkPins({ inspection, node, isDryRun }: ReconcileParts): Promise<Finding> {
  // The store records no desired pins unless a node is configured, so there is nothing to compare.
  if (node === undefined) return ['not compared, because no IPFS node is configured (IPFS_API_URL)']
  const { toPin, toUnpin } = await inspection.trackPins({ isDryRun })
  const text = `${formatCount(toPin, 'content')} to pin, ${formatCount(toUnpin, 'content')} to unpin`
  return ['match the stored content', [toPin + toUnpin, text, !isDryRun]]
}

async function checkNode({ store, node, isDryRun }: ReconcileParts): Promise<Finding> {
  if (node === undefined) return ['not configured']
  try {
    const { missing, others } = await store.comparePins(() => node.listPins(), { isDryRun })
    const otherPins = formatCount(others, 'other pin')
    const text = `${formatCount(missing, 'missing pin')} to add again, ${otherPins}`
    return [`has all pins of this vault, ${otherPins}`, [missing, text, !isDryRun]]
  } catch (error) {
    if (!(error instanceof ServerError) || !error.code.startsWith('ERR_IPFS_')) throw error
    return ['', [1, `cannot list its pins: ${error.message}`, false]]
  }
}

async function countOpenPins({ store, node }: ReconcileParts): Promise<Finding> {
  const open = await store.countOpen()
  const nextStep =
    node === undefined ? 'waiting until an IPFS node is configured' : 'which the running server adds or removes'
  return ['no pins', [open, `${formatCount(open, 'pin')}, ${nextStep}`, true]]
}

/** Formats a count with its noun: `no pins`, `1 pin`, `1,000 pins`. */
function formatCount(count: number, noun: string): string {
  return `${count === 0 ? 'no' : count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
}

function formatNames(names: readonly string[]): string {
  const more = names.length - MAX_NAMED
  return names.slice(0, MAX_NAMED).join('; ') + (more > 0 ? ` and ${more} more` : '')
}

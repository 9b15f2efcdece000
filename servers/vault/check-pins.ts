import { ServerError } from '../shared/server-error.js'
import type { CheckParts } from './check-contents.js'
import { counted, type Finding } from './finding.js'
import type { PinIntents } from './pin-intents.js'

const BATCH = 500

/** What the check of pins works on, besides. */
export interface PinCheckParts extends CheckParts {
  intents: PinIntents
}

const UNWANTED = `
  SELECT cid FROM vault_pins WHERE cid > ? AND state <> 'unpin' AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.cid = vault_pins.cid)
  ORDER BY cid LIMIT ?`

const UNMINDED = `
  SELECT DISTINCT cid FROM entries
  WHERE cid > ? AND NOT EXISTS (SELECT 1 FROM vault_pins WHERE vault_pins.cid = entries.cid AND state <> 'unpin')
  ORDER BY cid LIMIT ?`

/** Whether exactly the contents of entries are to be pinned: also the way to turn a node on later. */
export function checkIntents(parts: PinCheckParts): Finding {
  const { index, intents } = parts
  const unwanted = changeEach(parts, UNWANTED, (cid) => {
    if (!index.isHeld(cid)) intents.unwant(cid)
  })
  const wanted = changeEach(parts, UNMINDED, (cid) => {
    if (index.isHeld(cid)) intents.want(cid)
  })
  const repairs = unwanted + wanted
  const text =
    repairs === 0
      ? 'pins: wanted for all content and nothing else'
      : `pins: ${counted(wanted, 'content')} to pin, ${counted(unwanted, 'content')} to unpin`
  return { text, repairs, faults: 0 }
}

/** Whether the node has what it pinned for this vault. Pins of others are left alone. */
export async function checkNode(parts: PinCheckParts): Promise<Finding> {
  const { database, intents, node } = parts
  if (node === undefined) return { text: 'IPFS node: none, IPFS_API_URL is not given', repairs: 0, faults: 0 }
  // As it was before the node is asked: its answer lacks what is pinned meanwhile, and has what is unpinned meanwhile.
  database.exec(`
    CREATE TEMP TABLE pins_before AS SELECT cid, revision, state FROM vault_pins;
    CREATE UNIQUE INDEX temp.pins_before_by_cid ON pins_before (cid)`)
  try {
    const onNode = await node.listPins()
    let others = 0
    const wasOurs = database.prepare<[string]>('SELECT 1 FROM pins_before WHERE cid = ?')
    for (const cid of onNode) {
      if (wasOurs.get(cid) === undefined && intents.find(cid) === undefined) others += 1
    }
    const known = "SELECT cid FROM pins_before WHERE cid > ? AND state = 'pinned' ORDER BY cid LIMIT ?"
    const unchanged = database.prepare<[string]>(
      "SELECT 1 FROM vault_pins JOIN pins_before USING (cid, revision, state) WHERE cid = ? AND state = 'pinned'"
    )
    const isMissing = (cid: string): boolean => !onNode.has(cid) && unchanged.get(cid) !== undefined
    const missing = changeEach(
      parts,
      known,
      (cid) => {
        intents.pinAgain(cid)
      },
      isMissing
    )
    const text = `IPFS node: ${missing === 0 ? 'has all pins of this vault' : `${counted(missing, 'pin')} lost, to pin again`}, ${counted(others, 'pin')} of others left alone`
    return { text, repairs: missing, faults: 0 }
  } catch (error) {
    if (!(error instanceof ServerError)) throw error
    return { text: `IPFS node: its pins cannot be listed: ${error.message}`, repairs: 0, faults: 1 }
  } finally {
    database.exec('DROP TABLE pins_before')
  }
}

/** Changes what a query finds, in short transactions, and answers how many that were. */
function changeEach(
  { database, isDryRun }: CheckParts,
  query: string,
  change: (cid: string) => void,
  isMeant: (cid: string) => boolean = () => true
): number {
  const next = database.prepare<[string, number], string>(query).pluck()
  let count = 0
  let batch = next.all('', BATCH)
  while (batch.length > 0) {
    const meant = batch.filter(isMeant)
    count += meant.length
    const changeAll = database.transaction(() => {
      for (const cid of meant) change(cid)
    })
    if (!isDryRun && meant.length > 0) changeAll.immediate()
    batch = next.all(batch.at(-1) ?? '', BATCH)
  }
  return count
}

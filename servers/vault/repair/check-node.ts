import { ServerError } from '../../shared/http/server-error.js'
import { changeEach } from './change-each.js'
import type { PinCheckParts } from './check-intents.js'
import { counted, type Finding } from './finding.js'

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
    const stillToPin = database
      .prepare<[], string>(
        "SELECT cid FROM vault_pins JOIN pins_before USING (cid, revision, state) WHERE state = 'pin'"
      )
      .pluck()
      .all()
      .filter((cid) => !onNode.has(cid)).length
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
    const hasAll = stillToPin === 0 ? 'has all pins of this vault' : 'has all that was pinned before'
    const text = [
      `IPFS node: ${missing === 0 ? hasAll : `${counted(missing, 'pin')} lost, to pin again`}`,
      ...(stillToPin > 0 ? [`${counted(stillToPin, 'content')} still to pin`] : []),
      `${counted(others, 'pin')} of others left alone`
    ].join(', ')
    return { text, repairs: missing, faults: 0 }
  } catch (error) {
    if (!(error instanceof ServerError)) throw error
    return { text: `IPFS node: its pins cannot be listed: ${error.message}`, repairs: 0, faults: 1 }
  } finally {
    database.exec('DROP TABLE pins_before')
  }
}

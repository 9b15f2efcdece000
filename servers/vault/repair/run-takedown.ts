import { ServerError } from '../../shared/http/server-error.js'
import type { IpfsNode } from '../../shared/ipfs/ipfs-node.js'
import type { PinState } from '../pins/pin-intents.js'
import type { PinOutbox } from '../pins/pin-outbox.js'
import { counted } from './finding.js'
import { takeDown, type TakedownParts } from './takedown.js'
import { truncateLog } from './truncate-log.js'

/** What the command works on. */
export interface RunTakedownParts extends TakedownParts {
  /** Undefined: none is configured. */
  node: Pick<IpfsNode, 'isPinned'> | undefined
  outbox: Pick<PinOutbox, 'settle'> | undefined
}

/**
 * Takes content down and says what is removed and what is not.
 *
 * @param out - gets each line of the report
 * @returns the exit code: 0 all is removed, or will be by the server; 1 no entry has it, or something may be left
 */
export async function runTakedown(
  parts: RunTakedownParts,
  cid: string,
  isDryRun: boolean,
  out: (line: string) => void
): Promise<number> {
  const { entryCount, userCount, isOutOfFile } = takeDown(parts, cid, isDryRun)
  if (entryCount === 0) out(`No entry has the content ${cid}.`)
  else
    out(
      `${isDryRun ? 'Would remove' : 'Removed'} ${counted(entryCount, 'entry', 'entries')} of ${counted(userCount, 'user')}.`
    )
  if (!isOutOfFile)
    out('Parts of it may be left in vault.db while other content is damaged: run vault reconcile, then this again.')
  // Also where no entry has it: who had it may have deleted it just now.
  const isOutOfLog = isDryRun || (await truncateLog(parts.database))
  if (!isOutOfLog)
    out(
      'Its bytes may be left in vault.db and vault.db-wal, because something reads them for long: run this again later.'
    )
  const pin = await lookAtPin(parts, cid, isDryRun)
  out(pin.text)
  return entryCount > 0 && isOutOfFile && isOutOfLog && !pin.isStaying ? 0 : 1
}

/** What becomes of the pin; one stays when it is not this vault's to take off. */
async function lookAtPin(
  { intents, node, outbox }: RunTakedownParts,
  cid: string,
  isDryRun: boolean
): Promise<{ text: string; isStaying: boolean }> {
  const state = intents.find(cid)?.state
  if (state !== undefined) return { text: await ownPinSentence(state), isStaying: false }
  if (node === undefined) return { text: 'This vault did not pin it.', isStaying: false }
  try {
    const isStaying = await node.isPinned(cid)
    const text = isStaying
      ? `It is pinned on the IPFS node, but not by this vault as far as it knows: ipfs pin rm ${cid}`
      : 'It is not pinned on the IPFS node.'
    return { text, isStaying }
  } catch (error) {
    if (!(error instanceof ServerError)) throw error
    const text = `This vault did not pin it as far as it knows; the IPFS node could not be asked: ${error.message}`
    return { text, isStaying: true }
  }

  async function ownPinSentence(state: PinState): Promise<string> {
    if (isDryRun) return state === 'unpin' ? 'Its pin is still to be taken off.' : 'Its pin would be taken off.'
    if (outbox === undefined) return 'Its pin stays until there is an IPFS node again: IPFS_API_URL is not given.'
    if (await outbox.settle([cid])) return 'Its pin is taken off the IPFS node.'
    return 'Its pin is still to be taken off: the server does so when the IPFS node answers.'
  }
}

import { changeEach } from './change-each.js'
import type { CheckParts } from './check-contents.js'
import { counted, type Finding } from './finding.js'
import type { PinIntents } from '../pins/pin-intents.js'

/** What the checks of pins work on, besides. */
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
  // Beside a running server, entries come and go between the look and the change.
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

import type { ContentInspection } from './content-inspection.js'
import type { ContentStore } from './content-store.js'
import type { Spool } from './files/spool.js'
import type { PinLedger } from './pin-ledger.js'

/** What came of content of before the content store. */
export interface TakenOver {
  readonly movedCount: number
  /** Content with a block that is lost or damaged: its entries stay, and so do its other blocks. */
  readonly damagedCids: readonly string[]
}

/** The storage of a server, whichever engine it is on. */
export interface OpenContentStore {
  readonly store: ContentStore & PinLedger
  /** For an operator's commands. */
  readonly inspection: ContentInspection
  /** For bodies that are arriving. */
  readonly spool: Spool
  /** What was found of before the content store. */
  readonly takenOver: TakenOver
}

import type { ContentExport, ContentImport, ContentInspection } from './content-inspection.js'
import type { ContentStore } from './content-store.js'
import type { Spool } from './files/spool.js'
import type { PinLedger } from './pin-ledger.js'

/** The storage of a server, whichever engine it is on. */
export interface OpenContentStore {
  readonly store: ContentStore & PinLedger
  /** For an operator's commands. */
  readonly inspection: ContentInspection & ContentExport
  readonly imports: ContentImport
  /** For bodies that are arriving. */
  readonly spool: Spool
}

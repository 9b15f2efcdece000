import type { ContentInfo, EntryPlace } from './content-store.js'

/** Whether a check only tells what it would change. */
export interface CheckMode {
  readonly isDryRun: boolean
  /** Goes on with what is left of damaged lists. Default false. */
  readonly acceptsDamage?: boolean
}

/** What is wrong with a database's file. */
export interface DatabaseCheck {
  /** In the database's words. It can be derived from nothing that is left; none: the file is sound. */
  readonly damage: readonly string[]
  /** Indexes that are damaged; they are rebuilt. */
  readonly indexes: readonly string[]
}

/** What follows from entries, and did not. */
export interface Recount {
  /** Users whose usage was counted wrong; corrected. */
  readonly owners: number
  /** Lists that are not those that were written; what is left of them is theirs from then on, where damage is accepted. */
  readonly damagedLists: readonly EntryPlace[]
  /** Content that nothing uses; deleted. */
  readonly unusedContents: number
}

/** What an operator's commands ask of a store, beside the servers that use it. Each verb is a few short transactions. */
export interface ContentInspection {
  /** Asks the database whether its file is sound. */
  checkDatabase(mode: CheckMode): Promise<DatabaseCheck>
  recount(mode: CheckMode): Promise<Recount>
  /** Finds objects that no content names, and leaves them to the collector. */
  checkObjects(mode: CheckMode): Promise<{ unused: number }>
  /** Content that entries or files use, in the order of cids, from the one after `afterCid`; also what is missing. */
  listUsedContents(afterCid: string, limit: number): Promise<readonly ContentInfo[]>
  /** Makes the desired state of pins follow from what is stored. */
  trackPins(mode: CheckMode): Promise<{ toPin: number; toUnpin: number }>
  /** Entries that have some content now, and of how many users. */
  countUses(cid: string): Promise<{ entries: number; owners: number }>
}

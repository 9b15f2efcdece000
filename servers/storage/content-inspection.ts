import type { ContentInfo, EntryPlace, NewContent } from './content-store.js'

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

/** What is desired of the pin of a cid; `pin` and `unpin` are open. */
export interface PinState {
  readonly cid: string
  readonly state: 'pin' | 'pinned' | 'unpin'
  /** A call of before may still be carried out by the node. */
  readonly isInDoubt: boolean
}

/** An entry with its number, which is its place in the order of its owner's. */
export interface Entry extends ContentInfo {
  readonly number: number
}

/** A file without its bytes. */
export type FileRow = ContentInfo & { readonly expiresAtSeconds: number }

export type ExportedList = EntryPlace & { readonly etag: string }

export interface TakenDownContent {
  readonly cid: string
  readonly reason: string
  readonly atSeconds: number
}

/** Reads all that a store has, to copy it, in pages of which the last is empty. Nothing writes to it meanwhile. */
export interface ContentExport {
  /** The largest number of an entry. */
  lastNumber(): Promise<number>
  /** Lists with their ETags, in the order of DIDs and keys, from the one after a place. */
  exportLists(after: EntryPlace): Promise<readonly ExportedList[]>
  exportEntries(place: EntryPlace): Promise<readonly Entry[]>
  exportFiles(afterCid: string): Promise<readonly FileRow[]>
  exportDenied(afterCid: string): Promise<readonly TakenDownContent[]>
  exportPins(afterCid: string): Promise<readonly PinState[]>
}

/**
 * Imports what another store has. Each verb may be run again: what is there stays as it is.
 *
 * @throws from those with content: ServerError ERR_TAKEN_DOWN, ERR_STORAGE_FULL, ERR_STORAGE
 */
export interface ContentImport {
  /** Makes entries that are written from now on come after those with numbers up to this one. */
  reserveNumbers(lastNumber: number): Promise<void>
  /** Stores an entry under the number that it has elsewhere, which is its place in its list. */
  importEntry(entry: EntryPlace & { readonly number: number; readonly content: NewContent }): Promise<void>
  /** Stores a file that is counted for no user. One that is there ends later where this one does. */
  importFile(file: { readonly content: NewContent; readonly expiresAtSeconds: number }): Promise<void>
  /** Adds pins of content that is here, and those to remove of content that is not. */
  importPins(pins: readonly PinState[]): Promise<void>
}

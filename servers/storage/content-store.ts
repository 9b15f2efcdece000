/**
 * What relay and vault store, as verbs: each is one transaction. Nothing outside an adapter sees a transaction or a
 * table. DIDs are canonical. Times are whole seconds since the Unix epoch.
 */

/** What is known of content from the moment on in which it was written. */
export interface ContentInfo {
  /** CIDv1 in base32: UnixFS, raw leaves of 256 KiB, 174 links a node. */
  readonly cid: string
  readonly byteCount: number
}

/** Content that has arrived whole. */
export interface NewContent extends ContentInfo {
  /** SHA-256 of each leaf, 32 bytes each, in order. */
  readonly leafHashes: Uint8Array
  /** Its bytes, or a file of the spool with just them. The store reads the file; its caller deletes it afterwards. */
  readonly source: Uint8Array | { readonly file: string }
}

/** Content that is read: every piece is compared with its hash before it is handed out. */
export interface StoredContent extends ContentInfo {
  /** @throws ServerError ERR_CONTENT_MISSING when it is lost or damaged */
  bytes(): Promise<Uint8Array>
  /** Pieces of at most 256 KiB. It resolves when the first is checked. @throws ServerError ERR_CONTENT_MISSING */
  pieces(): Promise<AsyncIterable<Uint8Array>>
}

/** Where entries are: an owner and one of the owner's keys. */
export interface EntryPlace {
  readonly did: string
  readonly key: string
}

/** The ETags of RFC 9110 as a write compares them, inside its transaction. */
export interface Precondition {
  /** The list has one of these ETags (quoted, as `GET` answered them), or is not empty where it is `*`. */
  readonly ifMatch?: readonly string[] | '*'
  /** The list is empty. */
  readonly ifNoneMatch?: '*'
}

export interface EntryWrite extends EntryPlace, Precondition {
  readonly content: NewContent
  /** Which entries it takes the place of. `nothing` leaves content that is there already where it is. */
  readonly replaces: 'nothing' | 'all' | { readonly cid: string }
  readonly quota: { readonly maxBytes: number; readonly maxEntries: number }
}

export interface EntryRemoval extends EntryPlace, Precondition {
  /** One entry; absent: all of the key. */
  readonly cid?: string
}

/** What a write left behind. */
export interface EntryChange {
  /** ETag of the list as it is now, quoted. */
  readonly etag: string
  /** Cids whose pins on the IPFS node have to change because of it. */
  readonly changedPins: readonly string[]
}

export interface KeyedEntry extends ContentInfo {
  readonly key: string
}

export interface Usage {
  readonly byteCount: number
  readonly entryCount: number
}

/** The vault's index: `did -> key -> content[]`. */
export interface EntryStore {
  /**
   * Stores content and its entry, or neither.
   *
   * @throws ServerError ERR_PRECONDITION (with the current ETag), ERR_STORAGE_FULL, ERR_TAKEN_DOWN, ERR_STORAGE
   */
  writeEntry(write: EntryWrite): Promise<EntryChange>
  /** @throws ServerError ERR_PRECONDITION, ERR_STORAGE_FULL, ERR_STORAGE */
  removeEntries(removal: EntryRemoval): Promise<EntryChange>
  /** What is known of a list without reading it; its ETag is quoted. */
  describeList(place: EntryPlace): Promise<{ readonly etag: string; readonly entryCount: number }>
  /** All entries of a key, the first written first. @throws ServerError ERR_STORAGE when they are not those written */
  listEntries(place: EntryPlace): Promise<{ readonly etag: string; readonly entries: readonly ContentInfo[] }>
  /** Every entry of an owner, in the order in which they were written. @throws as `listEntries` */
  listOwnEntries(did: string): Promise<readonly KeyedEntry[]>
  readUsage(did: string): Promise<Usage>
}

export interface FileWrite {
  readonly did: string
  readonly content: NewContent
  readonly nowSeconds: number
  readonly ttlSeconds: number
  /** Of all files, and of what a DID posted within `slotSeconds`. */
  readonly bounds: { readonly maxStoreBytes: number; readonly maxBytesPerDid: number; readonly slotSeconds: number }
}

/** The relay's files: content with an end. */
export interface FileStore {
  /**
   * Stores a file, or lets one that is there end later.
   *
   * @throws ServerError ERR_STORAGE_FULL, ERR_TAKEN_DOWN, ERR_STORAGE; DidAuthError ERR_TOO_MANY_REQUESTS when the DID
   *   posted too much, with the seconds until its slot ends
   */
  writeFile(write: FileWrite): Promise<{ readonly changedPins: readonly string[] }>
  /** A file that has not ended. @throws ServerError ERR_TAKEN_DOWN */
  findFile(cid: string, nowSeconds: number): Promise<(ContentInfo & { readonly expiresAtSeconds: number }) | undefined>
  /** Deletes files that expired before `beforeSeconds`, a few at a time. True when there may be more. */
  deleteExpiredFiles(beforeSeconds: number): Promise<boolean>
}

/** The bytes of content, by cid. */
export interface ContentReads {
  /** Many at once, in the order asked for; undefined where there is none. @throws ServerError ERR_STORAGE */
  readContents(cids: readonly string[]): Promise<readonly (StoredContent | undefined)[]>
  /** Restores lost or damaged bytes if content with this cid is still in use. */
  repairContent(content: NewContent): Promise<void>
}

/** Whether a check only reports what it would change. */
export interface CheckMode {
  readonly isDryRun: boolean
  /** Goes on with what is left of damaged lists. Default false. */
  readonly acceptsDamage?: boolean
}

/** What an operator does, maintenance of a store, and a check of whether it works. */
export interface ContentMaintenance {
  /**
   * Removes content everywhere, and refuses it from then on.
   *
   * @returns how many entries or files had it, and what may still hold its bytes, in words
   */
  takeDown(cid: string, reason: string, nowSeconds: number): Promise<{ removed: number; remains: readonly string[] }>
  /** Lets content in again. False: it was not refused. */
  allow(cid: string): Promise<boolean>
  isTakenDown(cid: string): Promise<boolean>
  /**
   * Deletes content that nothing has any more, and objects that no content uses. Several instances may do so at once.
   *
   * @param how.isFull - also objects that are kept for readers who may be reading them yet. Default false
   */
  collectGarbage(nowSeconds: number, how?: { readonly isFull: boolean }): Promise<void>
  /** What is stored of all users and files, also unreferenced content; content of several users counts for each. */
  storedBytes(): Promise<number>
  /** Writes, and looks whether file and path are still one. @throws Error with the reason */
  probe(): Promise<void>
  close(): Promise<void>
}

/** What the IPFS node is to do for a cid. */
export interface PinTask {
  readonly cid: string
  readonly desired: 'pinned' | 'unpinned'
  /** Grows with each change of the desired state and each claim after a lease that ended, and never comes again. */
  readonly revision: number
  /** Failures since the desired state changed. */
  readonly attempts: number
  /** The node may still carry out an earlier call that failed half way: the task is repeated a minute later. */
  readonly isInDoubt: boolean
}

export interface ClaimRequest {
  /** Only these, if given; otherwise those that are due, the oldest first. */
  readonly cids?: readonly string[]
  readonly limit: number
  readonly nowSeconds: number
  readonly leaseSeconds: number
}

/**
 * The desired state of the pins on the IPFS node, changed in the transaction that changes content. Pins of others are
 * not in here and are never touched.
 *
 * A worker claims tasks for a while (a lease). A lease that ended without an outcome leaves its task in doubt, under a
 * new revision, so that the worker which comes late has no say. A change of the desired state waits for the lease: the
 * calls for one cid never overtake each other.
 */
export interface PinLedger {
  claim(request: ClaimRequest): Promise<readonly PinTask[]>
  /** Notes that a task was carried out. False: the desired state has changed meanwhile, and the task is open again. */
  finish(task: PinTask, nowSeconds: number): Promise<boolean>
  /** Notes that a task failed. False: as `finish`. @param wasCalled - the node may carry it out yet. Default true */
  postpone(task: PinTask, retryAtSeconds: number, wasCalled?: boolean): Promise<boolean>
  /** Whether nothing is open for any of these. */
  areSettled(cids: readonly string[]): Promise<boolean>
  countOpen(): Promise<number>
  /** Makes all that waits after a failure due now. */
  retryNow(nowSeconds: number): Promise<void>
  /**
   * Compares the ledger with what the node has: a pin that is tracked and missing there becomes an open task again.
   *
   * @param listOnNode - called again where pins seem to be missing: a running server may have made them meanwhile
   */
  comparePins(
    listOnNode: () => Promise<ReadonlySet<string>>,
    mode?: CheckMode
  ): Promise<{ missing: number; others: number }>
}

/** All of it. */
export interface ContentStore extends EntryStore, FileStore, ContentReads, ContentMaintenance, PinLedger {}

/** Large content, by name, in files or in the network. A name is never used twice, so an object never changes. */
export interface ObjectStore {
  /** Whether a deletion ends reading, so that the collector keeps objects for those who read them. Default false. */
  readonly breaksReaders?: boolean
  /**
   * Stores what is in a file, which its caller deletes afterwards; durable when it resolves.
   *
   * @throws Error with the code of the system: ENOSPC where there is no space; EEXIST where the name is used, if the
   *   medium can tell
   */
  put(name: string, file: string): Promise<void>
  /**
   * Reads from the beginning, in pieces of which none crosses a multiple of 256 KiB. Unless the store `breaksReaders`,
   * an object stays readable to its end from its first piece on, also when it is deleted meanwhile.
   *
   * @throws Error with code ENOENT where there is none
   */
  read(name: string): AsyncIterable<Uint8Array>
  /** Also succeeds if there is none. @param how.overwrite - overwrites its bytes first, if the medium allows it */
  delete(name: string, how?: { readonly overwrite: boolean }): Promise<void>
  /** Names of all objects, for inspection; of a store that others may use as well, those of our form alone. */
  list(): AsyncIterable<string>
}

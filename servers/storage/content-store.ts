/**
 * Port of the content of relay and vault. Each method is a verb, which is one transaction. Only adapters see
 * transactions and tables. DIDs are canonical. Times are whole seconds since the Unix epoch.
 */

/** Properties of content, which never change after it was written. */
export interface ContentInfo {
  /** CIDv1 in base32: UnixFS, raw leaves of 256 KiB, 174 links a node. */
  readonly cid: string
  readonly byteCount: number
}

/** Content that has arrived completely. */
export interface NewContent extends ContentInfo {
  /** SHA-256 of each leaf, 32 bytes each, in order. */
  readonly leafHashes: Uint8Array
  /** Bytes of the content, or a spool file with them. The store reads the file; the caller deletes it afterwards. */
  readonly source: Uint8Array | { readonly file: string }
}

/** Stored content. Every piece is compared with its hash before it is returned. */
export interface StoredContent extends ContentInfo {
  /** @throws ServerError ERR_CONTENT_MISSING if it is lost or damaged */
  bytes(): Promise<Uint8Array>
  /** Returns pieces of at most 256 KiB, once the first is verified. @throws ServerError ERR_CONTENT_MISSING */
  pieces(): Promise<AsyncIterable<Uint8Array>>
}

/** Place of entries: an owner and one of the owner's keys. */
export interface EntryPlace {
  readonly did: string
  readonly key: string
}

/** Condition of a write, with ETags as in RFC 9110. It is checked in the transaction of the write. */
export interface Precondition {
  /** ETags of which the list must have one, quoted as in the answer of `GET`. For `*`, it must not be empty. */
  readonly ifMatch?: readonly string[] | '*'
  /** `*` requires that the list is empty. */
  readonly ifNoneMatch?: '*'
}

export interface EntryWrite extends EntryPlace, Precondition {
  readonly content: NewContent
  /** Entries that the new one replaces. `nothing` leaves content that the list already contains at its place. */
  readonly replaces: 'nothing' | 'all' | { readonly cid: string }
  readonly quota: { readonly maxBytes: number; readonly maxEntries: number }
}

export interface EntryRemoval extends EntryPlace, Precondition {
  /** Cid of the entry to remove; absent: all entries of the key. */
  readonly cid?: string
}

/** Result of a write. */
export interface EntryChange {
  /** ETag of the list after the write, quoted. */
  readonly etag: string
  /** Cids whose pins on the IPFS node have to change because of the write. */
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
  /** Returns the ETag of a list (quoted) and its size, without reading its entries. */
  describeList(place: EntryPlace): Promise<{ readonly etag: string; readonly entryCount: number }>
  /** Lists all entries of a key in the order of writing. @throws ServerError ERR_STORAGE if the list is damaged */
  listEntries(place: EntryPlace): Promise<{ readonly etag: string; readonly entries: readonly ContentInfo[] }>
  /** Lists every entry of an owner in the order of writing. @throws as `listEntries` */
  listOwnEntries(did: string): Promise<readonly KeyedEntry[]>
  readUsage(did: string): Promise<Usage>
}

export interface FileWrite {
  readonly did: string
  readonly content: NewContent
  readonly nowSeconds: number
  readonly ttlSeconds: number
  /** Bounds of all files, and of the posts of a DID within `slotSeconds`. */
  readonly bounds: { readonly maxStoreBytes: number; readonly maxBytesPerDid: number; readonly slotSeconds: number }
}

/** Files of the relay: content that expires. */
export interface FileStore {
  /**
   * Stores a file, or extends the expiry of a stored one.
   *
   * @throws ServerError ERR_STORAGE_FULL, ERR_TAKEN_DOWN, ERR_STORAGE; DidAuthError ERR_TOO_MANY_REQUESTS if the DID
   *   posted too much, with the seconds until its slot ends
   */
  writeFile(write: FileWrite): Promise<{ readonly changedPins: readonly string[] }>
  /** Finds a file that has not expired. @throws ServerError ERR_TAKEN_DOWN */
  findFile(cid: string, nowSeconds: number): Promise<(ContentInfo & { readonly expiresAtSeconds: number }) | undefined>
  /** Deletes some of the files that expired before `beforeSeconds`. Returns whether there may be more. */
  deleteExpiredFiles(beforeSeconds: number): Promise<boolean>
}

/** The bytes of content, by cid. */
export interface ContentReads {
  /** Returns contents in the order of the cids; undefined if one is not stored. @throws ServerError ERR_STORAGE */
  readContents(cids: readonly string[]): Promise<readonly (StoredContent | undefined)[]>
  /** Restores lost or damaged bytes if content with this cid is still in use. */
  repairContent(content: NewContent): Promise<void>
}

/** Whether a check only reports what it would change. */
export interface CheckMode {
  readonly isDryRun: boolean
  /** Whether the check continues with the rest of damaged lists. Default false. */
  readonly acceptsDamage?: boolean
}

/** Actions of an operator, maintenance of a store, and its health check. */
export interface ContentMaintenance {
  /**
   * Removes content everywhere and refuses it in the future.
   *
   * @returns the number of entries or files that had it, and descriptions of places that may still contain its bytes
   */
  takeDown(cid: string, reason: string, nowSeconds: number): Promise<{ removed: number; remains: readonly string[] }>
  /** Accepts content again. Returns false if it was not refused. */
  allow(cid: string): Promise<boolean>
  isTakenDown(cid: string): Promise<boolean>
  /**
   * Deletes unreferenced content, and objects that no content uses. Several instances may do so at the same time.
   *
   * @param how.isFull - whether objects are deleted that clients may still be reading. Default false
   */
  collectGarbage(nowSeconds: number, how?: { readonly isFull: boolean }): Promise<void>
  /** Returns the bytes of all users and files, with unreferenced content. Content of several users counts for each. */
  storedBytes(): Promise<number>
  /** Writes a probe, and checks that the open file is still at its path. @throws Error with the reason */
  probe(): Promise<void>
  close(): Promise<void>
}

/** Task of the IPFS node for a cid. */
export interface PinTask {
  readonly cid: string
  readonly desired: 'pinned' | 'unpinned'
  /** Number that grows with each change of the desired state and each claim after an expired lease; never repeats. */
  readonly revision: number
  /** Number of failures since the desired state changed. */
  readonly attempts: number
  /** Whether the node may still execute an earlier call that failed half way. The task is repeated a minute later. */
  readonly isInDoubt: boolean
}

export interface ClaimRequest {
  /** Cids of the tasks to claim. Default: those that are due, the oldest first. */
  readonly cids?: readonly string[]
  readonly limit: number
  readonly nowSeconds: number
  readonly leaseSeconds: number
}

/**
 * Desired state of the pins on the IPFS node. It changes in the transaction that changes content. Pins of others are
 * not part of it and are never changed.
 *
 * A worker claims tasks for a limited time (a lease). If a lease expires without an outcome, its task is in doubt and
 * gets a new revision, so that a late result is ignored. A change of the desired state waits for the lease: calls for
 * one cid never overtake each other.
 */
export interface PinLedger {
  claim(request: ClaimRequest): Promise<readonly PinTask[]>
  /** Records that a task is done. Returns false if the desired state has changed meanwhile: the task is open again. */
  finish(task: PinTask, nowSeconds: number): Promise<boolean>
  /** Records that a task failed. Returns as `finish`. @param wasCalled - the node may still do it. Default true */
  postpone(task: PinTask, retryAtSeconds: number, wasCalled?: boolean): Promise<boolean>
  /** Returns whether none of the cids has an open task. */
  areSettled(cids: readonly string[]): Promise<boolean>
  countOpen(): Promise<number>
  /** Makes all tasks due now that wait after a failure. */
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

/** All ports of content. */
export interface ContentStore extends EntryStore, FileStore, ContentReads, ContentMaintenance, PinLedger {}

/** Large content, by name, in files or in the network. A name is never used twice, so an object never changes. */
export interface ObjectStore {
  /** Whether a deletion ends reading, so that the collector keeps objects for those who read them. Default false. */
  readonly breaksReaders?: boolean
  /**
   * Stores the bytes of a file, which its caller deletes afterwards. They are durable when it resolves.
   *
   * @throws Error with a system code: ENOSPC if there is no space; EEXIST if the name is used and the medium detects it
   */
  put(name: string, file: string): Promise<void>
  /**
   * Reads from the beginning, in pieces of which none crosses a multiple of 256 KiB. Unless the store `breaksReaders`,
   * an object stays readable to its end from its first piece on, also when it is deleted meanwhile.
   *
   * @throws Error with code ENOENT if there is no such object
   */
  read(name: string): AsyncIterable<Uint8Array>
  /** Also succeeds if there is none. @param how.overwrite - overwrites its bytes first, if the medium allows it */
  delete(name: string, how?: { readonly overwrite: boolean }): Promise<void>
  /** Lists the names of all objects, for inspection. In a shared store, only names in this service's format. */
  list(): AsyncIterable<string>
}

import type { FileHandle } from 'node:fs/promises'

/**
 * Port for the content of relay and vault. Each method is atomic, except for maintenance, which runs several
 * transactions. Only adapters know transactions and tables. DIDs are canonical. Times are whole seconds since the Unix
 * epoch.
 */

/** Immutable properties of content. */
export interface ContentInfo {
  /** CIDv1 in base32: UnixFS, raw leaves of 256 KiB, 174 links per node. */
  readonly cid: string
  readonly byteCount: number
}

/** New content that has been received completely. */
export interface NewContent extends ContentInfo {
  /** SHA-256 of each leaf, 32 bytes each, in order. */
  readonly leafHashes: Uint8Array
  /** Bytes of the content, or an open spool file with them. The store reads the file; the caller deletes it. */
  readonly source: Uint8Array | { readonly file: string; readonly handle: FileHandle }
}

/** Stored content. Each piece is verified by its hash before it is returned. */
export interface StoredContent extends ContentInfo {
  /** Returns all bytes. @throws ServerError ERR_CONTENT_MISSING if they are lost or damaged */
  bytes(): Promise<Uint8Array>
  /** Resolves once the first piece is verified. Pieces have at most 256 KiB. @throws ServerError ERR_CONTENT_MISSING */
  pieces(): Promise<AsyncIterable<Uint8Array>>
}

/** Place of a list of entries: an owner and one of the owner's keys. */
export interface EntryPlace {
  readonly did: string
  readonly key: string
}

/** Condition of a write, with ETags as in RFC 9110. It is checked in the write's transaction. */
export interface Precondition {
  /** Accepted ETags of the list, quoted as in the response to `GET`. `*` requires that the list is not empty. */
  readonly ifMatch?: readonly string[] | '*'
  /** `*` requires that the list is empty. */
  readonly ifNoneMatch?: '*'
}

export interface EntryWrite extends EntryPlace, Precondition {
  readonly content: NewContent
  /** Entries that the new entry replaces. With `nothing`, content that the list already contains stays in its place. */
  readonly replaces: 'nothing' | 'all' | { readonly cid: string }
  readonly quota: { readonly maxBytes: number; readonly maxEntries: number }
}

export interface EntryRemoval extends EntryPlace, Precondition {
  /** Cid of the entry to remove. Default: all entries of the key. */
  readonly cid?: string
}

/** Result of a write. */
export interface EntryChange {
  /** ETag of the list after the write, quoted. */
  readonly etag: string
  /** Cids whose pins on the IPFS node must change because of the write. */
  readonly changedPins: readonly string[]
  /** Whether the write has released content, so that the garbage collector may have work. */
  readonly hasReleased: boolean
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
  /** Maximum size of all files, and of a DID's posts within `slotSeconds`. */
  readonly bounds: { readonly maxStoreBytes: number; readonly maxBytesPerDid: number; readonly slotSeconds: number }
}

/** Files of the relay: content that expires. */
export interface FileStore {
  /**
   * Stores a file, or extends the expiry of a stored one.
   *
   * @throws ServerError ERR_STORAGE_FULL, ERR_TAKEN_DOWN, ERR_STORAGE; DidAuthError ERR_TOO_MANY_REQUESTS if the DID
   *   has posted too much, with the seconds until the slot ends
   */
  writeFile(write: FileWrite): Promise<{ readonly changedPins: readonly string[] }>
  /** Finds an unexpired file. @throws ServerError ERR_TAKEN_DOWN */
  findFile(cid: string, nowSeconds: number): Promise<(ContentInfo & { readonly expiresAtSeconds: number }) | undefined>
  /** Deletes a batch of files that expired by `beforeSeconds`. Returns whether there may be more. */
  deleteExpiredFiles(beforeSeconds: number): Promise<boolean>
}

/** Access to the bytes of content by cid. */
export interface ContentReads {
  /** Returns contents in the order of the cids, undefined for missing ones. @throws ServerError ERR_STORAGE */
  readContents(cids: readonly string[]): Promise<readonly (StoredContent | undefined)[]>
  /** Restores lost or damaged bytes if content with this cid is still in use. */
  repairContent(content: NewContent): Promise<void>
}

/** Options of a check. */
export interface CheckMode {
  /** Whether the check only reports what it would change. */
  readonly isDryRun: boolean
  /** Whether the remaining entries of a damaged list become its valid content. Default false. */
  readonly acceptsDamage?: boolean
}

/** Operator actions, maintenance and health check of a store. */
export interface ContentMaintenance {
  /**
   * Removes content from all entries and files, and refuses it from then on.
   *
   * @returns the number of removed entries and files, and descriptions of places that may still contain its bytes
   */
  takeDown(cid: string, reason: string, nowSeconds: number): Promise<{ removed: number; remains: readonly string[] }>
  /** Accepts content again. Returns false if it was not refused. */
  allow(cid: string): Promise<boolean>
  isTakenDown(cid: string): Promise<boolean>
  /**
   * Deletes unreferenced content and unused objects. Several instances may call it at the same time.
   *
   * @param how.isFull - whether to also delete objects that clients may still be reading. Default false
   */
  collectGarbage(nowSeconds: number, how?: { readonly isFull: boolean }): Promise<void>
  /** Returns the size of all entries and files, plus unreferenced content. Content of several users counts for each. */
  storedBytes(): Promise<number>
  /** Writes a probe, and checks that an open database file is still at its path. @throws Error with the reason */
  probe(): Promise<void>
  close(): Promise<void>
}

/** Task to pin or unpin a cid on the IPFS node. */
export interface PinTask {
  readonly cid: string
  readonly desired: 'pinned' | 'unpinned'
  /** Grows with each change of the desired state and each claim after an expired lease. It never repeats for a cid. */
  readonly revision: number
  /** Number of failures since the desired state last changed. */
  readonly attempts: number
  /** Whether the node may still execute an earlier call without an answer. The task is repeated a minute later. */
  readonly isInDoubt: boolean
}

export interface ClaimRequest {
  /** Cids of the tasks to claim. Default: due tasks, the oldest first. */
  readonly cids?: readonly string[]
  readonly limit: number
  readonly nowSeconds: number
  readonly leaseSeconds: number
}

/**
 * Desired state of the pins on the IPFS node. It changes in the transaction that changes content. Pins of other
 * applications are not in the ledger, and are never changed.
 *
 * A worker claims tasks for a limited time (a lease). If a lease expires without a result, the task is in doubt and
 * gets a new revision, so that a late result is ignored. If the desired state changes, its new task waits until the
 * lease is over, so that calls for one cid never overlap.
 */
export interface PinLedger {
  claim(request: ClaimRequest): Promise<readonly PinTask[]>
  /**
   * Records that a task is done. Returns false if the desired state has changed meanwhile, so that the task is open.
   */
  finish(task: PinTask, nowSeconds: number): Promise<boolean>
  /** Records that a task failed. Returns as `finish`. @param wasCalled - whether the node was called. Default true */
  postpone(task: PinTask, retryAtSeconds: number, wasCalled?: boolean): Promise<boolean>
  /** Returns whether no cid has an open task. */
  areSettled(cids: readonly string[]): Promise<boolean>
  countOpen(): Promise<number>
  /** Makes all tasks that wait after a failure due now. */
  retryNow(nowSeconds: number): Promise<void>
  /**
   * Compares the ledger with the pins of the node. A tracked pin that the node lacks becomes an open task again.
   *
   * @param listOnNode - lists the node's pins; called again if pins are missing, because a server may have added them
   */
  comparePins(
    listOnNode: () => Promise<ReadonlySet<string>>,
    mode?: CheckMode
  ): Promise<{ missing: number; others: number }>
}

/** All ports of content. */
export interface ContentStore extends EntryStore, FileStore, ContentReads, ContentMaintenance, PinLedger {}

/** Store of large content by name, in files or in the network. Names are never reused, so objects never change. */
export interface ObjectStore {
  /** Whether a deletion breaks running reads, so that the garbage collector must wait for readers. Default false. */
  readonly breaksReaders?: boolean
  /**
   * Stores the bytes of a file durably. The caller deletes the file afterwards.
   *
   * @param handle - the file, if it is a private file that the caller has opened for writing
   * @throws Error with a system code: ENOSPC if there is no space; EEXIST if the store detects that the name is used
   */
  put(name: string, file: string, handle?: FileHandle): Promise<void>
  /**
   * Reads an object in pieces, none of which crosses a multiple of 256 KiB. Unless the store `breaksReaders`, a read
   * that has yielded a piece continues to the end, even if the object is deleted meanwhile.
   *
   * @throws Error with code ENOENT if the object does not exist
   */
  read(name: string): AsyncIterable<Uint8Array>
  /** Deletes an object if it exists. @param how.overwrite - whether to overwrite its bytes first, if possible */
  delete(name: string, how?: { readonly overwrite: boolean }): Promise<void>
  /** Lists the names of all objects. In a shared store, it lists only names in this service's format. */
  list(): AsyncIterable<string>
}

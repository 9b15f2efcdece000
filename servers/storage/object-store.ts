/**
 * Large content, by name. A name is never used twice, so an object never changes.
 *
 * Files of `DATA_DIR` by default; a store of objects in the network has the same four verbs.
 */
export interface ObjectStore {
  /** Whether a deletion ends reading, so that the collector keeps objects for those who read them. Default false. */
  readonly breaksReaders?: boolean
  /**
   * Stores what is in a file, which stays its caller's to delete and does not change any more; durable when it
   * resolves.
   *
   * @throws Error with the code of the system: ENOSPC where there is no space; EEXIST where the name is used, if the
   *   medium can tell
   */
  put(name: string, file: string): Promise<void>
  /**
   * Reads from the beginning, in pieces of any length, of which none crosses a multiple of 256 KiB. Unless the store
   * `breaksReaders`, an object that was opened by its first piece stays readable to its end, also when it is deleted
   * meanwhile.
   *
   * @throws Error with code ENOENT where there is none
   */
  read(name: string): AsyncIterable<Uint8Array>
  /** Also succeeds if there is none. @param how.overwrite - overwrites its bytes first, if the medium allows it */
  delete(name: string, how?: { readonly overwrite: boolean }): Promise<void>
  /** Names of all objects, for inspection; of a store that others may use as well, those of our form alone. */
  list(): AsyncIterable<string>
}

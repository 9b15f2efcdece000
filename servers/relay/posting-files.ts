import type { MemoryFile } from './memory-files.js'

interface Posting {
  byteCount: number
  /** Requests that post it just now. */
  count: number
}

/** What users are just posting, so that many posts at once cannot pass a bound that one could not. */
export class PostingFiles {
  readonly #byDid = new Map<string, Map<string, Posting>>()

  /**
   * Bytes that a user is posting, each content once.
   *
   * @param isCounted - tells what counts elsewhere
   */
  bytes(did: string, isCounted: (cid: string) => boolean): number {
    let bytes = 0
    for (const [cid, { byteCount }] of this.#byDid.get(did) ?? []) if (!isCounted(cid)) bytes += byteCount
    return bytes
  }

  add(did: string, { cid, byteCount }: MemoryFile): void {
    const files = this.#byDid.get(did) ?? new Map<string, Posting>()
    this.#byDid.set(did, files)
    files.set(cid, { byteCount, count: (files.get(cid)?.count ?? 0) + 1 })
  }

  /** To be called as often as `add`. */
  remove(did: string, { cid, byteCount }: MemoryFile): void {
    const files = this.#byDid.get(did)
    const count = (files?.get(cid)?.count ?? 0) - 1
    if (count > 0) files?.set(cid, { byteCount, count })
    else files?.delete(cid)
    if (files?.size === 0) this.#byDid.delete(did)
  }
}

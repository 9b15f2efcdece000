import { LRUCache } from 'lru-cache'

/** What a file takes beside its bytes: measured, rounded up. */
export const ENTRY_BYTES = 1_024
const HOLDER_BYTES = 128
/** Whoever posts what so many hold already, holds it for nothing. */
const MAX_HOLDERS = 64

/** Bounds of the memory. */
export interface MemoryFilesOptions {
  maxBytes: number
  /** How long a file stays after it was last posted. */
  ttlSeconds: number
  /** Is told of each answer that goes: others may still hold it. */
  onGone?: (answer: Buffer) => void
}

/** A file as it is sent. */
export interface MemoryFile {
  cid: string
  /** The whole answer to a GET. */
  answer: Buffer
  /** Of the text in UTF-8: what counts for its holders. */
  byteCount: number
}

interface Entry extends MemoryFile {
  expiresAtSeconds: number
  /** Canonical DIDs of those who posted it. */
  holders: readonly string[]
}

/**
 * The files that can be fetched: bounded in bytes, where the least recently used goes first, and in time.
 *
 * What a user holds is what is here now, whoever else posted the same.
 */
export class MemoryFiles {
  readonly #ttlSeconds: number
  readonly #maxBytes: number
  readonly #entries: LRUCache<string, Entry>
  /** When each ends, in the order of their posts. */
  readonly #ends = new Map<string, number>()
  /** The same for those that nobody posted since the restart: while they come back, new ones are posted. */
  readonly #restoredEnds = new Map<string, number>()
  readonly #heldBytes = new Map<string, number>()

  constructor({ maxBytes, ttlSeconds, onGone }: MemoryFilesOptions) {
    this.#ttlSeconds = ttlSeconds
    this.#maxBytes = maxBytes
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: sizeOf,
      dispose: (entry, cid, reason) => {
        // The same file once more keeps its answer.
        if (reason === 'set') return
        this.#forget(cid, entry)
        onGone?.(entry.answer)
      }
    })
  }

  /** Whether a file fits at all. */
  canHold({ answer }: Pick<MemoryFile, 'answer'>): boolean {
    return answer.buffer.byteLength + ENTRY_BYTES + MAX_HOLDERS * HOLDER_BYTES <= this.#maxBytes
  }

  has(cid: string): boolean {
    return this.#entries.has(cid)
  }

  isHeldBy(cid: string, did: string): boolean {
    return this.#entries.peek(cid)?.holders.includes(did) === true
  }

  /** Bytes that a user holds; those of `cid`, which is about to be posted once more, do not count. */
  heldBytes(did: string, cid: string, nowSeconds: number): number {
    this.dropEnded(nowSeconds)
    const counted = this.isHeldBy(cid, did) ? (this.#entries.peek(cid)?.byteCount ?? 0) : 0
    return (this.#heldBytes.get(did) ?? 0) - counted
  }

  /**
   * Keeps a file; its time starts anew.
   *
   * @param did - canonical DID of who posted it; undefined: it is held by nobody
   */
  keep(file: MemoryFile, did: string | undefined, postedAtSeconds: number): void {
    const known = this.#entries.peek(file.cid)
    const before = known?.holders ?? []
    const isNew = did !== undefined && !before.includes(did) && before.length < MAX_HOLDERS
    const holders = isNew ? [...before, did] : before
    if (isNew) {
      this.#heldBytes.set(did, (this.#heldBytes.get(did) ?? 0) + file.byteCount)
    }
    const expiresAtSeconds = postedAtSeconds + this.#ttlSeconds
    // Deleted first, so that it goes to the end.
    this.#forgetEnd(file.cid)
    const ends = did === undefined ? this.#restoredEnds : this.#ends
    ends.set(file.cid, expiresAtSeconds)
    // The answer that is here may be under way to readers: another one, which holds the same, would be there beside it.
    this.#entries.set(file.cid, { ...file, answer: known?.answer ?? file.answer, expiresAtSeconds, holders })
  }

  /**
   * Whether a file that comes back is here already. If it came before its turn, it ends from now on as if it had waited:
   * after those that came before it.
   */
  takeTurn(cid: string): boolean {
    const expiresAtSeconds = this.#restoredEnds.get(cid)
    if (expiresAtSeconds !== undefined) {
      this.#restoredEnds.delete(cid)
      this.#restoredEnds.set(cid, expiresAtSeconds)
    }
    return this.has(cid)
  }

  /** Whether what was posted then may no longer be fetched. */
  isOver(postedAtSeconds: number, nowSeconds: number): boolean {
    return nowSeconds >= postedAtSeconds + this.#ttlSeconds
  }

  /** The answer to a GET; undefined when it is not here. */
  find(cid: string, nowSeconds: number): Buffer | undefined {
    const entry = this.#entries.get(cid)
    return entry !== undefined && nowSeconds < entry.expiresAtSeconds ? entry.answer : undefined
  }

  /** Lets go of what has ended. */
  dropEnded(nowSeconds: number): void {
    for (const ends of [this.#ends, this.#restoredEnds]) {
      for (const [cid, expiresAtSeconds] of ends) {
        if (nowSeconds < expiresAtSeconds) break
        this.#entries.delete(cid)
      }
    }
  }

  #forgetEnd(cid: string): void {
    this.#ends.delete(cid)
    this.#restoredEnds.delete(cid)
  }

  #forget(cid: string, { holders, byteCount }: Entry): void {
    this.#forgetEnd(cid)
    for (const did of holders) {
      const left = (this.#heldBytes.get(did) ?? 0) - byteCount
      if (left > 0) this.#heldBytes.set(did, left)
      else this.#heldBytes.delete(did)
    }
  }
}

/** A slice keeps all of its memory alive. */
function sizeOf({ answer, holders }: Entry): number {
  return answer.buffer.byteLength + ENTRY_BYTES + holders.length * HOLDER_BYTES
}

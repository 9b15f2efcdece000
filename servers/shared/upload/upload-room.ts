import { DidAuthError } from 'express-did-auth'
import type { ArrivingUpload } from './arriving-upload.js'

/** Bytes of uploads that are in memory at once, all together: 256 MiB, and what is around the largest text in a body. */
const MAX_ARRIVING_BYTES = 268_435_456 + 4 * 1_024
/** What is not longer is bounded by the number of connections, so that logins pass while uploads wait. */
const SMALL_BYTES = 65_536
/** One holder takes at most such a part of the room. */
const SHARES = 4
/** An upload that is not older makes room for nobody: its speed is not known yet. */
const YOUNG_MILLISECONDS = 5_000

/** Bounds of a room. */
export interface UploadRoomOptions {
  maxBytes: number
  /** Things of so many bytes, and shorter ones, need no room. */
  smallBytes?: number
  nowMilliseconds?: () => number
}

/**
 * What may be held in memory of things that are not yet complete. A count and no more: whoever takes has to give back.
 *
 * When it is full, the uploads make room that take longest to gather what they hold, at their speed of the last seconds.
 * Memory for a time is what they all share, and to have little of it takes real traffic, with however many connections and
 * users: who would be in the way of an upload of 8 s has to bring the whole room in 8 s, again and again.
 */
export class UploadRoom {
  readonly #maxBytes: number
  readonly #smallBytes: number
  readonly #nowMilliseconds: () => number
  readonly #held = new Map<string, number>()
  readonly #uploads = new Set<ArrivingUpload>()
  #bytes = 0

  constructor({ maxBytes, smallBytes = SMALL_BYTES, nowMilliseconds = () => performance.now() }: UploadRoomOptions) {
    this.#maxBytes = maxBytes
    this.#smallBytes = smallBytes
    this.#nowMilliseconds = nowMilliseconds
  }

  /** Bytes that are taken now. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether a thing of at most so many bytes needs no room. */
  isSmall(maxBytes: number): boolean {
    return maxBytes <= this.#smallBytes
  }

  /**
   * False when there is no room for them, and then nothing is taken. Slow uploads may end for it.
   *
   * @param holder - for whom; a quarter of the room is all that one may have
   * @param asking - the upload that they are of: it goes itself before it ends a faster one
   */
  take(bytes: number, holder?: string, asking?: ArrivingUpload): boolean {
    const held = holder === undefined ? 0 : (this.#held.get(holder) ?? 0) + bytes
    if (held > this.#maxBytes / SHARES || !this.#makeRoom(bytes, asking)) return false
    // Read anew: what made room may be of the same holder.
    if (holder !== undefined) this.#held.set(holder, (this.#held.get(holder) ?? 0) + bytes)
    this.#bytes += bytes
    return true
  }

  /** @param holder - as it was taken */
  give(bytes: number, holder?: string): void {
    this.#bytes -= bytes
    if (holder === undefined) return
    const left = (this.#held.get(holder) ?? 0) - bytes
    if (left > 0) this.#held.set(holder, left)
    else this.#held.delete(holder)
  }

  /** As {@link take}, for what has come of an upload. It may be ended from now on, until it leaves. */
  admit(upload: ArrivingUpload, bytes: number): boolean {
    upload.arrive(bytes, this.#nowMilliseconds())
    if (!this.take(bytes, upload.holder, upload)) return false
    upload.keep(bytes)
    this.#uploads.add(upload)
    return true
  }

  /** Gives back all that an upload holds. Once more is nothing. */
  leave(upload: ArrivingUpload): void {
    this.#uploads.delete(upload)
    this.give(upload.letGo(), upload.holder)
  }

  /**
   * Counts bytes for as long as work is under way.
   *
   * @throws DidAuthError ERR_BUSY when there is no room; whatever the work throws
   */
  async hold<T>(bytes: number, holder: string, work: () => Promise<T>): Promise<T> {
    if (this.isSmall(bytes)) return work()
    if (!this.take(bytes, holder)) throw new DidAuthError('ERR_BUSY')
    try {
      return await work()
    } finally {
      this.give(bytes, holder)
    }
  }

  /** Ends uploads, if that makes room enough, and else none. */
  #makeRoom(bytes: number, asking: ArrivingUpload | undefined): boolean {
    let missing = this.#bytes + bytes - this.#maxBytes
    if (missing <= 0) return true
    const ending: ArrivingUpload[] = []
    for (const upload of this.#slowestFirst()) {
      if (upload === asking) return false
      ending.push(upload)
      missing -= upload.bytes
      if (missing <= 0) break
    }
    if (missing > 0) return false
    for (const upload of ending) {
      this.leave(upload)
      upload.end()
    }
    return true
  }

  #slowestFirst(): ArrivingUpload[] {
    const now = this.#nowMilliseconds()
    return [...this.#uploads]
      .filter((upload) => upload.ageMilliseconds(now) > YOUNG_MILLISECONDS)
      .map((upload) => ({ upload, milliseconds: upload.gatheringMilliseconds(now) }))
      .sort((one, other) => other.milliseconds - one.milliseconds)
      .map(({ upload }) => upload)
  }
}

/** One for all servers of a process, because they share its memory. */
export const uploadRoom = new UploadRoom({ maxBytes: MAX_ARRIVING_BYTES })

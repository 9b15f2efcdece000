import { statfs } from 'node:fs/promises'
import { ServerError } from '../http/server-error.js'

const MAX_USED_PERCENT = 90
const FRESH_MILLISECONDS = 1_000

/** How much of the disk is used, 0 to 100. */
export type UsedPercent = () => Promise<number>

/** Asks about the disk that a folder lies on, as `df` does: what is reserved for the administrator counts as used. */
export function usedPercentOf(folder: string): UsedPercent {
  return async () => {
    const { blocks, bfree, bavail } = await statfs(folder)
    const used = blocks - bfree
    const size = used + bavail
    return size === 0 ? 0 : (100 * used) / size
  }
}

/** Reserves a part of the disk, so that reading, removing and the rest of the machine go on. */
export class DiskSpace {
  readonly #usedPercent: UsedPercent
  readonly #nowMilliseconds: () => number
  #asked: { answer: Promise<number>; freshUntil: number } | undefined

  constructor(usedPercent: UsedPercent, nowMilliseconds = (): number => performance.now()) {
    this.#usedPercent = usedPercent
    this.#nowMilliseconds = nowMilliseconds
  }

  /** @throws ServerError ERR_STORAGE_FULL when more than 90 % of the disk are used */
  async assertFree(): Promise<void> {
    const now = this.#nowMilliseconds()
    if (this.#asked === undefined || now >= this.#asked.freshUntil) {
      // A disk that cannot be asked about says itself when it is full.
      const answer = this.#usedPercent().catch(() => 0)
      this.#asked = { answer, freshUntil: now + FRESH_MILLISECONDS }
    }
    const percent = await this.#asked.answer
    if (percent <= MAX_USED_PERCENT) return
    const detail = `${Math.floor(percent)} % of the disk used, at most ${MAX_USED_PERCENT} %`
    throw new ServerError('ERR_STORAGE_FULL', { detail })
  }
}

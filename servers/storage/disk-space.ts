import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs'
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

const RESERVE_BYTES = 1_048_576

const pathOf = (database: string): string => `${database}-reserve`

/** Keeps space beside a database for removals when the disk is full, where there is none and the disk has some. */
export function makeReserve(database: string): void {
  try {
    const file = openSync(pathOf(database), 'wx', 0o600)
    try {
      writeSync(file, Buffer.alloc(RESERVE_BYTES))
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
  } catch {
    // There is one already, or no space for it.
  }
}

/** Makes the reserve free. */
export function useReserve(database: string): void {
  rmSync(pathOf(database), { force: true })
}

import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { ServerError } from '../http/server-error.js'

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

/** What is measured of all that is stored, and how much of it there may be. */
export interface StoreMeasure {
  /** Where it fails, the last measurement counts. What is really full says so itself. */
  readonly measure: () => Promise<number>
  readonly max: number
  /** How long a measurement is used. */
  readonly freshMilliseconds: number
  /** What is said of a measurement above `max`. */
  readonly describe: (measured: number) => string
}

/** How long a measurement is used that found no space: a removal makes some. */
const FULL_MILLISECONDS = 1_000

/** A bound of all that is stored. Writes may exceed it by what they store between two measurements. */
export class StoreBound {
  readonly #parts: StoreMeasure
  readonly #makeSpace: () => Promise<unknown>
  readonly #nowMilliseconds: () => number
  #last = 0
  #measured: Promise<number> | undefined
  #freshUntil = 0

  /** @param makeSpace - deletes what is not needed; what is over the bound is measured once more after it */
  constructor(
    parts: StoreMeasure,
    makeSpace: () => Promise<unknown>,
    nowMilliseconds = (): number => performance.now()
  ) {
    this.#parts = parts
    this.#makeSpace = makeSpace
    this.#nowMilliseconds = nowMilliseconds
  }

  /** @throws ServerError ERR_STORAGE_FULL */
  async assertFree(): Promise<void> {
    const { max, describe, freshMilliseconds } = this.#parts
    const now = this.#nowMilliseconds()
    if (this.#measured === undefined || now >= this.#freshUntil) {
      this.#measured = this.#measure()
      this.#freshUntil = now + freshMilliseconds
    }
    const measured = await this.#measured
    if (measured <= max) return
    this.#freshUntil = Math.min(this.#freshUntil, this.#nowMilliseconds() + FULL_MILLISECONDS)
    throw new ServerError('ERR_STORAGE_FULL', { detail: describe(measured) })
  }

  async #measure(): Promise<number> {
    const { measure, max } = this.#parts
    const ask = async (): Promise<number> => (this.#last = await measure().catch(() => this.#last))
    if ((await ask()) <= max) return this.#last
    await this.#makeSpace().catch(() => undefined)
    return ask()
  }
}

/** Reserves a tenth of the disk, so that reads, deletes and the rest of the machine keep working. */
export function diskBound(usedPercent: UsedPercent): StoreMeasure {
  const describe = (percent: number): string => `${Math.floor(percent)} % of the disk used, at most 90 %`
  return { measure: usedPercent, max: 90, freshMilliseconds: 1_000, describe }
}

export function bytesBound(storedBytes: () => Promise<number>, maxBytes: number): StoreMeasure {
  const describe = (bytes: number): string => `${bytes} of ${maxBytes} bytes in use by all`
  return { measure: storedBytes, max: maxBytes, freshMilliseconds: 10_000, describe }
}

const RESERVE_BYTES = 1_048_576

const pathOf = (database: string): string => `${database}-reserve`

/** Reserves space beside a database for deletions on a full disk, unless it is reserved already or the disk is full. */
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

export function useReserve(database: string): void {
  rmSync(pathOf(database), { force: true })
}

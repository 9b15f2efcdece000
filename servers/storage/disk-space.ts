import { rmSync, writeFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { ServerError } from '../http/server-error.js'

/** How much of the disk is used, 0 to 100. */
export type UsedPercent = () => Promise<number>

/** Creates a reader of a disk's usage, as `df` computes it: space reserved for the administrator counts as used. */
export function createDiskUsage(folder: string): UsedPercent {
  return async () => {
    const { blocks, bfree, bavail } = await statfs(folder)
    const used = blocks - bfree
    const size = used + bavail
    return size === 0 ? 0 : (100 * used) / size
  }
}

/** Measurement of a store, and its upper bound. */
export interface StoreMeasure {
  /** Measures the store. If it fails, the last measurement is used; a full store refuses writes itself. */
  readonly measure: () => Promise<number>
  readonly max: number
  readonly freshMilliseconds: number
  readonly describe: (measured: number) => string
}

/** Time for which a measurement above the bound is used. It is short, because removals make space. */
const FULL_MILLISECONDS = 1_000

/**
 * Creates an upper bound of a store. Writes may exceed it by the bytes that they store between two measurements.
 *
 * @param makeSpace - deletes garbage if the bound is exceeded; the store is measured again afterwards
 * @returns a function that asserts that there is space. @throws ServerError ERR_STORAGE_FULL
 */
export function createStoreBound(
  { measure, max, freshMilliseconds, describe }: StoreMeasure,
  makeSpace: () => Promise<unknown>,
  nowMilliseconds = (): number => performance.now()
): () => Promise<void> {
  let last = 0
  let measured = Promise.resolve(last)
  let freshUntil = -Infinity
  const ask = async (): Promise<number> => (last = await measure().catch(() => last))
  const askOrMakeSpace = async (): Promise<number> => {
    if ((await ask()) <= max) return last
    await makeSpace().catch(() => undefined)
    return ask()
  }
  return async () => {
    const now = nowMilliseconds()
    if (now >= freshUntil) {
      measured = askOrMakeSpace()
      freshUntil = now + freshMilliseconds
    }
    const found = await measured
    if (found <= max) return
    freshUntil = Math.min(freshUntil, nowMilliseconds() + FULL_MILLISECONDS)
    throw new ServerError('ERR_STORAGE_FULL', { detail: describe(found) })
  }
}

/** Share of the disk above which content is refused, in percent. */
export const MAX_USED_PERCENT = 90

/** Reserves a tenth of the disk, so that reads, deletes and the rest of the machine keep working. */
export function createDiskBound(usedPercent: UsedPercent): StoreMeasure {
  const describe = (percent: number): string =>
    `${Math.floor(percent)} % of the disk used, at most ${MAX_USED_PERCENT} %`
  return { measure: usedPercent, max: MAX_USED_PERCENT, freshMilliseconds: 1_000, describe }
}

export function createBytesBound(storedBytes: () => Promise<number>, maxBytes: number): StoreMeasure {
  const describe = (bytes: number): string => `${bytes} of ${maxBytes} bytes in use by all`
  return { measure: storedBytes, max: maxBytes, freshMilliseconds: 10_000, describe }
}

const RESERVE_BYTES = 1_048_576

const toReservePath = (database: string): string => `${database}-reserve`

/** Reserves space next to a database for deletions on a full disk, unless it is reserved or the disk is full. */
export function createReserve(database: string): void {
  try {
    writeFileSync(toReservePath(database), Buffer.alloc(RESERVE_BYTES), { flag: 'wx', mode: 0o600, flush: true })
  } catch {
    // There is one already, or no space for it.
  }
}

/** Deletes the reserve file, so that deletions have space on a full disk. */
export function deleteReserve(database: string): void {
  rmSync(toReservePath(database), { force: true })
}

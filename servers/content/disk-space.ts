import { rmSync, writeFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { ServerError } from '../http/server-error.js'

/** Returns the used percentage of a disk, 0 to 100. */
export type UsedPercent = () => Promise<number>

/**
 * Creates a function that computes a disk's usage as `df` does: space reserved for the administrator counts as used.
 */
export function createDiskUsage(folder: string): UsedPercent {
  return async () => {
    const { blocks, bfree, bavail } = await statfs(folder)
    const used = blocks - bfree
    const size = used + bavail
    return size === 0 ? 0 : (100 * used) / size
  }
}

/** Measurement of a store's size, and its upper bound. */
export interface StoreMeasure {
  /** Measures the store. If this fails, the last measurement is used, because a full store refuses writes itself. */
  readonly measure: () => Promise<number>
  readonly max: number
  /** Time for which a measurement is used. */
  readonly freshMilliseconds: number
  readonly describe: (measured: number) => string
}

/** Time for which a measurement above the bound is used. It is short, because removals free space. */
const FULL_MILLISECONDS = 1_000

/**
 * Creates the check of a store's upper bound. Between two measurements, writes may exceed the bound.
 *
 * @param makeSpace - deletes garbage if the bound is exceeded; afterwards, the store is measured again
 * @returns a function that asserts that there is space, with @throws ServerError ERR_STORAGE_FULL
 */
export function createStoreBound(
  { measure, max, freshMilliseconds, describe }: StoreMeasure,
  makeSpace: () => Promise<unknown>,
  nowMilliseconds = (): number => performance.now()
): () => Promise<void> {
  let last = 0
  let measurement = Promise.resolve(last)
  let freshUntil = -Infinity
  const measureOrReuse = async (): Promise<number> => (last = await measure().catch(() => last))
  const measureAndMakeSpace = async (): Promise<number> => {
    if ((await measureOrReuse()) <= max) return last
    await makeSpace().catch(() => undefined)
    return measureOrReuse()
  }
  return async () => {
    const now = nowMilliseconds()
    if (now >= freshUntil) {
      measurement = measureAndMakeSpace()
      freshUntil = now + freshMilliseconds
    }
    const size = await measurement
    if (size <= max) return
    freshUntil = Math.min(freshUntil, nowMilliseconds() + FULL_MILLISECONDS)
    throw new ServerError('ERR_STORAGE_FULL', { detail: describe(size) })
  }
}

/** Share of the disk above which content is refused, in percent. */
export const MAX_USED_PERCENT = 90

/** Creates the bound of a disk: a tenth stays free, so that reads, deletions and other processes keep working. */
export function createDiskBound(usedPercent: UsedPercent): StoreMeasure {
  const describe = (percent: number): string =>
    `${Math.floor(percent)} % of the disk used, at most ${MAX_USED_PERCENT} %`
  return { measure: usedPercent, max: MAX_USED_PERCENT, freshMilliseconds: 1_000, describe }
}

/** Creates the bound of all stored bytes. */
export function createBytesBound(storedBytes: () => Promise<number>, maxBytes: number): StoreMeasure {
  const describe = (bytes: number): string => `${bytes} of ${maxBytes} bytes used by all users`
  return { measure: storedBytes, max: maxBytes, freshMilliseconds: 10_000, describe }
}

const RESERVE_BYTES = 1_048_576

const toReservePath = (database: string): string => `${database}-reserve`

/** Creates a reserve file next to a database, which is deleted to make space for deletions on a full disk. */
export function createReserve(database: string): void {
  try {
    writeFileSync(toReservePath(database), Buffer.alloc(RESERVE_BYTES), { flag: 'wx', mode: 0o600, flush: true })
  } catch {
    // The file already exists, or the disk is full.
  }
}

/** Deletes the reserve file, so that deletions have space on a full disk. */
export function deleteReserve(database: string): void {
  rmSync(toReservePath(database), { force: true })
}

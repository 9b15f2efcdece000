import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs'

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

import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Name of the file in `DATA_DIR` that exists while `restore` writes. */
export const UNFINISHED_RESTORE = 'restore-unfinished'

/** Syncs a folder. Otherwise a power loss could undo the creation or the removal of a name in it. */
export function syncFolder(folder: string): void {
  // Windows cannot sync folders.
  if (process.platform === 'win32') return
  const descriptor = openSync(folder, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

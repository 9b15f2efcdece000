import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { getErrorCode } from './startup-error.js'

/** Name of the file in `DATA_DIR` that exists while `restore` writes. */
export const UNFINISHED_RESTORE = 'restore-unfinished'

/**
 * Creates a private folder and its parents, unless they exist.
 *
 * Each level is created by itself: on a read-only disk, the recursive form of Node reports that the folder does not
 * exist, and below `/proc` it never returns.
 *
 * @returns the folders that were missing, parents first
 */
export function createPrivateFolder(
  folder: string,
  make: (path: string, options: object) => unknown = mkdirSync
): string[] {
  const missing: string[] = []
  for (let path = resolve(folder); !existsSync(path); path = dirname(path)) missing.unshift(path)
  for (const path of missing) {
    try {
      make(path, { mode: 0o700 })
    } catch (error) {
      // Another process has created it.
      if (getErrorCode(error) !== 'EEXIST') throw error
    }
  }
  // Throws EEXIST for a file.
  if (missing.length === 0) mkdirSync(folder, { recursive: true })
  return missing
}

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

/** Error codes of file systems without hard links (exFAT, SMB, some mounts), or without links between two folders. */
const CANNOT_LINK = new Set(['EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV', 'EMLINK', 'EISDIR'])

/** Whether a hard link failed because the file system has none. The file has to be copied instead. */
export function isWithoutLinks(error: unknown): boolean {
  return CANNOT_LINK.has(getErrorCode(error) ?? '')
}

const SECRET_BYTES = 32
/** Number of hexadecimal digits of a secret. */
export const SECRET_DIGITS = 2 * SECRET_BYTES
/** Wait for another process that creates the same secret, and the pause between two reads, in milliseconds. */
const [MAX_WAIT, READ_PAUSE] = [2_000, 20]

type Link = (from: string, to: string) => void

/**
 * Reads a file, or creates it with a random secret. If two processes start at once, both read the same secret. Without
 * hard links, the file is empty for a moment, so a reader of too few digits waits for the other process.
 *
 * @returns the text, which may be too short after a crash
 */
export function readOrCreateSecret(file: string, link: Link = linkSync): string {
  if (!existsSync(file)) createSecret(file, link)
  const deadlineAt = performance.now() + MAX_WAIT
  for (;;) {
    const text = readFileSync(file, 'utf8').trim()
    if (!isUnfinishedSecret(text) || performance.now() > deadlineAt) return text
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, READ_PAUSE)
  }
}

/** Whether a text is the beginning of a secret. */
export function isUnfinishedSecret(text: string): boolean {
  return text.length < SECRET_DIGITS && /^[0-9a-f]*$/.test(text)
}

/** Creates a private file with a random secret, unless it exists. Creation is atomic where the disk has hard links. */
function createSecret(file: string, link: Link): void {
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  const text = `${randomBytes(SECRET_BYTES).toString('hex')}\n`
  const create = (path: string): void => writeFileSync(path, text, { flag: 'wx', mode: 0o600, flush: true })
  try {
    create(draft)
    try {
      // A link fails if the file exists, so the first of two processes wins.
      link(draft, file)
    } catch (error) {
      if (!isWithoutLinks(error)) throw error
      create(file)
    }
  } catch (error) {
    if (getErrorCode(error) !== 'EEXIST') throw error
  } finally {
    rmSync(draft, { force: true })
  }
  syncFolder(dirname(file))
}

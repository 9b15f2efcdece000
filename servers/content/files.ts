import { randomBytes } from 'node:crypto'
import { constants, readdirSync, rmSync, statSync } from 'node:fs'
import { chmod, copyFile, link, mkdir, open, opendir, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { createPrivateFolder, isWithoutLinks } from '../config/private-files.js'
import { getErrorCode } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import type { ObjectStore } from './content-store.js'
import { LEAF_BYTES } from './unixfs-blocks.js'

/** Size of a piece that is read. With 256 KiB, 200 slow readers used 50 MiB and fragmented the memory. */
const PIECE_BYTES = 65_536

/**
 * Creates an object store of private files. Subfolders are the last two characters of the names: `objects/<2>/<name>`.
 *
 * @param options.isSynced - whether an object survives a power failure, or only a crash of the process
 */
export function createFileObjectStore(folder: string, { isSynced } = { isSynced: true }): ObjectStore {
  const toPath = (name: string): string => join(folder, name.slice(-2), name)
  const place = (file: string, path: string): Promise<void> =>
    // A link is atomic like a rename, but never overwrites a file.
    link(file, path).catch(async (error: unknown) => {
      if (!isWithoutLinks(error)) throw error
      await copyFile(file, path, constants.COPYFILE_EXCL)
      if (isSynced) await sync(path)
    })
  return {
    async put(name, file, handle) {
      const path = toPath(name)
      if (isSynced) await (handle?.sync() ?? sync(file))
      let createdFolder: string | undefined
      await place(file, path).catch(async (error: unknown) => {
        if (getErrorCode(error) !== 'ENOENT') throw error
        createdFolder = await mkdir(dirname(path), { recursive: true, mode: 0o700 })
        await place(file, path)
      })
      // The spool creates its files with mode 0600.
      if (handle === undefined) await chmod(path, 0o600)
      if (!isSynced) return
      await sync(dirname(path))
      if (createdFolder !== undefined) await sync(folder)
    },

    async *read(name) {
      const file = await open(toPath(name))
      try {
        for (;;) {
          const buffers = Array.from({ length: LEAF_BYTES / PIECE_BYTES }, () => Buffer.allocUnsafeSlow(PIECE_BYTES))
          const { bytesRead } = await file.readv(buffers)
          if (bytesRead === 0) return
          // Release each buffer as soon as it is read: a slow reader may need minutes for each.
          for (let remaining = bytesRead; remaining > 0; remaining -= PIECE_BYTES) {
            yield* buffers.splice(0, 1).map((buffer) => buffer.subarray(0, remaining))
          }
        }
      } finally {
        await file.close()
      }
    },

    async delete(name, { overwrite } = { overwrite: false }) {
      const path = toPath(name)
      if (overwrite) await overwriteWithZeros(path)
      await rm(path, { force: true })
      if (overwrite) await sync(dirname(path)).catch(ignoreMissing)
    },

    async *list() {
      // The folder is otherwise created with the first object.
      await mkdir(folder, { recursive: true, mode: 0o700 })
      for await (const item of await opendir(folder, { recursive: true })) if (item.isFile()) yield item.name
    }
  }
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

async function overwriteWithZeros(path: string): Promise<void> {
  try {
    const { size } = await stat(path)
    const file = await open(path, 'r+')
    try {
      const zeros = Buffer.alloc(LEAF_BYTES)
      for (let start = 0; start < size; start += LEAF_BYTES) {
        await file.write(zeros, 0, Math.min(LEAF_BYTES, size - start), start)
      }
      await file.sync()
    } finally {
      await file.close()
    }
  } catch (error) {
    ignoreMissing(error)
  }
}

function ignoreMissing(error: unknown): void {
  if (getErrorCode(error) !== 'ENOENT') throw error
}

/** Prefix of this process's files. It has a random part, because process ids are reused. */
const OWN_PREFIX = `${hostname()}~${process.pid}~${randomBytes(4).toString('hex')}`

/** Folder for bodies that are being received. Callers delete their files; the next start deletes orphans of a crash. */
export interface Spool {
  /** Returns the path of a new file, which the caller opens with mode 0600. */
  newFile(): string
}

/** Creates the folder if it is missing, and deletes files of processes that have ended. */
export function openSpool(folder: string): Spool {
  createPrivateFolder(folder)
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    if (isOrphan(path, name)) rmSync(path, { force: true })
  }
  return { newFile: () => join(folder, `${OWN_PREFIX}~${randomBytes(8).toString('hex')}`) }
}

/** Whether the process that created a file has ended. */
function isOrphan(path: string, name: string): boolean {
  const [host = '', pid = '', start = ''] = name.split('~')
  if (`${host}~${pid}~${start}` === OWN_PREFIX) return false
  // The process ran on another host, or in a container that was recreated with another name.
  if (host !== hostname()) {
    const { mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? { mtimeMs: 0 }
    return Date.now() - mtimeMs > limitMilliseconds.abandonedFile
  }
  if (Number(pid) === process.pid) return true
  try {
    process.kill(Number(pid), 0)
    return false
  } catch (error) {
    return getErrorCode(error) === 'ESRCH'
  }
}

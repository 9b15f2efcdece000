import { constants } from 'node:fs'
import { chmod, copyFile, link, mkdir, open, opendir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../config/startup-error.js'
import type { ObjectStore } from '../object-store.js'
import { LEAF_BYTES } from '../unixfs-blocks.js'

/** A file system that knows no links, or does not link from the spool to here. */
const CANNOT_LINK = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV', 'EMLINK'])

/**
 * So much is sent at once, and given back. In pieces of 256 KiB, 200 slow readers took 50 MiB, and the allocator of the
 * system could not use the gaps that they left again.
 */
const PIECE_BYTES = 65_536

/** Objects as files, for their owner's eyes only, in subfolders by the end of their names: `objects/<2>/<name>`. */
export class FileObjectStore implements ObjectStore {
  readonly #folder: string
  readonly #isSynced: boolean

  /** @param options.isSynced - false: an object survives the end of the process, and not the loss of power */
  constructor(folder: string, { isSynced = true }: { readonly isSynced?: boolean } = {}) {
    this.#folder = folder
    this.#isSynced = isSynced
  }

  async put(name: string, file: string): Promise<void> {
    const path = this.#pathOf(name)
    if (this.#isSynced) await sync(file)
    const made = await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    // A link is there whole or not at all, as a rename is, and refuses to overwrite.
    await link(file, path).catch(async (error: unknown) => {
      if (!CANNOT_LINK.has(codeOf(error) ?? '')) throw error
      await copyFile(file, path, constants.COPYFILE_EXCL)
      if (this.#isSynced) await sync(path)
    })
    await chmod(path, 0o600)
    if (!this.#isSynced) return
    await sync(dirname(path))
    if (made !== undefined) await sync(this.#folder)
  }

  async *read(name: string): AsyncIterable<Uint8Array> {
    const file = await open(this.#pathOf(name))
    try {
      for (;;) {
        const buffers = Array.from({ length: LEAF_BYTES / PIECE_BYTES }, () => Buffer.allocUnsafeSlow(PIECE_BYTES))
        const { bytesRead } = await file.readv(buffers)
        if (bytesRead === 0) return
        // Each is released once it was read, which may be minutes after the one before.
        for (let left = bytesRead; left > 0; left -= PIECE_BYTES) {
          yield* buffers.splice(0, 1).map((buffer) => buffer.subarray(0, left))
        }
      }
    } finally {
      await file.close()
    }
  }

  async delete(name: string, { overwrite } = { overwrite: false }): Promise<void> {
    const path = this.#pathOf(name)
    if (overwrite) await overwriteWithZeros(path)
    await rm(path, { force: true })
    if (overwrite) await sync(dirname(path)).catch(ignoreMissing)
  }

  async *list(): AsyncIterable<string> {
    // Made with the first object.
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    for await (const one of await opendir(this.#folder, { recursive: true })) if (one.isFile()) yield one.name
  }

  #pathOf(name: string): string {
    return join(this.#folder, name.slice(-2), name)
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
  if (codeOf(error) !== 'ENOENT') throw error
}

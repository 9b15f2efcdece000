import { mkdirSync } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import {
  chooseSqliteEngine,
  createMethods,
  prepareSqliteFile,
  startSqliteThreads,
  startSqliteWorker,
  type ThreadRole,
  type VerbMethods
} from 'express-did-auth/server-kit'
import { describeReason, startStep } from '../../config/startup-error.js'
import { createReserve } from '../disk-space.js'
import { createFileObjectStore, openSpool } from '../files.js'
import type { ObjectStore } from '../content-store.js'
import { createSqlContentStore, type ContentStoreSettings, type OpenContentStore } from './sql-content-store.js'
import { createSqliteVerbs, type SqliteVerbs } from './sqlite-verbs.js'
import type { ThreadSettings } from './sqlite-worker.js'
import { SQLITE_TABLES } from './tables.js'

export interface ContentStoreOptions extends ContentStoreSettings {
  /** Folder of the server, which contains the database, `objects/` and `spool/`. */
  readonly folder: string
  /** File name, such as `vault.db`. */
  readonly database: string
  /** Whether a write survives a loss of power. Without that, writes are faster. Default true. */
  readonly isDurable?: boolean
  /** Store of large content. Default: files in `objects/`. */
  readonly objects?: ObjectStore
}

const TRIES = 5
const PAUSE_MILLISECONDS = 300
/** Space that a copy of the file and the log of changes need, as a multiple of the file. */
const COPIES = 2.2

/** Opens storage in a folder, which several processes may share. Creates missing files. @throws StartError */
export async function openContentStore(options: ContentStoreOptions): Promise<OpenContentStore> {
  const { folder, isDurable = true } = options
  const file = join(folder, options.database)
  const { opened, spool } = startStep(`Cannot use ${file} (DATA_DIR)`, () => openFolder(folder, file))
  const damage = new Int32Array(new SharedArrayBuffer(4))
  const start = (role: ThreadRole): Worker => {
    const settings: ThreadSettings = { ...opened, synchronous: isDurable ? 'FULL' : 'NORMAL', damage, role }
    return startSqliteWorker(new URL('./sqlite-worker.js', import.meta.url), settings)
  }
  const { verbs, reads } = createSqliteVerbs()
  const threads = startSqliteThreads({ start, reads, format: 'clone' })
  const objects = options.objects ?? createFileObjectStore(join(folder, 'objects'), { isSynced: isDurable })
  const engineParts = {
    verbs,
    run: threads.run,
    objects,
    spool,
    erase: (wasInRow: boolean) => rewriteFile(file, createMethods(verbs, threads.run), wasInRow),
    // Removals may have used it.
    onProbe: () => createReserve(file),
    close: threads.close
  }
  return createSqlContentStore(engineParts, options)
}

/** On the caller's thread, so that what is wrong with the folder is known at once. */
function openFolder(folder: string, file: string) {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const engine = chooseSqliteEngine()
  const opened = { ...prepareSqliteFile(file, engine, SQLITE_TABLES, 'numbers'), engine }
  createReserve(file)
  return { opened, spool: openSpool(join(folder, 'spool')) }
}

/**
 * Rewrites a database without what was deleted, and empties its log of changes.
 *
 * @param isRewritten - false: only the log may have deleted bytes
 * @returns what may still have them, in words
 */
async function rewriteFile(file: string, verbs: VerbMethods<SqliteVerbs>, isRewritten: boolean): Promise<string[]> {
  const vacuum = async (): Promise<string | undefined> => {
    const [{ size }, { bavail, bsize }] = await Promise.all([stat(file), statfs(file)])
    if (size * COPIES > bavail * bsize) return 'there is no space for a copy'
    await verbs.vacuum()
    return undefined
  }
  const remains: string[] = []
  const what = isRewritten ? await tryOften(vacuum) : undefined
  if (what !== undefined) remains.push(`${file} was not rewritten: ${what}`)
  const log = await tryOften(async () => ((await verbs.truncateLog()) ? undefined : 'something reads it'))
  if (log !== undefined) remains.push(`${file}-wal was not emptied: ${log}`)
  return remains
}

/** @returns why it failed in the end; undefined when it did not */
async function tryOften(work: () => Promise<string | undefined>): Promise<string | undefined> {
  for (let tries = 1; ; tries += 1) {
    const failure = await work().catch((error: unknown) => describeReason(error))
    if (failure === undefined || tries === TRIES) return failure
    await pause(PAUSE_MILLISECONDS)
  }
}

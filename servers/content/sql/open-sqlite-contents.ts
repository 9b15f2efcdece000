import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import {
  chooseSqliteEngine,
  prepareSqliteFile,
  startSqliteThreads,
  startSqliteWorker,
  type ThreadRole
} from 'express-did-auth/server-kit'
import { createPrivateFolder } from '../../config/private-files.js'
import { describeReason, startStep } from '../../config/startup-error.js'
import { createReserve } from '../disk-space.js'
import { createFileObjectStore, openSpool } from '../files.js'
import type { ObjectStore } from '../content-store.js'
import { createSqlContentStore, type ContentStoreSettings, type OpenContentStore } from './sql-content-store.js'
import type { RunContentVerb } from './content-dialect.js'
import { fileAsWhole, SQLITE_VERBS, type ThreadSettings } from './sqlite-verbs.js'
import { SQLITE_TABLES } from './tables.js'

/** Options of {@link openContentStore}. */
export interface ContentStoreOptions extends ContentStoreSettings {
  /** Folder of the server, with the database, `objects/` and `spool/`. */
  readonly folder: string
  /** File name of the database, such as `vault.db`. */
  readonly database: string
  /** Whether a write survives a power failure. If false, writes are faster. Default true. */
  readonly isDurable?: boolean
  /** Store of large content. Default: files in `objects/`. */
  readonly objects?: ObjectStore
}

const TRIES = 5
const PAUSE_MILLISECONDS = 300
/** Space that VACUUM needs for a copy and the write-ahead log, as a multiple of the file size. */
const VACUUM_FACTOR = 2.2

/** Opens storage in a folder, which several processes may share, and creates missing files. @throws StartError */
export async function openContentStore(options: ContentStoreOptions): Promise<OpenContentStore> {
  const { folder, isDurable = true } = options
  const file = join(folder, options.database)
  const { opened, spool } = startStep(`Cannot use ${file} (DATA_DIR)`, () => openFolder(folder, file))
  const damage = new Int32Array(new SharedArrayBuffer(4))
  const start = (role: ThreadRole): Worker => {
    const settings: ThreadSettings = { ...opened, synchronous: isDurable ? 'FULL' : 'NORMAL', damage, role }
    return startSqliteWorker(new URL('./sqlite-worker.js', import.meta.url), settings)
  }
  const { run, close } = startSqliteThreads({ start, verbs: SQLITE_VERBS, format: 'clone' })
  const objects = options.objects ?? createFileObjectStore(join(folder, 'objects'), { isSynced: isDurable })
  const engineParts = {
    run,
    databaseVerbs: fileAsWhole,
    objects,
    spool,
    erase: (wasInRow: boolean) => rewriteFile(file, run, wasInRow),
    // A removal on a full disk may have deleted the reserve.
    onProbe: () => createReserve(file),
    close
  }
  return createSqlContentStore(engineParts, options)
}

/** Prepares the folder on the caller's thread, so that faults are reported at once. */
function openFolder(folder: string, file: string) {
  createPrivateFolder(folder)
  const engine = chooseSqliteEngine()
  const opened = { ...prepareSqliteFile(file, engine, SQLITE_TABLES, 'numbers'), engine }
  createReserve(file)
  return { opened, spool: openSpool(join(folder, 'spool')) }
}

/**
 * Rewrites a database without deleted bytes, and empties its write-ahead log.
 *
 * @param isRewritten - false if only the log may contain deleted bytes
 * @returns descriptions of files that may still contain deleted bytes
 */
async function rewriteFile(file: string, run: RunContentVerb, isRewritten: boolean): Promise<string[]> {
  const vacuum = async (): Promise<string | undefined> => {
    const [{ size }, { bavail, bsize }] = await Promise.all([stat(file), statfs(file)])
    if (size * VACUUM_FACTOR > bavail * bsize) return 'not enough disk space for a copy'
    await run(fileAsWhole.vacuum)
    return undefined
  }
  const remains: string[] = []
  const vacuumFailure = isRewritten ? await retry(vacuum) : undefined
  if (vacuumFailure !== undefined) remains.push(`${file} was not rewritten: ${vacuumFailure}`)
  const logFailure = await retry(async () =>
    (await run(fileAsWhole.truncateLog)) ? undefined : 'another process reads it'
  )
  if (logFailure !== undefined) remains.push(`${file}-wal was not emptied: ${logFailure}`)
  return remains
}

/** Repeats work until it succeeds, up to five times. @returns the last failure, or undefined after a success */
async function retry(work: () => Promise<string | undefined>): Promise<string | undefined> {
  for (let tries = 1; ; tries += 1) {
    const failure = await work().catch((error: unknown) => describeReason(error))
    if (failure === undefined || tries === TRIES) return failure
    await pause(PAUSE_MILLISECONDS)
  }
}

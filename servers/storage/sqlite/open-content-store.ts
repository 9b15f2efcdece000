import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from 'express-did-auth'
import {
  chooseSqliteEngine,
  openSqliteConnection,
  startSqliteWorker,
  SweepClock,
  SqliteWorkerClient
} from 'express-did-auth/stores/sqlite'
import { startStep } from '../../config/startup-error.js'
import { FileObjectStore } from '../files/file-object-store.js'
import { Spool } from '../files/spool.js'
import type { ContentExport } from '../content-inspection.js'
import type { ObjectStore } from '../object-store.js'
import { ObjectWriter } from '../object-writer.js'
import type { OpenContentStore } from '../opened-content-store.js'
import type { ThreadSettings } from './content-worker.js'
import { prepareTables } from './schema.js'
import { makeReserve } from '../disk-space.js'
import { SqliteContentInspection } from './sqlite-content-inspection.js'
import { SqliteContentStore } from './sqlite-content-store.js'
import { VerbCaller } from './verb-caller.js'

export interface ContentStoreOptions {
  /** Of the server: the database, `objects/` and `spool/` lie there. */
  readonly folder: string
  /** Name of the database file in it, such as `vault.db`. */
  readonly database: string
  /** False: a write survives the end of the process, and not the loss of power, which is cheaper. Default true. */
  readonly isDurable?: boolean
  /** Whether there is an IPFS node, so that new content is to be pinned. Default false. */
  readonly tracksPins?: boolean
  readonly clock?: Clock
  /** Seconds since any moment, that no clock which is set changes. */
  readonly monotonicSeconds?: () => number
  /** Where large content lies. Default: files in `objects/`. */
  readonly objects?: ObjectStore
}

export type { OpenContentStore }

const systemClock: Clock = { nowSeconds: () => Math.floor(Date.now() / 1_000) }
const OPENING_MILLISECONDS = 5_000

/**
 * Opens the storage of a server in its folder, which several processes of a machine may do, and creates what is missing.
 *
 * @throws StartError when it cannot be used
 */
export async function openContentStore(
  options: ContentStoreOptions
): Promise<OpenContentStore & { readonly inspection: ContentExport }> {
  const { folder, isDurable = true, tracksPins = false } = options
  const { clock = systemClock, monotonicSeconds } = options
  const file = join(folder, options.database)
  const { engine, spool } = startStep(`Cannot use ${file} (DATA_DIR)`, () => openFolder(options, file))
  const settings: ThreadSettings = { file, engine, synchronous: isDurable ? 'FULL' : 'NORMAL', tracksPins }
  const start = () => startSqliteWorker(new URL('./content-worker.js', import.meta.url), settings)
  const verbs = new VerbCaller(new SqliteWorkerClient({ start, format: 'clone' }))
  const objects = options.objects ?? new FileObjectStore(join(folder, 'objects'), { isSynced: isDurable })
  const writer = new ObjectWriter(objects, spool)
  const sweepClock = new SweepClock(monotonicSeconds)
  // The time until it trusts the wall clock begins now, and not with the first sweep.
  sweepClock.sweepSeconds(clock.nowSeconds())
  const store = new SqliteContentStore({ file, verbs, objects, writer, clock, sweepClock })
  return { store, inspection: new SqliteContentInspection(verbs, objects, clock), spool }
}

/** On the caller's thread, so that what is wrong with the folder is known at once. */
function openFolder({ folder }: ContentStoreOptions, file: string): { engine: ThreadSettings['engine']; spool: Spool } {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const engine = chooseSqliteEngine()
  const connection = openSqliteConnection(file, engine, { synchronous: 'FULL', busyMilliseconds: OPENING_MILLISECONDS })
  try {
    prepareTables(connection)
  } finally {
    connection.close()
  }
  makeReserve(file)
  return { engine, spool: new Spool(join(folder, 'spool')) }
}

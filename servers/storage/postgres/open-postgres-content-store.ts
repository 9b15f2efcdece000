import { join } from 'node:path'
import type { Clock } from 'express-did-auth'
import { migratePostgres, type PostgresDatabase, type PostgresMigration } from 'express-did-auth/stores/postgres'
import { SweepClock } from 'express-did-auth/stores/sqlite'
import { startStep } from '../../config/startup-error.js'
import { Spool } from '../files/spool.js'
import type { ContentImport } from '../content-inspection.js'
import type { ObjectStore } from '../object-store.js'
import { ObjectWriter } from '../object-writer.js'
import type { OpenContentStore } from '../opened-content-store.js'
import { ContentDatabase } from './content-database.js'
import { contentTables, type TablePrefix } from './content-schema.js'
import { PostgresContentImport } from './postgres-content-import.js'
import { PostgresContentInspection } from './postgres-content-inspection.js'
import { PostgresContentStore } from './postgres-content-store.js'
import { PostgresObjectStore } from './postgres-object-store.js'

export interface PostgresContentStoreOptions {
  /** The caller's, who closes it. */
  readonly database: PostgresDatabase
  /** Whose tables. */
  readonly tables: TablePrefix
  /** Brings the tables up to date before the first statement. Default: they are. */
  readonly migrate?: () => Promise<unknown>
  /** Of this instance: `spool/` lies there. */
  readonly folder: string
  /** Whether there is an IPFS node, so that new content is to be pinned. Default false. */
  readonly tracksPins?: boolean
  readonly clock?: Clock
  /** Seconds since any moment, that no clock which is set changes. */
  readonly monotonicSeconds?: () => number
  /** Where large content lies. Default: in the database, since instances share no disk. */
  readonly objects?: ObjectStore
}

const systemClock: Clock = { nowSeconds: () => Math.floor(Date.now() / 1_000) }
const processSeconds = (): number => performance.now() / 1_000

/**
 * Opens the storage of a server in PostgreSQL. It asks nothing of the database, so that a server starts before that.
 *
 * @throws StartError when the folder cannot be used
 */
export function openPostgresContentStore(
  options: PostgresContentStoreOptions
): OpenContentStore & { readonly imports: ContentImport } {
  const { folder, tracksPins = false, clock = systemClock, monotonicSeconds = processSeconds } = options
  const spool = startStep(`Cannot use ${folder} (DATA_DIR)`, () => new Spool(join(folder, 'spool')))
  const database = new ContentDatabase(options.database, options.tables, options.migrate)
  const objects = options.objects ?? new PostgresObjectStore(database)
  const writer = new ObjectWriter(objects, spool)
  const sweepClock = new SweepClock(monotonicSeconds)
  // The time until it trusts the wall clock begins now, and not with the first sweep.
  sweepClock.sweepSeconds(clock.nowSeconds())
  const parts = {
    database,
    objects,
    writer,
    clock,
    sweepClock,
    monotonicSeconds,
    tracksPins
  }
  return {
    store: new PostgresContentStore(parts),
    inspection: new PostgresContentInspection(database, objects, clock),
    imports: new PostgresContentImport(parts),
    spool
  }
}

/** The steps of the schema of a server's content; their version stands in the table `<prefix>_schema`. */
export function contentMigrations(tables: TablePrefix): PostgresMigration[] {
  return [{ statements: contentTables(tables), needsCode: 1 }]
}

/**
 * Makes the tables of a server's content, or brings them up to date.
 *
 * @returns the statements that were run, or with `print` are to be run
 * @throws as `migratePostgres`
 */
export async function migrateContent(
  database: PostgresDatabase,
  tables: TablePrefix,
  mode: 'apply' | 'check' | 'print' = 'apply'
): Promise<string[]> {
  return migratePostgres(database, contentMigrations(tables), { schemaTable: `${tables}_schema`, mode })
}

import { join } from 'node:path'
import { createLazy, readField, verb, type SqlQuery } from 'express-did-auth/server-kit'
import { migratePostgres, type PostgresDatabase } from 'express-did-auth/stores/postgres'
import { startStep } from '../../config/startup-error.js'
import { openSpool } from '../files.js'
import type { ObjectStore } from '../content-store.js'
import {
  createPostgresContents,
  createStatements,
  createTranslator,
  type ContentQuery,
  type RunContentVerb,
  type TablePrefix
} from './content-dialect.js'
import type { DatabaseCheck } from './inspection-verbs.js'
import { createPostgresObjectStore } from './postgres-object-store.js'
import { createSqlContentStore, type ContentStoreSettings, type OpenContentStore } from './sql-content-store.js'
import { createContentMigrations } from './tables.js'

/** Options of {@link openPostgresContentStore}. */
export interface PostgresContentStoreOptions extends ContentStoreSettings {
  /** Database of the caller, who closes it. */
  readonly database: PostgresDatabase
  readonly tables: TablePrefix
  /** Migrates or checks the tables before the first statement. Default: no check. */
  readonly migrate?: () => Promise<unknown>
  /** Folder of this instance, which contains `spool/`. */
  readonly folder: string
  /** Store of large content. Default: the database, because instances share no disk. */
  readonly objects?: ObjectStore
}

/** SQLSTATEs of constraint errors, after which a transaction is repeated: a concurrent transaction was faster. */
const REPEAT_ON = ['23503', '23505']

/** Opens storage in PostgreSQL, for any number of instances, without sending a query yet. @throws StartError */
export function openPostgresContentStore(options: PostgresContentStoreOptions): OpenContentStore {
  const { folder, database, tables } = options
  const spool = startStep(`Cannot use ${folder} (DATA_DIR)`, () => openSpool(join(folder, 'spool')))
  const open = createLazy(options.migrate ?? (() => Promise.resolve()))
  const objects = options.objects ?? createPostgresObjectStore(database, tables, open)
  const dialect = createPostgresContents(tables)
  const translate = createTranslator(dialect)
  // The database also locks the owner's row, but writes of one user that wait there could use all connections.
  const owners = new OwnerLock()
  const run: RunContentVerb = async (verb, ...args) => {
    await open()
    const settings = { repeatOn: REPEAT_ON, isRepeatable: verb.isRepeatable }
    const work = (query: SqlQuery) => {
      const queryTranslated: SqlQuery = (statement, values) => query(translate(statement), values)
      return verb.run(Object.assign(queryTranslated, { dialect }), ...args)
    }
    if (verb.kind !== 'transaction') return work((statement, values) => database.query(statement, values, settings))
    return owners.run(readField(args[0], 'did'), () => database.transaction(work, settings))
  }
  return createSqlContentStore({ run, databaseVerbs, objects, spool, close: async () => undefined }, options)
}

/** Lock by which the writes of one owner run one after another, in the order of their calls. */
class OwnerLock {
  readonly #lastWrites = new Map<unknown, Promise<unknown>>()

  /** @param owner - undefined to run the write at once */
  async run<T>(owner: unknown, write: () => Promise<T>): Promise<T> {
    if (owner === undefined) return write()
    const written = (this.#lastWrites.get(owner) ?? Promise.resolve()).then(write)
    const last = written.catch(() => undefined)
    this.#lastWrites.set(owner, last)
    try {
      return await written
    } finally {
      if (this.#lastWrites.get(owner) === last) this.#lastWrites.delete(owner)
    }
  }
}

/** Statements that check checksums, foreign keys and indexes. A backup may have been restored without foreign keys. */
export const databaseStatements = createStatements('database', () => ({
  faults: `SELECT 'checksums: ' || CAST(checksum_failures AS text) || ' pages of this database are damaged' AS damage, NULL AS index
       FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database() AND checksum_failures > 0
     UNION ALL SELECT 'table ' || t.name || ' has no valid foreign key', NULL
       FROM pg_catalog.unnest(ARRAY['~entries', '~files', '~lists', '~object_pieces']) AS t (name)
       WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint
         WHERE conrelid = CAST(pg_catalog.to_regclass(t.name) AS oid) AND contype = 'f' AND convalidated)
     UNION ALL SELECT NULL, CAST(CAST(i.indexrelid AS regclass) AS text)
       FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
       WHERE NOT i.indisvalid AND pg_catalog.starts_with(c.relname, '~') AND pg_catalog.pg_table_is_visible(c.oid)`
}))

const databaseVerbs = {
  findFaults: verb('read', async (query: ContentQuery): Promise<DatabaseCheck> => {
    const { rows } = await query(databaseStatements.faults)
    const listTexts = (column: 'damage' | 'index'): string[] =>
      rows.map((row) => row[column]).filter((text) => typeof text === 'string')
    return { damage: listTexts('damage'), indexes: listTexts('index') }
  }),

  rebuildIndexes: verb('write', async (query: ContentQuery, indexes: readonly string[]) => {
    // PostgreSQL has quoted these names of indexes.
    for (const index of indexes) await query({ text: `REINDEX INDEX ${index}` })
  })
}

/** Creates or migrates the tables of a server's content, as `migratePostgres` does. */
export async function migrateContent(
  database: PostgresDatabase,
  tables: TablePrefix,
  mode: 'apply' | 'check' | 'print' = 'apply'
): Promise<string[]> {
  return migratePostgres(database, createContentMigrations(tables), { schemaTable: `${tables}_schema`, mode })
}

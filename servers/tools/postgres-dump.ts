import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { PostgresDatabase, SqlQuery } from 'express-did-auth/stores/postgres'
import { StartError } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import { cidOf } from '../content/unixfs-blocks.js'
import type { Manifest, TableCounts } from './backup-folder.js'
import { PAGE_ROWS, readPages, readRows, writeLines } from './row-files.js'

/** Time limit for the transaction of a backup or a restore. */
export const DUMP_SECONDS = limitMilliseconds.dump / 1_000

const SESSION_TABLES = ['sessions', 'challenge_uses', 'ended_sessions', 'numbers']
/** Tables of contents. A table comes after those that it refers to. */
const CONTENT_TABLES =
  'numbers contents unreferenced garbage denied owners lists entries files posts pins objects object_pieces'.split(' ')
/** All tables with data that survives a crash, in the order in which rows are inserted. */
export const DUMPED_TABLES: readonly string[] = [
  ...SESSION_TABLES.map((name) => `did_auth_${name}`),
  ...['relay', 'vault'].flatMap((prefix) => CONTENT_TABLES.map((name) => `${prefix}_${name}`))
]

const toFile = (folder: string, table: string): string => join(folder, `${table}.jsonl.gz`)

/**
 * Writes the tables of a database to files, in one snapshot of a REPEATABLE READ transaction. Each row is a line. It
 * needs no program such as pg_dump, whose version must match the server. Afterwards, all files are verified.
 *
 * @returns the tables, and the cids of content that is missing or damaged
 */
export async function dumpTables(
  database: PostgresDatabase,
  folder: string
): Promise<{ tables: TableCounts; missing: string[] }> {
  const tables = await database.transaction(async (query) => {
    await query({ text: 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY' })
    // `row_to_json` writes bytes as this setting says, which a database or a user may change.
    await query({ text: "SET LOCAL bytea_output = 'hex'" })
    const counts: TableCounts = {}
    for (const table of DUMPED_TABLES) {
      const columns = await listColumns(query, table)
      // Each server has created only its own tables.
      if (columns.length > 0) counts[table] = { rows: await dumpTable(query, table, toFile(folder, table)), columns }
    }
    return counts
  })
  if (Object.keys(tables).length === 0)
    throw new StartError('There is nothing to back up in the database (DATABASE_URL)')
  return { tables, missing: await verifyDump(folder, tables) }
}

/**
 * Verifies all files of a dump: parses and counts their rows, and computes the cids of the contents.
 *
 * @returns the cids of content that is missing or damaged
 * @throws StartError if a file has another number of rows, or a row that is no JSON
 */
export async function verifyDump(folder: string, tables: TableCounts): Promise<string[]> {
  const read = (table: string): AsyncGenerator<Record<string, unknown>> =>
    readRows(toFile(folder, table), table, tables[table]?.rows ?? 0)
  const missing: string[] = []
  for (const table of Object.keys(tables)) {
    if (table.endsWith('_object_pieces')) continue
    if (table.endsWith('_contents')) {
      const pieces = table.replace(/contents$/, 'object_pieces')
      missing.push(...(await findDamage(read(table), tables[pieces] === undefined ? [] : read(pieces))))
    } else for await (const _row of read(table));
  }
  return missing
}

/** Lists the columns of a table; empty if it does not exist. */
async function listColumns(query: SqlQuery, table: string): Promise<string[]> {
  const text = `SELECT attname::text AS name FROM pg_catalog.pg_attribute
    WHERE attrelid = pg_catalog.to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attname`
  return (await query({ text }, [table])).rows.map(({ name }) => String(name))
}

async function dumpTable(query: SqlQuery, table: string, path: string): Promise<number> {
  const file = await open(path, 'wx', 0o600)
  return writeLines(readTable(query, table), file.createWriteStream({ flush: true }))
}

/** Reads the rows of a table as JSON, in pages. */
async function* readTable(query: SqlQuery, table: string): AsyncGenerator<string[]> {
  // Content of several pieces is verified in the order of the pieces.
  const order = table.endsWith('_object_pieces') ? 'ORDER BY object, number' : ''
  const selected = `SELECT pg_catalog.row_to_json(t)::text AS line FROM ${table} t ${order}`
  await query({ text: `DECLARE dumped NO SCROLL CURSOR FOR ${selected}` })
  for (;;) {
    const { rows } = await query({ text: `FETCH ${PAGE_ROWS} FROM dumped` })
    if (rows.length === 0) break
    yield rows.map(({ line }) => String(line))
  }
  await query({ text: 'CLOSE dumped' })
}

const toBytes = (text: unknown): Buffer => Buffer.from(String(text).slice('\\x'.length), 'hex')

/** Rows of a dumped file. */
type Rows = AsyncIterable<Record<string, unknown>> | Iterable<never>

/** Computes the cids of the dumped contents of a server. @returns the cids that do not match */
async function findDamage(contents: Rows, objectPieces: Rows): Promise<string[]> {
  const damaged: string[] = []
  /** Cids of the content in objects, by the name of the object. */
  const objects = new Map<unknown, string>()
  for await (const { cid, object, bytes } of contents) {
    if (object !== null) objects.set(object, String(cid))
    else if (cidOf(toBytes(bytes)) !== cid) damaged.push(String(cid))
  }
  let [name, pieces]: [unknown, Buffer[]] = ['', []]
  const endObject = (): void => {
    if (objects.get(name) === cidOf(Buffer.concat(pieces))) objects.delete(name)
  }
  for await (const { object, bytes } of objectPieces) {
    if (object !== name) {
      endObject()
      ;[name, pieces] = [object, []]
    }
    if (objects.has(object)) pieces.push(toBytes(bytes))
  }
  endObject()
  return [...damaged, ...objects.values()]
}

/** Whether tables of this package have rows that a new database does not have. */
export async function hasRows(database: PostgresDatabase): Promise<boolean> {
  for (const table of DUMPED_TABLES.filter((name) => !name.endsWith('_numbers'))) {
    const { rows: names } = await database.query({ text: 'SELECT pg_catalog.to_regclass($1)::text AS name' }, [table])
    if (names[0]?.name === null) continue
    if ((await database.query({ text: `SELECT 1 FROM ${table} LIMIT 1` })).rows.length > 0) return true
  }
  return false
}

/** Inserts dumped rows into new tables, in one transaction. @throws StartError if the tables have other columns */
export async function loadTables(
  database: PostgresDatabase,
  folder: string,
  { tables, version }: Manifest
): Promise<void> {
  await database.transaction(async (query) => {
    for (const table of DUMPED_TABLES) {
      const { rows: expected, columns = [] } = tables[table] ?? { rows: 0 }
      if (tables[table] === undefined) continue
      if ((await listColumns(query, table)).join() !== columns.join()) {
        throw new StartError(
          `The backup has other columns in ${table}. Restore it with version ${version}, then upgrade.`
        )
      }
      // A new table of numbers has rows.
      await query({ text: `DELETE FROM ${table}` })
      const text = `INSERT INTO ${table} OVERRIDING SYSTEM VALUE
        SELECT * FROM pg_catalog.json_populate_recordset(NULL::${table}, $1::json)`
      let count = 0
      for await (const lines of readPages(toFile(folder, table))) {
        count += (await query({ text }, [`[${lines.join()}]`])).rowCount
      }
      if (count !== expected) throw new StartError(`${table} has ${count} rows in the backup, not ${expected}`)
    }
    await advanceSequences(query, tables)
  })
}

/** Makes new rows get larger numbers than those of the backup. */
async function advanceSequences(query: SqlQuery, tables: TableCounts): Promise<void> {
  const identities = [
    ['did_auth_sessions', 'number'],
    ['relay_owners', 'id'],
    ['vault_owners', 'id']
  ] as const
  for (const [table, column] of identities.filter(([name]) => tables[name] !== undefined)) {
    const text = `SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence($1, $2),
      (SELECT coalesce(pg_catalog.max(${column}), 0) + 1 FROM ${table}), false)`
    await query({ text }, [table, column])
  }
  for (const prefix of ['relay', 'vault'].filter((name) => tables[`${name}_pins`] !== undefined)) {
    const last = `SELECT coalesce(pg_catalog.max(revision), 0) + 1 FROM ${prefix}_pins`
    await query({ text: `SELECT pg_catalog.setval('${prefix}_revisions', (${last}), false)` })
  }
}

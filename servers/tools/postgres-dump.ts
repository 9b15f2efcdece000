import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createGunzip, createGzip } from 'node:zlib'
import type { PostgresDatabase, SqlQuery } from 'express-did-auth/stores/postgres'
import { StartError } from '../config/startup-error.js'
import { cidOf } from '../content/unixfs-blocks.js'
import type { Manifest, TableCounts } from './backup-folder.js'

/** Time limit for the transaction of a backup or a restore. */
export const DUMP_SECONDS = 86_400
/** Rows in a page. A row has up to 512 KiB of text. */
const PAGE_ROWS = 64

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
 * needs no program such as pg_dump, whose version must match the server. Afterwards, all content is verified.
 *
 * @returns the tables, and the cids of content that is missing or damaged
 */
export async function dumpTables(
  database: PostgresDatabase,
  folder: string
): Promise<{ tables: TableCounts; missing: string[] }> {
  const tables = await database.transaction(async (query) => {
    await query({ text: 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY' })
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
  const missing: string[] = []
  for (const prefix of ['relay', 'vault']) {
    if (tables[`${prefix}_contents`] !== undefined) missing.push(...(await findDamage(folder, prefix)))
  }
  return { tables, missing }
}

/** Lists the columns of a table; empty if it does not exist. */
async function listColumns(query: SqlQuery, table: string): Promise<string[]> {
  const text = `SELECT attname::text AS name FROM pg_catalog.pg_attribute
    WHERE attrelid = pg_catalog.to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attname`
  return (await query({ text }, [table])).rows.map(({ name }) => String(name))
}

async function dumpTable(query: SqlQuery, table: string, path: string): Promise<number> {
  const file = await open(path, 'wx', 0o600)
  const zip = createGzip({ level: 1 })
  const written = new Promise<void>((resolve, reject) => {
    zip
      .pipe(file.createWriteStream({ flush: true }))
      .once('close', resolve)
      .once('error', reject)
  })
  // Content of several pieces is verified in the order of the pieces.
  const order = table.endsWith('_object_pieces') ? 'ORDER BY object, number' : ''
  const selected = `SELECT pg_catalog.row_to_json(t)::text AS line FROM ${table} t ${order}`
  await query({ text: `DECLARE dumped NO SCROLL CURSOR FOR ${selected}` })
  let count = 0
  for (;;) {
    const { rows } = await query({ text: `FETCH ${PAGE_ROWS} FROM dumped` })
    if (rows.length === 0) break
    count += rows.length
    const text = rows.map(({ line }) => `${String(line)}\n`).join('')
    if (!zip.write(text)) await new Promise((resolve) => zip.once('drain', resolve))
  }
  await query({ text: 'CLOSE dumped' })
  zip.end()
  await written
  return count
}

/** Reads the lines of a table in pages. */
async function* readPages(folder: string, table: string): AsyncGenerator<string[]> {
  const input = createReadStream(toFile(folder, table)).pipe(createGunzip())
  let page: string[] = []
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    page.push(line)
    if (page.length < PAGE_ROWS) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}

const toBytes = (text: unknown): Buffer => Buffer.from(String(text).slice('\\x'.length), 'hex')

/** Reads the dumped contents of a server, and computes their cids. @returns the cids that do not match */
async function findDamage(folder: string, prefix: string): Promise<string[]> {
  const damaged: string[] = []
  /** Cids of the content in objects, by the name of the object. */
  const objects = new Map<unknown, string>()
  for await (const lines of readPages(folder, `${prefix}_contents`)) {
    for (const { cid, object, bytes } of lines.map(parseRow)) {
      if (object !== null) objects.set(object, String(cid))
      else if (cidOf(toBytes(bytes)) !== cid) damaged.push(String(cid))
    }
  }
  let [name, pieces]: [unknown, Buffer[]] = ['', []]
  const endObject = (): void => {
    if (objects.get(name) === cidOf(Buffer.concat(pieces))) objects.delete(name)
  }
  for await (const lines of readPages(folder, `${prefix}_object_pieces`)) {
    for (const { object, bytes } of lines.map(parseRow)) {
      if (object !== name) {
        endObject()
        ;[name, pieces] = [object, []]
      }
      if (objects.has(object)) pieces.push(toBytes(bytes))
    }
  }
  endObject()
  return [...damaged, ...objects.values()]
}

const parseRow = (line: string): Record<string, unknown> => JSON.parse(line) as Record<string, unknown>

/** Whether tables of this package have rows that a new database does not have. */
export async function hasRows(database: PostgresDatabase): Promise<boolean> {
  for (const table of DUMPED_TABLES.filter((name) => !name.endsWith('_numbers'))) {
    const { rows: found } = await database.query({ text: 'SELECT pg_catalog.to_regclass($1)::text AS name' }, [table])
    if (found[0]?.name === null) continue
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
      for await (const lines of readPages(folder, table)) {
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

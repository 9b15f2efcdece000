import { chmodSync, copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { SqliteConnection } from 'express-did-auth/server-kit'
import { readVersion } from '../config/package-version.js'
import { readEnvs, type ServerEnv } from '../config/read-env.js'
import { describeReason, StartError, startStep } from '../config/startup-error.js'
import { getDataFolder } from '../content/engine.js'
import { cidOf } from '../content/unixfs-blocks.js'
import { checkSqliteFile, createEmptyFolder, KEY_FILES, useSqliteFile, writeManifest } from './backup-folder.js'
import type { TableCounts } from './backup-folder.js'
import { readArguments, type CommandLine } from './command-line.js'
import { useDatabase } from './migrate.js'
import { DUMP_SECONDS, dumpTables } from './postgres-dump.js'

/** Maximum number of snapshots. A further one is made while objects of the last one have vanished meanwhile. */
const MAX_SNAPSHOTS = 5
/** Contents in a page. Each row has up to 64 KiB. */
const PAGE_ROWS = 100

/** Part of a backup: its tables, and the cids of content that the source has lost. */
interface Part {
  tables: TableCounts
  missing: readonly string[]
}

/**
 * Runs `backup`: writes all sessions, contents and keys of `DATA_DIR`, or of `DATABASE_URL`, to a new folder. Servers
 * may run. The backup contains everything that was acknowledged before it began.
 *
 * @returns the exit code; 1 if content of the source is missing or damaged, which the output names
 * @throws UsageError; StartError if the folder is not empty, or the source cannot be read
 */
export async function runBackup({ args, env: variables, out }: CommandLine): Promise<number> {
  const { positionals } = readArguments(args, {}, [1, 1])
  const [folder = ''] = positionals
  const envs = readEnvs(variables, ['auth', 'relay', 'vault'], false, 'operate')
  const [env] = envs as [ServerEnv]
  await createEmptyFolder(folder, 'Name a new folder.')
  const keys = KEY_FILES.filter((name) => existsSync(join(env.DATA_DIR, name)))
  for (const name of keys)
    startStep(`Cannot copy ${name} (DATA_DIR)`, () => copyPrivately(join(env.DATA_DIR, name), join(folder, name)))
  const isSqlite = env.DATABASE_URL === undefined
  const toSentence = (reason: string): string => `The backup failed: ${reason}`
  const { tables, missing } = isSqlite
    ? await backUpFiles(envs, folder)
    : await useDatabase(env, { out, timeoutSeconds: DUMP_SECONDS, toSentence }, (database) =>
        dumpTables(database, folder)
      )
  const head = { format: 1 as const, engine: isSqlite ? ('sqlite' as const) : ('postgresql' as const) }
  const created = { version: readVersion(), createdAt: new Date().toISOString() }
  const { files } = await writeManifest(folder, { ...head, ...created, tables, missing: [...missing] })
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  out(`Wrote ${files.length} files (${bytes} bytes) to ${folder}, and verified them.`)
  out(
    `It contains ${keys.length === 0 ? 'no keys: also back up your variables' : 'the keys of the service: protect it'}.`
  )
  if (env.S3_BUCKET !== undefined) out('It does not contain the bucket (S3_BUCKET), which has content above 64 KiB.')
  for (const cid of missing) out(`NOT in the backup: ${cid} is missing or damaged. Run \`vault reconcile\`.`)
  return missing.length === 0 ? 0 : 1
}

function copyPrivately(from: string, to: string): void {
  copyFileSync(from, to)
  chmodSync(to, 0o600)
}

async function backUpFiles(envs: readonly ServerEnv[], folder: string): Promise<Part> {
  const parts: Part[] = []
  for (const env of envs) {
    const source = getDataFolder(env)
    const names = new Set(['auth.db', `${env.name}.db`])
    for (const name of names) {
      if (!existsSync(join(source, name))) continue
      const isContent = name !== 'auth.db'
      const target = join(folder, env.name)
      const missing = isContent ? await backUpContent(source, target, name, env.S3_BUCKET !== undefined) : []
      if (!isContent) await copyDatabase(join(source, name), join(target, name))
      parts.push({ tables: await checkSqliteFile(join(target, name), `${env.name}/${name}`), missing })
    }
  }
  if (parts.length === 0) throw new StartError(`There is nothing to back up in ${envs[0]?.DATA_DIR ?? ''} (DATA_DIR)`)
  const tables = Object.assign({}, ...parts.map((part) => part.tables)) as TableCounts
  return { tables, missing: parts.flatMap(({ missing }) => missing) }
}

/** Copies a database in one read transaction, so that writers neither wait nor make the copy inconsistent. */
async function copyDatabase(from: string, to: string): Promise<void> {
  try {
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 })
    rmSync(to, { force: true })
    // The backup API of the engines differs, and Node 22 has none.
    await useSqliteFile(from, (connection) => connection.prepare('VACUUM INTO ?').run(to))
    chmodSync(to, 0o600)
  } catch (error) {
    throw new StartError(`Cannot back up ${from}: ${describeReason(error)}`)
  }
}

/**
 * Copies a content database, then the objects that the copy names: an object is written before its row. A running
 * server keeps a removed object for its readers, usually 5 minutes or more. If an object has vanished nevertheless, the
 * database is copied again; it then no longer names the object, unless the source has lost it.
 *
 * @returns the cids of content that is missing or damaged in the source
 */
async function backUpContent(source: string, target: string, name: string, hasBucket: boolean): Promise<string[]> {
  let lost: string[] = []
  for (let snapshots = 1; ; snapshots += 1) {
    await copyDatabase(join(source, name), join(target, name))
    const previouslyLost = lost.join()
    const check = async ({ cid, object, bytes }: ContentRow): Promise<boolean> => {
      if (object === null) return cidOf(bytes ?? new Uint8Array()) === cid
      const path = join('objects', object.slice(-2), object)
      return hasBucket || copyObject(join(source, path), join(target, path), cid)
    }
    lost = await useSqliteFile(join(target, name), async (connection) => {
      const damaged: string[] = []
      for (const rows of readContents(connection)) {
        const results = await Promise.all(rows.map(check))
        damaged.push(...rows.flatMap(({ cid }, index) => (results[index] === true ? [] : [cid])))
      }
      return damaged
    })
    if (lost.length === 0 || lost.join() === previouslyLost || snapshots === MAX_SNAPSHOTS) return lost
  }
}

type ContentRow = { cid: string; object: string | null; bytes: Uint8Array | null }

/** Reads all contents of a database in pages. */
function* readContents(connection: SqliteConnection): Generator<readonly ContentRow[]> {
  const text = `SELECT cid, object, bytes FROM contents WHERE cid > ? ORDER BY cid LIMIT ${PAGE_ROWS}`
  const statement = connection.prepare(text)
  for (let after: string | undefined = ''; after !== undefined;) {
    // The columns have these types in tables of this package.
    const rows: readonly ContentRow[] = statement.all(after) as unknown as ContentRow[]
    yield rows
    after = rows.at(-1)?.cid
  }
}

/** Copies an object, unless an earlier round has, and verifies the copy. @returns whether the copy is valid */
async function copyObject(from: string, to: string, cid: string): Promise<boolean> {
  if (existsSync(to)) return true
  try {
    await mkdir(dirname(to), { recursive: true, mode: 0o700 })
    await writeFile(to, await readFile(from), { mode: 0o600, flush: true })
    if (cidOf(await readFile(to)) === cid) return true
    await rm(to)
    return false
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw new StartError(`Cannot back up ${from}: ${describeReason(error)}`)
  }
}

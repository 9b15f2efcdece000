import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { chooseSqliteEngine, openSqliteConnection, sqliteCode } from 'express-did-auth/server-kit'
import { readEnvs, type ServerEnv } from '../config/read-env.js'
import { codeOf, ownCommand, reasonOf, StartError } from '../config/startup-error.js'
import { connectDatabase } from '../storage/connections.js'
import { copyContents, type CopiedContents } from '../storage/copy-contents.js'
import { dataFolder, openBucket, openPostgresContents } from '../storage/engine.js'
import { FileObjectStore } from '../storage/files/file-object-store.js'
import type { ObjectStore } from '../storage/object-store.js'
import { openContentStore } from '../storage/sql/open-sqlite-contents.js'
import { readArguments, type CommandLine } from './command-line.js'
import { migrateTables, waitFor } from './migrate.js'

/** For each statement: no client waits for an answer. */
const TIMEOUT_SECONDS = 60

const OPTIONS = { from: { type: 'string' } } as const

/**
 * `copy`: brings the contents that one machine stored in `DATA_DIR` to a database, and to a bucket where the
 * environment names one. Sessions stay behind. It may end at any moment and be run again. `DATA_DIR` stays.
 *
 * @returns the exit code; 1: something could not be copied, and is named
 * @throws UsageError; StartError when there is nothing to copy, a server runs on it, or the database cannot be used
 */
export async function runCopy({ args, env, out }: CommandLine): Promise<number> {
  const { values } = readArguments(args, OPTIONS, [0, 0])
  const given = { ...env, ...(values.from !== undefined && { DATA_DIR: values.from }) }
  const envs = readEnvs(given, ['relay', 'vault'], false, 'operate')
  const [serverEnv] = envs
  // No option: every user of the machine reads command lines, and the URL has a password.
  if (serverEnv?.DATABASE_URL === undefined) throw new StartError('No database is configured: set DATABASE_URL')
  const stored = envs.filter((one) => existsSync(fileOf(one)))
  if (stored.length === 0) throw new StartError(`There is nothing to copy in ${serverEnv.DATA_DIR} (DATA_DIR)`)
  for (const one of stored) assertUnused(fileOf(one))
  const database = await connectDatabase(serverEnv, serverEnv.DATABASE_URL, { timeoutSeconds: TIMEOUT_SECONDS })
  try {
    await waitFor(database, out)
    await migrateTables(database, out)
    let isWhole = true
    for (const one of stored) isWhole = (await copyServer(one, database, out)) && isWhole
    out('Not copied: sessions (users log in again); expired files; quotas and posts of today (both count from zero).')
    return isWhole ? 0 : 1
  } catch (error) {
    throw error instanceof StartError
      ? error
      : new StartError(`The copy was interrupted: ${reasonOf(error)}; run it again`, { cause: error })
  } finally {
    await database.close()
  }
}

function fileOf(env: ServerEnv): string {
  return join(dataFolder(env), `${env.name}.db`)
}

/** @throws StartError when another process has the file open */
function assertUnused(file: string): void {
  const options = { synchronous: 'FULL', busyMilliseconds: 0 } as const
  try {
    const connection = openSqliteConnection(file, chooseSqliteEngine(), options)
    try {
      // SQLite leaves its log only where no other connection has the file open. The next one turns it on again.
      connection.exec('PRAGMA journal_mode = DELETE')
    } finally {
      connection.close()
    }
  } catch (error) {
    const isUsed = sqliteCode(error).startsWith('SQLITE_BUSY')
    throw new StartError(
      isUsed ? `${file} is in use: stop the servers first` : `Cannot use ${file}: ${reasonOf(error)}`
    )
  }
}

/** Copies what one server stored. @returns whether all of it could be copied */
async function copyServer(env: ServerEnv, database: PostgresDatabase, out: CommandLine['out']): Promise<boolean> {
  const { name } = env
  const bucket = await openBucket(env)
  const folder = dataFolder(env)
  const files = new FileObjectStore(join(folder, 'objects'))
  const source = await openContentStore({
    folder,
    database: `${name}.db`,
    ...(bucket && { objects: readableAt(files, bucket) })
  })
  try {
    const target = await openPostgresContents(database, env, bucket)
    const nowSeconds = Math.floor(Date.now() / 1_000)
    const onProgress = (count: number): void => out(`${name}: ${count} copied so far`)
    return report(name, await copyContents({ source, target, nowSeconds, onProgress }), out)
  } finally {
    await source.store.close()
  }
}

/** Objects of a server on one machine, which had the bucket already, or has files. */
function readableAt(files: FileObjectStore, bucket: ObjectStore): ObjectStore {
  return {
    put: (name, file) => files.put(name, file),
    delete: (name, how) => files.delete(name, how),
    list: () => files.list(),
    read: async function* (name) {
      try {
        yield* files.read(name)
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
        yield* bucket.read(name)
      }
    }
  }
}

/** Says what was copied, and what was not. @returns whether that is all */
function report(name: string, outcome: CopiedContents, out: CommandLine['out']): boolean {
  const { copied, known, refused, missing, damagedLists } = outcome
  out(`${name}: ${name === 'relay' ? 'files' : 'entries'} copied: ${copied} (already there: ${known})`)
  if (refused > 0) out(`${name}: left out because they are taken down in the database: ${refused}`)
  const onFolder = (command: string): string => `\`${ownCommand(command)}\` on this folder`
  for (const cid of missing) {
    const remedy = `${onFolder(name)} repairs it from the IPFS node when it is read`
    out(`${name}: NOT copied: ${cid} is missing or damaged here; ${remedy}`)
  }
  for (const { did, key } of damagedLists) {
    const remedy = `run ${onFolder('vault reconcile --accept-damage')}, then copy again`
    out(`${name}: NOT copied: the list ${JSON.stringify(key)} of ${did} is damaged; ${remedy}`)
  }
  return missing.size + damagedLists.length === 0
}

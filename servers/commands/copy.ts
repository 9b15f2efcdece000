import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { chooseSqliteEngine, openSqliteConnection, getSqliteCode, type SqlRow } from 'express-did-auth/server-kit'
import { readEnvs, type ServerEnv } from '../config/read-env.js'
import { getErrorCode, ownCommand, describeReason, StartError } from '../config/startup-error.js'
import { ServerError } from '../http/server-error.js'
import { connectDatabase } from '../storage/connections.js'
import type { NewContent, ObjectStore } from '../storage/content-store.js'
import { getDataFolder, openBucket, openPostgresContents } from '../storage/engine.js'
import { createFileObjectStore } from '../storage/files.js'
import { toEntryPlace } from '../storage/sql/entry-verbs.js'
import { toFileState } from '../storage/sql/file-verbs.js'
import { openContentStore } from '../storage/sql/open-sqlite-contents.js'
import { readRows, type RowsName } from '../storage/sql/page-verbs.js'
import type { OpenContentStore } from '../storage/sql/sql-content-store.js'
import { createNewContent } from '../storage/unixfs-blocks.js'
import { readArguments, type CommandLine } from './command-line.js'
import { migrateTables, waitFor } from './migrate.js'

/** Time limit for each statement. It is long, since no client waits for a response. */
const TIMEOUT_SECONDS = 60
/** Number of parallel copies: enough that requests to the database and to the disk do not wait for each other. */
const PARALLEL = 8
/** Number of entries and files after which a line reports the progress. */
const PROGRESS = 10_000

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
  const stored = envs.filter((one) => existsSync(requireDatabase(one)))
  if (stored.length === 0) throw new StartError(`There is nothing to copy in ${serverEnv.DATA_DIR} (DATA_DIR)`)
  for (const one of stored) assertUnused(requireDatabase(one))
  const database = await connectDatabase(serverEnv, serverEnv.DATABASE_URL, TIMEOUT_SECONDS)
  try {
    await waitFor(database, out)
    await migrateTables(database, out)
    let isWhole = true
    for (const one of stored) isWhole = (await copyServer(one, database, out)) && isWhole
    out('Not copied: sessions (users log in again); expired files; quotas and posts of today (both count from zero).')
    return isWhole ? 0 : 1
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`The copy was interrupted: ${describeReason(error)}; run it again`, { cause: error })
  } finally {
    await database.close()
  }
}

function requireDatabase(env: ServerEnv): string {
  return join(getDataFolder(env), `${env.name}.db`)
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
    if (getSqliteCode(error).startsWith('SQLITE_BUSY'))
      throw new StartError(`${file} is in use: stop the servers first`)
    throw new StartError(`Cannot use ${file}: ${describeReason(error)}`)
  }
}

async function copyServer(env: ServerEnv, database: PostgresDatabase, out: CommandLine['out']): Promise<boolean> {
  const { name } = env
  const bucket = await openBucket(env)
  const folder = getDataFolder(env)
  const files = createFileObjectStore(join(folder, 'objects'))
  const objects = bucket && { objects: findReadableObjects(files, bucket) }
  const source = await openContentStore({ folder, database: `${name}.db`, ...objects })
  try {
    const target = await openPostgresContents(database, env, bucket)
    return report(name, await copyContents(source, target, (count) => out(`${name}: ${count} copied so far`)), out)
  } finally {
    await source.store.close()
  }
}

/** Objects of a server on one machine, which had the bucket already, or has files. */
function findReadableObjects(files: ObjectStore, bucket: ObjectStore): ObjectStore {
  return {
    ...files,
    async *read(name) {
      try {
        yield* files.read(name)
      } catch (error) {
        if (getErrorCode(error) !== 'ENOENT') throw error
        yield* bucket.read(name)
      }
    }
  }
}

/**
 * Copies all of a store that nothing writes to, to another one, which servers may use at the same time. Entries keep
 * their numbers, and so lists keep their order and their ETags. Each content is verified by its cid. Run again, it adds
 * what is new.
 *
 * @param onProgress - gets how many entries and files were copied so far, now and then
 * @returns `known`: were there already; `refused`: are taken down there; `missing`: are lost or damaged here
 */
async function copyContents(source: OpenContentStore, target: OpenContentStore, onProgress: (count: number) => void) {
  const { inspection } = source
  const nowSeconds = Math.floor(Date.now() / 1_000)
  const { damagedLists } = await inspection.recount({ isDryRun: true })
  const damaged = new Set(damagedLists.map(({ did, key }) => `${did} ${key}`))
  const outcome = { copied: 0, known: 0, refused: 0, missing: new Set<string>(), damagedLists }

  const eachRow = async (table: RowsName, work: (row: SqlRow) => Promise<void>): Promise<void> => {
    for await (const { items } of readRows(inspection, table)) {
      // Sorted so that entries of many users are copied in parallel: writes of one user wait for each other.
      const left = items.toSorted((one, other) => (String(one.key) < String(other.key) ? -1 : 1)).values()
      const run = async (): Promise<void> => {
        for (const row of left) await work(row)
      }
      await Promise.all(Array.from({ length: PARALLEL }, run))
    }
  }

  const see = (what: 'copied' | 'known'): void => {
    outcome[what] += 1
    const count = outcome.copied + outcome.known
    if (count % PROGRESS === 0) onProgress(count)
  }
  const copyContent = async (cid: string, add: (content: NewContent) => Promise<void>): Promise<void> => {
    try {
      const [found] = await source.store.readContents([cid])
      if (found === undefined) throw new ServerError('ERR_CONTENT_MISSING')
      await add(createNewContent(await found.bytes()))
      see('copied')
    } catch (error) {
      const code = getErrorCode(error)
      if (code === 'ERR_CONTENT_MISSING') outcome.missing.add(cid)
      else if (code === 'ERR_TAKEN_DOWN') outcome.refused += 1
      else throw error
    }
  }

  await target.inspection.reserveNumbers(await inspection.readLastNumber())
  await eachRow('denied', async ({ cid, reason, at }) => {
    if (await target.store.isTakenDown(String(cid))) return
    await target.store.takeDown(String(cid), String(reason), Number(at))
  })
  await eachRow('lists', async (row) => {
    const place = toEntryPlace(row)
    if (damaged.has(`${place.did} ${place.key}`)) return
    const entries = await inspection.listNumberedEntries(place)
    const { entries: there } = await target.store.listEntries(place)
    const known = new Set(there.map(({ cid }) => cid))
    for (const { cid, number } of entries) {
      if (known.has(cid)) see('known')
      else await copyContent(cid, (content) => target.inspection.importEntry(content, { ...place, number }))
    }
  })
  await eachRow('files', async (row) => {
    const { cid, expiresAtSeconds } = toFileState(row)
    if (expiresAtSeconds <= nowSeconds) return
    const there = (await target.store.isTakenDown(cid)) ? undefined : await target.store.findFile(cid, nowSeconds)
    if (there !== undefined && there.expiresAtSeconds >= expiresAtSeconds) see('known')
    else await copyContent(cid, (content) => target.inspection.importFile(content, expiresAtSeconds))
  })
  // At last, because content that is not there is not pinned.
  for await (const { items } of readRows(inspection, 'pins')) await target.inspection.importPins(items)
  return outcome
}

type Copied = Awaited<ReturnType<typeof copyContents>>

/** Says what was copied, and what was not. @returns whether all was */
function report(name: string, outcome: Copied, out: CommandLine['out']): boolean {
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

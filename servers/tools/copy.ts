import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { chooseSqliteEngine, openSqliteConnection, getSqliteCode, type SqlRow } from 'express-did-auth/server-kit'
import { readEnvs, type ServerEnv } from '../config/read-env.js'
import { getErrorCode, ownCommand, describeReason, StartError } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import { ServerError } from '../http/server-error.js'
import type { NewContent, ObjectStore } from '../content/content-store.js'
import { getDataFolder, openBucket, openPostgresContents } from '../content/engine.js'
import { createFileObjectStore } from '../content/files.js'
import { toEntryPlace, toFileState } from '../content/sql/rows.js'
import { openContentStore } from '../content/sql/open-sqlite-contents.js'
import { readRows, type RowsName } from '../content/sql/inspection-verbs.js'
import type { OpenContentStore } from '../content/sql/sql-content-store.js'
import { createNewContent } from '../content/unixfs-blocks.js'
import { readArguments, type CommandLine } from './command-line.js'
import { migrateTables, useDatabase } from './migrate.js'

/** Number of parallel copies: enough that reading the disk and writing the database overlap. */
const PARALLEL = 8
/** Number of entries and files between two progress lines. */
const PROGRESS = 10_000

const OPTIONS = { from: { type: 'string' } } as const

/**
 * Runs `copy`: copies the contents in `DATA_DIR` of one machine to a database, and to a bucket if one is configured.
 * Sessions are not copied, and `DATA_DIR` is not changed. An interrupted copy continues when it is run again.
 *
 * @returns the exit code; 1 if something could not be copied, which the output names
 * @throws UsageError; StartError if there is nothing to copy, a server uses it, or the database cannot be used
 */
export async function runCopy({ args, env, out }: CommandLine): Promise<number> {
  const { values } = readArguments(args, OPTIONS, [0, 0])
  const sourceEnv = { ...env, ...(values.from !== undefined && { DATA_DIR: values.from }) }
  const envs = readEnvs(sourceEnv, ['relay', 'vault'], false, 'operate')
  const [serverEnv] = envs
  // The URL is not a command-line option, because it contains a password and all local users can read command lines.
  if (serverEnv?.DATABASE_URL === undefined) throw new StartError('No database is configured. Set DATABASE_URL.')
  const storedServers = envs.filter((storedEnv) => existsSync(getDatabaseFile(storedEnv)))
  if (storedServers.length === 0) {
    throw new StartError(`There is nothing to copy: ${serverEnv.DATA_DIR} (DATA_DIR) has no data of relay or vault.`)
  }
  for (const storedEnv of storedServers) assertUnused(getDatabaseFile(storedEnv))
  const timeoutSeconds = limitMilliseconds.copyStatement / 1_000
  const toSentence = (reason: string): string => `The copy was interrupted: ${reason}. Run it again to continue.`
  return useDatabase(serverEnv, { out, timeoutSeconds, toSentence }, async (database) => {
    await migrateTables(database, out)
    let isWhole = true
    for (const storedEnv of storedServers) isWhole = (await copyServer(storedEnv, database, out)) && isWhole
    out('Not copied: sessions (users have to log in again), expired files, and used quotas (counting restarts at 0).')
    return isWhole ? 0 : 1
  })
}

function getDatabaseFile(env: ServerEnv): string {
  return join(getDataFolder(env), `${env.name}.db`)
}

/** Asserts that no other process has a database file open. @throws StartError */
function assertUnused(file: string): void {
  const options = { synchronous: 'FULL', busyMilliseconds: 0 } as const
  try {
    const connection = openSqliteConnection(file, chooseSqliteEngine(), options)
    try {
      // SQLite leaves WAL mode only if no other connection is open. The next connection turns WAL mode on again.
      connection.exec('PRAGMA journal_mode = DELETE')
    } finally {
      connection.close()
    }
  } catch (error) {
    if (getSqliteCode(error).startsWith('SQLITE_BUSY'))
      throw new StartError(`${file} is in use. Stop the servers first.`)
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

/** Creates an object store that reads from files, and from the bucket what is not a file. */
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
 * Copies a store that no server writes to. Servers may already use the target. Entries keep their numbers, so lists
 * keep their order and their ETags. Each content is verified against its cid. A repeated copy adds only new content.
 *
 * @param onProgress - receives the number of entries and files so far, after every 10,000
 * @returns `present`: number that the target already had; `refused`: number that the target has taken down; `missing`:
 *   cids of content that is lost or damaged in the source
 */
async function copyContents(source: OpenContentStore, target: OpenContentStore, onProgress: (count: number) => void) {
  const { inspection } = source
  const nowSeconds = Math.floor(Date.now() / 1_000)
  const { damagedLists } = await inspection.recount({ isDryRun: true })
  const damaged = new Set(damagedLists.map(({ did, key }) => `${did} ${key}`))
  const outcome = { copied: 0, present: 0, refused: 0, missing: new Set<string>(), damagedLists }

  const eachRow = async (table: RowsName, work: (row: SqlRow) => Promise<void>): Promise<void> => {
    for await (const { items } of readRows(inspection, table)) {
      // Writes of one user wait for each other. Sorted by key, the parallel writes belong to different users.
      const remainingRows = items.toSorted((a, b) => (String(a.key) < String(b.key) ? -1 : 1)).values()
      const run = async (): Promise<void> => {
        for (const row of remainingRows) await work(row)
      }
      await Promise.all(Array.from({ length: PARALLEL }, run))
    }
  }

  const countResult = (result: 'copied' | 'present'): void => {
    outcome[result] += 1
    const count = outcome.copied + outcome.present
    if (count % PROGRESS === 0) onProgress(count)
  }
  const copyContent = async (cid: string, add: (content: NewContent) => Promise<void>): Promise<void> => {
    try {
      const [content] = await source.store.readContents([cid])
      if (content === undefined) throw new ServerError('ERR_CONTENT_MISSING')
      await add(createNewContent(await content.bytes()))
      countResult('copied')
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
    const { entries: targetEntries } = await target.store.listEntries(place)
    const presentCids = new Set(targetEntries.map(({ cid }) => cid))
    for (const { cid, number } of entries) {
      if (presentCids.has(cid)) countResult('present')
      else await copyContent(cid, (content) => target.inspection.importEntry(content, { ...place, number }))
    }
  })
  await eachRow('files', async (row) => {
    const { cid, expiresAtSeconds } = toFileState(row)
    if (expiresAtSeconds <= nowSeconds) return
    const isTakenDown = await target.store.isTakenDown(cid)
    const targetFile = isTakenDown ? undefined : await target.store.findFile(cid, nowSeconds)
    if (targetFile !== undefined && targetFile.expiresAtSeconds >= expiresAtSeconds) countResult('present')
    else await copyContent(cid, (content) => target.inspection.importFile(content, expiresAtSeconds))
  })
  // Pins come last, because only stored content can be pinned.
  for await (const { items } of readRows(inspection, 'pins')) await target.inspection.importPins(items)
  return outcome
}

type CopyOutcome = Awaited<ReturnType<typeof copyContents>>

/** Prints what was copied and what was not. @returns whether everything was copied */
function report(name: string, outcome: CopyOutcome, out: CommandLine['out']): boolean {
  const { copied, present, refused, missing, damagedLists } = outcome
  out(`${name}: ${name === 'relay' ? 'files' : 'entries'} copied: ${copied} (already in the database: ${present})`)
  if (refused > 0) out(`${name}: skipped, because the database has them as taken down: ${refused}`)
  const formatCommand = (command: string): string => `\`${ownCommand(command)}\` with this DATA_DIR`
  for (const cid of missing) {
    const remedy = `start ${formatCommand(name)}: it repairs content from the IPFS node when a client reads it`
    out(`${name}: NOT copied: ${cid} is missing or damaged in DATA_DIR; ${remedy}`)
  }
  for (const { did, key } of damagedLists) {
    const remedy = `run ${formatCommand('vault reconcile --accept-damage')}, then copy again`
    out(`${name}: NOT copied: the list ${JSON.stringify(key)} of ${did} is damaged; ${remedy}`)
  }
  return missing.size + damagedLists.length === 0
}

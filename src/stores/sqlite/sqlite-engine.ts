import { closeSync, openSync } from 'node:fs'
import { isObject } from '../../protocol/json.js'
import { loadPackage } from '../load-package.js'

/** A value that a statement binds or returns. Both engines return integers as numbers. */
export type SqliteValue = string | number | null | Uint8Array
/** Values of a row by column name. */
export type SqliteRow = Readonly<Record<string, SqliteValue>>

/** A prepared statement, with the methods that both engines have. Values are bound to `?` in their order. */
export interface SqliteStatement {
  /** Returns the first row; undefined if there is none. */
  get(...values: SqliteValue[]): SqliteRow | undefined
  /** Returns all rows. */
  all(...values: SqliteValue[]): SqliteRow[]
  /** Runs a statement without rows, and returns the number of changed rows. */
  run(...values: SqliteValue[]): { readonly changes: number | bigint }
}

/** An open database of either engine. */
export interface SqliteConnection {
  /** Compiles one statement. */
  prepare(text: string): SqliteStatement
  /** Runs statements without parameters, separated by semicolons. */
  exec(text: string): unknown
  /** Closes the database. */
  close(): unknown
}

/** The implementation of SQLite: Node's own from 22.13 on, or the package. */
export type EngineName = 'node:sqlite' | 'better-sqlite3'

/** Options of a connection. */
export interface ConnectionOptions {
  /** `FULL`: commits survive a power failure. `NORMAL`: only a crash of the process. The file stays valid with both. */
  synchronous: 'FULL' | 'NORMAL'
  /** Time for which a statement waits while another connection writes. Default 5,000. */
  busyMilliseconds?: number
}

/** Time for which opening a file waits while another process creates it. */
const OPENING_MILLISECONDS = 5_000
const PAUSE_MILLISECONDS = 20

/** Returns Node's own engine if it exists, because nothing has to be installed or compiled for it. */
export function chooseEngine(): EngineName {
  return loadNodeSqlite() === undefined ? 'better-sqlite3' : 'node:sqlite'
}

/**
 * Opens a path or `:memory:` in WAL mode. A missing file is created with access for its owner only.
 * @throws Error if the engine is missing; Error with a `code` if the file cannot be opened
 */
export function openConnection(
  file: string,
  engine: EngineName,
  { synchronous, busyMilliseconds = OPENING_MILLISECONDS }: ConnectionOptions
): SqliteConnection {
  const open = loadEngine(engine)
  assertFileName(file)
  let connection: SqliteConnection | undefined
  try {
    if (isFile(file)) createPrivately(file)
    connection = open(file)
    connection.exec(`PRAGMA busy_timeout = ${String(OPENING_MILLISECONDS)}`)
    if (isFile(file)) turnOnWal(connection)
    connection.exec(`PRAGMA synchronous = ${synchronous}`)
    connection.exec(`PRAGMA busy_timeout = ${String(busyMilliseconds)}`)
    return connection
  } catch (error) {
    connection?.close()
    throw addSqliteCode(error)
  }
}

/** Whether a name is that of a file on disk, which several connections can open. */
export function isFile(name: string): boolean {
  return name !== ':memory:'
}

/** Rolls back. Some failures, such as a full disk, have rolled the transaction back already. */
export function rollBack(connection: Pick<SqliteConnection, 'exec'>): void {
  try {
    connection.exec('ROLLBACK')
  } catch (error) {
    if (!String(error).includes('no transaction is active')) throw error
  }
}

/** Refuses an empty name: SQLite would use a temporary file, and all data would silently be lost on close. */
function assertFileName(file: unknown): asserts file is string {
  if (typeof file !== 'string') {
    const reason = 'a SQLite store needs the name of its file, and cannot use a database that is already open'
    throw new TypeError(`express-did-auth: ${reason}`)
  }
  if (file === '') throw new TypeError('express-did-auth: the name of the SQLite file is empty')
}

/**
 * Creates a missing file with access for its owner only. SQLite gives its other files the same mode. An existing file
 * is not opened: closing it would release this process's locks on the file (POSIX).
 */
function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if (getSqliteCode(error) !== 'EEXIST') throw error
  }
}

/** Turns on WAL mode. While another process does the same, SQLite refuses it, so this function waits and retries. */
function turnOnWal(connection: SqliteConnection): void {
  const sleeper = new Int32Array(new SharedArrayBuffer(4))
  for (let waited = 0; ; waited += PAUSE_MILLISECONDS) {
    try {
      connection.exec('PRAGMA journal_mode = WAL')
      return
    } catch (error) {
      if (!isBusy(error) || waited >= OPENING_MILLISECONDS) throw error
      Atomics.wait(sleeper, 0, 0, PAUSE_MILLISECONDS)
    }
  }
}

const NO_NATIVE_PART =
  'better-sqlite3 has no native module for this version of Node: allow its install script, then run npm rebuild better-sqlite3'

function loadEngine(engine: EngineName): (file: string) => SqliteConnection {
  if (engine === 'better-sqlite3') {
    const Database = loadPackage('better-sqlite3', 'sqlite') as new (file: string, options: object) => SqliteConnection
    return (file) => {
      try {
        return new Database(file, { timeout: OPENING_MILLISECONDS })
      } catch (error) {
        throw hasNoNativePart(error) ? new Error(NO_NATIVE_PART) : error
      }
    }
  }
  const sqlite = loadNodeSqlite()
  if (sqlite === undefined) throw new Error(`express-did-auth: Node ${process.versions.node} has no node:sqlite`)
  return (file) => new sqlite.DatabaseSync(file)
}

/** Whether better-sqlite3 lacks its native module. It then throws a list of all paths that it tried. */
function hasNoNativePart(error: unknown): boolean {
  return getSqliteCode(error) === 'ERR_DLOPEN_FAILED' || /bindings file/.test(String(error))
}

/** Loads `node:sqlite`. Node 22.5 to 22.12 have it only behind a flag; without the flag, this returns undefined. */
function loadNodeSqlite(): { DatabaseSync: new (file: string) => SqliteConnection } | undefined {
  return process.getBuiltinModule('node:sqlite') as unknown as ReturnType<typeof loadNodeSqlite>
}

/** Names of primary result codes, by number: `node:sqlite` reports numbers, and better-sqlite3 reports names. */
const PRIMARY_NAMES = (
  'ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL EMPTY ' +
  'SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB'
).split(' ')

/** Names of the extended result codes for a full disk or a read-only folder. */
const EXTENDED_NAMES: Record<number, string> = { 778: 'IOERR_WRITE', 4874: 'IOERR_SHMSIZE', 1544: 'READONLY_DIRECTORY' }

/** Returns the same `code` for both engines, such as `SQLITE_BUSY` or `ENOENT`; an empty text if there is none. */
export function getSqliteCode(error: unknown): string {
  if (!isObject(error)) return ''
  const { code, errcode } = error
  if (typeof errcode !== 'number') return typeof code === 'string' ? code : ''
  const name = EXTENDED_NAMES[errcode] ?? PRIMARY_NAMES[(errcode & 0xff) - 1]
  return name === undefined ? 'SQLITE_ERROR' : `SQLITE_${name}`
}

/** Sets the `code` of an error to the result of {@link getSqliteCode}. */
export function addSqliteCode(error: unknown): unknown {
  const code = getSqliteCode(error)
  return isObject(error) && code !== '' ? Object.assign(error, { code }) : error
}

/** Whether a statement failed because another connection was writing for too long. */
export function isBusy(error: unknown): boolean {
  return getSqliteCode(error).startsWith('SQLITE_BUSY')
}

/** Whether an error means that the file is damaged or is not a database. */
export function isDamaged(error: unknown): boolean {
  return /^SQLITE_(CORRUPT|NOTADB)/.test(getSqliteCode(error))
}

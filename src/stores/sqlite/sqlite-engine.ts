import { closeSync, openSync } from 'node:fs'
import { isObject } from '../../protocol/json.js'
import { loadPackage } from '../load-package.js'

/** Both engines read whole numbers as numbers. */
export type SqlValue = string | number | null | Uint8Array
export type SqlRow = Readonly<Record<string, SqlValue>>

/** The methods that both engines have under the same names. Values replace the `?` of the text, in their order. */
export interface SqlStatement {
  get(...values: SqlValue[]): SqlRow | undefined
  all(...values: SqlValue[]): SqlRow[]
  run(...values: SqlValue[]): { readonly changes: number | bigint }
}

/** An open database of either engine. */
export interface SqlConnection {
  prepare(text: string): SqlStatement
  exec(text: string): unknown
  close(): unknown
}

/** The implementation of SQLite: Node itself from 22.13 on, or the package. */
export type EngineName = 'node:sqlite' | 'better-sqlite3'

export interface ConnectionOptions {
  /** `FULL`: a commit survives the loss of power; `NORMAL`: the end of the process. The file is valid after both. */
  synchronous: 'FULL' | 'NORMAL'
  /** Time for which a statement waits for another connection that writes. Default 5,000. */
  busyMilliseconds?: number
}

/** Time for which opening a file waits while another process creates it. */
const OPENING_MILLISECONDS = 5_000
const PAUSE_MILLISECONDS = 20

/** Chooses Node's own engine if it has one, for which nothing has to be installed or compiled. */
export function chooseEngine(): EngineName {
  return loadNodeSqlite() === undefined ? 'better-sqlite3' : 'node:sqlite'
}

/**
 * Opens a path or `:memory:` in WAL mode, and creates its file for its owner's eyes only where there is none.
 * @throws Error with a `code` when the engine is missing, or the file cannot be opened
 */
export function openConnection(
  file: string,
  engine: EngineName,
  { synchronous, busyMilliseconds = OPENING_MILLISECONDS }: ConnectionOptions
): SqlConnection {
  const open = loadEngine(engine)
  assertFileName(file)
  let connection: SqlConnection | undefined
  try {
    if (isFile(file)) createPrivately(file)
    connection = open(file)
    connection.exec(`PRAGMA busy_timeout = ${String(OPENING_MILLISECONDS)}`)
    if (isFile(file)) turnOnLog(connection)
    connection.exec(`PRAGMA synchronous = ${synchronous}`)
    connection.exec(`PRAGMA busy_timeout = ${String(busyMilliseconds)}`)
    return connection
  } catch (error) {
    connection?.close()
    throw addCode(error)
  }
}

/** Whether a name means a file on disk, which a second connection can open as well. */
export function isFile(name: string): boolean {
  return name !== ':memory:'
}

/** Rolls back. Some failures, such as a full disk, have rolled the transaction back already. */
export function rollBack(connection: Pick<SqlConnection, 'exec'>): void {
  try {
    connection.exec('ROLLBACK')
  } catch (error) {
    if (!String(error).includes('no transaction is active')) throw error
  }
}

/** Refuses an empty name, which SQLite takes for a temporary file: all data would silently be lost at the end. */
function assertFileName(file: unknown): asserts file is string {
  if (typeof file !== 'string') {
    const reason = 'a SQLite store needs the name of its file; an open database cannot be shared'
    throw new TypeError(`express-did-auth: ${reason}`)
  }
  if (file === '') throw new TypeError('express-did-auth: the name of the SQLite file is empty')
}

/**
 * Creates a file for its owner's eyes where there is none. SQLite gives its other files the same mode. An existing file
 * is not opened: closing it here would drop this process's locks on it (POSIX).
 */
function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if (getSqliteCode(error) !== 'EEXIST') throw error
  }
}

/** Turns on WAL. SQLite refuses it while another process does the same: this waits and retries. */
function turnOnLog(connection: SqlConnection): void {
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

function loadEngine(engine: EngineName): (file: string) => SqlConnection {
  if (engine === 'better-sqlite3') {
    const Database = loadPackage('better-sqlite3', 'sqlite') as new (file: string, options: object) => SqlConnection
    return (file) => new Database(file, { timeout: OPENING_MILLISECONDS })
  }
  const sqlite = loadNodeSqlite()
  if (sqlite === undefined) throw new Error(`express-did-auth: Node ${process.versions.node} has no node:sqlite`)
  return (file) => new sqlite.DatabaseSync(file)
}

/** Loads `node:sqlite`. Node 22.5 to 22.12 have it only behind a flag, and return undefined without. */
function loadNodeSqlite(): { DatabaseSync: new (file: string) => SqlConnection } | undefined {
  return process.getBuiltinModule('node:sqlite') as unknown as ReturnType<typeof loadNodeSqlite>
}

/** Primary result codes, by their numbers: `node:sqlite` reports numbers, better-sqlite3 names. */
const PRIMARY_NAMES = (
  'ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL EMPTY ' +
  'SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB'
).split(' ')

/** The extended result codes that tell a full disk, or a folder that can only be read. */
const EXTENDED_NAMES: Record<number, string> = { 778: 'IOERR_WRITE', 4874: 'IOERR_SHMSIZE', 1544: 'READONLY_DIRECTORY' }

/** Returns an error's `code`, the same for both engines: `SQLITE_BUSY`, `SQLITE_FULL`, `ENOENT`; or an empty text. */
export function getSqliteCode(error: unknown): string {
  if (!isObject(error)) return ''
  const { code, errcode } = error
  if (typeof errcode !== 'number') return typeof code === 'string' ? code : ''
  const name = EXTENDED_NAMES[errcode] ?? PRIMARY_NAMES[(errcode & 0xff) - 1]
  return name === undefined ? 'SQLITE_ERROR' : `SQLITE_${name}`
}

/** Adds the {@link getSqliteCode} of an error to it. */
export function addCode(error: unknown): unknown {
  const code = getSqliteCode(error)
  return isObject(error) && code !== '' ? Object.assign(error, { code }) : error
}

/** Whether another connection was writing for too long. */
export function isBusy(error: unknown): boolean {
  return getSqliteCode(error).startsWith('SQLITE_BUSY')
}

/** Whether a file is damaged, or no database. */
export function isDamaged(error: unknown): boolean {
  return /^SQLITE_(CORRUPT|NOTADB)/.test(getSqliteCode(error))
}

import { isObject } from '../../protocol/json.js'
import {
  assertFileName,
  createPrivately,
  isFile,
  loadBetterSqlite3,
  OPENING_MILLISECONDS,
  turnOnLog
} from './better-sqlite3.js'
import { sqliteCode } from './sqlite-error.js'

/** Parameters and results of statements. Both engines read whole numbers as numbers. */
export type SqlValue = string | number | null | Uint8Array
export type SqlRow = Readonly<Record<string, SqlValue>>

/** The methods that both engines have under the same names. Values replace the `?` of the text, in their order. */
export interface SqlStatement {
  get(...values: SqlValue[]): SqlRow | undefined
  all(...values: SqlValue[]): SqlRow[]
  run(...values: SqlValue[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint }
}

/** An open database. Both engines look like this, so that one text of SQL and code runs on either. */
export interface SqlConnection {
  prepare(text: string): SqlStatement
  exec(text: string): unknown
  close(): unknown
}

/** The implementation of SQLite: Node itself from 22.13 on, or the package. */
export type EngineName = 'node:sqlite' | 'better-sqlite3'

export interface ConnectionOptions {
  /**
   * What a commit survives. `FULL`: the loss of power; `NORMAL`: the end of the process, and the file stays sound when the
   * power is lost; `OFF`: the end of the process.
   */
  synchronous: 'FULL' | 'NORMAL' | 'OFF'
  /** How long a statement waits for another connection that writes. */
  busyMilliseconds: number
}

interface NodeSqlite {
  DatabaseSync: new (file: string) => SqlConnection
}

/** The engine of this process: Node's own from 22.13 on, for which nothing has to be installed or compiled. */
export function chooseEngine(): EngineName {
  return loadNodeSqlite() === undefined ? 'better-sqlite3' : 'node:sqlite'
}

/**
 * Opens a database in WAL mode, and creates its file for its owner's eyes only where there is none.
 *
 * @param file - path, or `:memory:`
 * @throws Error with a `code` when the engine is missing, or the file cannot be opened
 */
export function openConnection(file: string, engine: EngineName, options: ConnectionOptions): SqlConnection {
  const open = loadEngine(engine)
  assertFileName(file)
  createPrivately(file)
  let connection: SqlConnection | undefined
  try {
    connection = open(file)
    connection.exec(`PRAGMA busy_timeout = ${String(OPENING_MILLISECONDS)}`)
    if (isFile(file)) turnOnLog(connection)
    connection.exec(`PRAGMA synchronous = ${options.synchronous}`)
    connection.exec(`PRAGMA busy_timeout = ${String(options.busyMilliseconds)}`)
    return connection
  } catch (error) {
    connection?.close()
    throw withCode(error)
  }
}

/** An error of either engine, with the `code` that people know. */
export function withCode(error: unknown): unknown {
  const code = sqliteCode(error)
  return isObject(error) && code !== '' ? Object.assign(error, { code }) : error
}

function loadEngine(engine: EngineName): (file: string) => SqlConnection {
  if (engine === 'better-sqlite3') {
    const Database = loadBetterSqlite3()
    return (file) => new Database(file, { timeout: OPENING_MILLISECONDS }) as SqlConnection
  }
  const sqlite = loadNodeSqlite()
  if (sqlite === undefined) throw new Error(`express-did-auth: Node ${process.versions.node} has no node:sqlite`)
  return (file) => new sqlite.DatabaseSync(file)
}

/** Node 22.5 to 22.12 have it only behind a flag, and answer undefined without. */
function loadNodeSqlite(): NodeSqlite | undefined {
  return process.getBuiltinModule('node:sqlite') as unknown as NodeSqlite | undefined
}

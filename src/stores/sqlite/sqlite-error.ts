import { isObject } from '../../protocol/json.js'

/** Primary result codes of SQLite, in the order of their numbers: `node:sqlite` reports numbers, better-sqlite3 names. */
const PRIMARY_NAMES = (
  'ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN PROTOCOL EMPTY ' +
  'SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB'
).split(' ')

/** The extended result codes that tell a full disk, or a folder that can only be read. */
const EXTENDED_NAMES: Readonly<Record<number, string>> = {
  778: 'IOERR_WRITE',
  4874: 'IOERR_SHMSIZE',
  1544: 'READONLY_DIRECTORY'
}

/**
 * The `code` of an error, the same for both engines: `SQLITE_BUSY`, `SQLITE_FULL`, `ENOENT`.
 *
 * @returns an empty text where there is none
 */
export function sqliteCode(error: unknown): string {
  if (!isObject(error)) return ''
  const { code, errcode } = error
  if (typeof errcode !== 'number') return typeof code === 'string' ? code : ''
  const name = EXTENDED_NAMES[errcode] ?? PRIMARY_NAMES[(errcode & 0xff) - 1]
  return name === undefined ? 'SQLITE_ERROR' : `SQLITE_${name}`
}

/** Whether an error means that another connection was writing for too long. */
export function isBusy(error: unknown): boolean {
  return sqliteCode(error).startsWith('SQLITE_BUSY')
}

/** Whether an error means that a file is damaged, or no database. */
export function isDamaged(error: unknown): boolean {
  return /^SQLITE_(CORRUPT|NOTADB)/.test(sqliteCode(error))
}

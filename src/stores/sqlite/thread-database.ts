import { statSync } from 'node:fs'
import { limitMilliseconds } from '../../time-limits.js'
import {
  isFile,
  openConnection,
  type ConnectionOptions,
  type EngineName,
  type SqliteConnection
} from './sqlite-engine.js'

/** Role of a thread. The reader reads while the writer waits for the disk. */
export type ThreadRole = 'writer' | 'reader'

/** File that a store has opened. */
export interface OpenedFile {
  /** Absolute path, or `:memory:`. */
  readonly file: string
  /** Inode; undefined for `:memory:`. */
  readonly inode: number | undefined
}

/** Settings of a thread's database, which its worker receives. */
export interface ThreadDatabase extends OpenedFile {
  readonly engine: EngineName
  readonly synchronous: ConnectionOptions['synchronous']
  readonly role: ThreadRole
}

/** Suffixes of the files in WAL mode: the database, the write-ahead log and the index of the log. */
const SUFFIXES = ['', '-wal', '-shm']
/** Time for which a statement may block a thread while another process writes. */
const BUSY_MILLISECONDS = { writer: 20, reader: limitMilliseconds.sqliteBusy }

/** Returns the inode of a file, or undefined if there is none. */
export function findInode(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.ino
}

/**
 * Opens the database of a thread. A reader's connection refuses to write.
 *
 * @returns `assertInPlace` throws if an open file was moved or deleted, because the next process would not see a write
 * @throws Error with the code SQLITE_READONLY_DBMOVED if the file is not the one that the store has opened
 */
export function openThreadDatabase({ file, engine, synchronous, inode, role }: ThreadDatabase): {
  connection: SqliteConnection
  assertInPlace: () => void
} {
  const assertInode = (path: string, expected: number | undefined): void => {
    if (findInode(path) === expected) return
    throw Object.assign(new Error(`the database is no longer at ${path}`), { code: 'SQLITE_READONLY_DBMOVED' })
  }
  if (isFile(file)) assertInode(file, inode)
  const connection = openConnection(file, engine, { synchronous, busyMilliseconds: BUSY_MILLISECONDS[role] })
  if (!isFile(file)) return { connection, assertInPlace: () => undefined }
  if (role === 'reader') connection.exec('PRAGMA query_only = ON')
  const inodes = SUFFIXES.map((suffix) => [file + suffix, findInode(file + suffix)] as const)
  const assertInPlace = (): void => {
    for (const [path, expected] of inodes) assertInode(path, expected)
  }
  return { connection, assertInPlace }
}

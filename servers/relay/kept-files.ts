import type { SqliteFile } from '../shared/database.js'
import { ServerError } from '../shared/server-error.js'

/** What the store holds. */
export interface KeptFile {
  cid: string
  byteCount: number
  keptAtSeconds: number
}

/** When a file was kept, and when it goes. */
export interface KeptTimes {
  keptAtSeconds: number
  endsAtSeconds: number
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS files (
    cid TEXT NOT NULL PRIMARY KEY,
    byte_count INTEGER NOT NULL,
    kept_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS files_by_end ON files (ends_at);
  CREATE TABLE IF NOT EXISTS totals (bytes INTEGER NOT NULL);
  INSERT INTO totals SELECT 0 WHERE NOT EXISTS (SELECT * FROM totals);
  CREATE TRIGGER IF NOT EXISTS files_in AFTER INSERT ON files BEGIN
    UPDATE totals SET bytes = bytes + new.byte_count;
  END;
  CREATE TRIGGER IF NOT EXISTS files_out AFTER DELETE ON files BEGIN
    UPDATE totals SET bytes = bytes - old.byte_count;
  END`

/**
 * One row for each file in the store: its size, and when it goes. Who posted it is written nowhere.
 *
 * No verb opens a transaction: content changes in the same one.
 */
export class KeptFiles {
  readonly #maxBytes: number
  readonly #find
  readonly #move
  readonly #insert
  readonly #remove
  readonly #since
  readonly #ended
  readonly #total

  /** @param maxBytes - of all files together */
  constructor(database: SqliteFile, maxBytes: number) {
    database.exec(SCHEMA)
    this.#maxBytes = maxBytes
    this.#move = database.prepare<[number, number, string]>('UPDATE files SET kept_at = ?, ends_at = ? WHERE cid = ?')
    this.#insert = database.prepare<[string, number, number, number]>(
      'INSERT INTO files (cid, byte_count, kept_at, ends_at) VALUES (?, ?, ?, ?)'
    )
    this.#remove = database.prepare<[string]>('DELETE FROM files WHERE cid = ?')
    this.#since = database.prepare<[number, number], KeptFile>(
      `SELECT cid, byte_count AS byteCount, kept_at AS keptAtSeconds FROM files
       WHERE kept_at > ? ORDER BY kept_at DESC LIMIT ?`
    )
    this.#find = database.prepare<[string], number>('SELECT 1 FROM files WHERE cid = ?').pluck()
    this.#ended = database
      .prepare<[number, number], string>('SELECT cid FROM files WHERE ends_at <= ? ORDER BY ends_at LIMIT ?')
      .pluck()
    this.#total = database.prepare<[], number>('SELECT bytes FROM totals').pluck()
  }

  has(cid: string): boolean {
    return this.#find.get(cid) !== undefined
  }

  /** Gives the row of a file new times; false when there is none. */
  move(cid: string, { keptAtSeconds, endsAtSeconds }: KeptTimes): boolean {
    return this.#move.run(keptAtSeconds, endsAtSeconds, cid).changes > 0
  }

  /** @throws ServerError ERR_STORAGE_FULL */
  insert({ cid, byteCount }: Pick<KeptFile, 'cid' | 'byteCount'>, { keptAtSeconds, endsAtSeconds }: KeptTimes): void {
    const used = this.#total.get() ?? 0
    if (used + byteCount > this.#maxBytes) {
      const detail = `${used} of ${this.#maxBytes} bytes in use by all, ${byteCount} needed`
      throw new ServerError('ERR_STORAGE_FULL', { detail })
    }
    this.#insert.run(cid, byteCount, keptAtSeconds, endsAtSeconds)
  }

  remove(cid: string): void {
    this.#remove.run(cid)
  }

  /** What was kept after a moment, the newest first. */
  since(seconds: number, limit: number): KeptFile[] {
    return this.#since.all(seconds, limit)
  }

  /** Cids of what has ended, the first to end first. */
  ended(nowSeconds: number, limit: number): string[] {
    return this.#ended.all(nowSeconds, limit)
  }
}

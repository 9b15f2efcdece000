import type { SqliteFile } from '../shared/content/database.js'
import { ServerError } from '../shared/http/server-error.js'

/** What the store holds. */
export interface KeptFile {
  cid: string
  byteCount: number
  keptAtSeconds: number
}

/** Bounds of what is kept. */
export interface KeptFilesOptions {
  /** How long a file is kept after it was last posted. */
  ttlSeconds: number
  /** Of the files of all places together, each with `FILE_OVERHEAD_BYTES`. */
  maxBytes: number
}

/** Where the bytes of a file are: in the server's own database, or on an IPFS node. */
export type FilePlace = 'here' | 'node'

/** What a file counts beside its text: its rows and their indexes take up to 400 bytes, in pages that are never quite full. */
const FILE_OVERHEAD_BYTES = 512

type FileSize = Pick<KeptFile, 'cid' | 'byteCount'>

/** When what was begun and not confirmed goes: a node that was slow has done what it was asked by then. */
const UNCONFIRMED_SECONDS = 600

/**
 * A file is kept once `kept_at` is not 0; `begun_at` is 0 but while nobody knows whether it could be kept once more.
 *
 * `counts` came later than `totals`: a database without it is counted once.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS files (
    cid TEXT NOT NULL,
    place TEXT NOT NULL,
    byte_count INTEGER NOT NULL,
    kept_at INTEGER NOT NULL DEFAULT 0,
    begun_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (cid, place)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS files_by_time ON files (place, kept_at, begun_at);
  CREATE TABLE IF NOT EXISTS totals (bytes INTEGER NOT NULL);
  INSERT INTO totals SELECT 0 WHERE NOT EXISTS (SELECT * FROM totals);
  CREATE TRIGGER IF NOT EXISTS files_in AFTER INSERT ON files WHEN new.kept_at > 0 BEGIN
    UPDATE totals SET bytes = bytes + new.byte_count;
  END;
  CREATE TRIGGER IF NOT EXISTS files_kept AFTER UPDATE ON files WHEN old.kept_at = 0 AND new.kept_at > 0 BEGIN
    UPDATE totals SET bytes = bytes + new.byte_count;
  END;
  CREATE TRIGGER IF NOT EXISTS files_out AFTER DELETE ON files WHEN old.kept_at > 0 BEGIN
    UPDATE totals SET bytes = bytes - old.byte_count;
  END;
  CREATE TABLE IF NOT EXISTS counts (files INTEGER NOT NULL);
  INSERT INTO counts SELECT (SELECT count(*) FROM files WHERE kept_at > 0) WHERE NOT EXISTS (SELECT * FROM counts);
  CREATE TRIGGER IF NOT EXISTS count_in AFTER INSERT ON files WHEN new.kept_at > 0 BEGIN
    UPDATE counts SET files = files + 1;
  END;
  CREATE TRIGGER IF NOT EXISTS count_kept AFTER UPDATE ON files WHEN old.kept_at = 0 AND new.kept_at > 0 BEGIN
    UPDATE counts SET files = files + 1;
  END;
  CREATE TRIGGER IF NOT EXISTS count_out AFTER DELETE ON files WHEN old.kept_at > 0 BEGIN
    UPDATE counts SET files = files - 1;
  END`

const COLUMNS = 'cid, byte_count AS byteCount, kept_at AS keptAtSeconds'

/** What has ended by two times: that of the last post, and that of an attempt whose outcome nobody knows. */
const ENDED = 'place = ? AND kept_at <= ? AND begun_at <= ?'

/**
 * One row for each file in one place: its size, and when it was last posted. When it ends follows from how long files are
 * kept now, so that who shortens that frees room. Who posted it is written nowhere.
 *
 * No verb opens a transaction: content changes in the same one.
 */
export class KeptFiles {
  readonly #place: FilePlace
  readonly #options: KeptFilesOptions
  readonly #isKept
  readonly #begin
  readonly #keep
  readonly #remove
  readonly #find
  readonly #since
  readonly #ended
  readonly #isEnded
  readonly #total

  constructor(database: SqliteFile, place: FilePlace, options: KeptFilesOptions) {
    // In one transaction, so that nothing comes in between a count and what keeps it.
    database.transaction(() => database.exec(SCHEMA)).immediate()
    this.#place = place
    this.#options = options
    this.#isKept = database
      .prepare<[string, FilePlace], number>('SELECT 1 FROM files WHERE cid = ? AND place = ? AND kept_at > 0')
      .pluck()
    this.#begin = database.prepare<[string, FilePlace, number, number]>(
      `INSERT INTO files (cid, place, byte_count, begun_at) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET begun_at = excluded.begun_at`
    )
    this.#keep = database.prepare<[string, FilePlace, number, number]>(
      `INSERT INTO files (cid, place, byte_count, kept_at) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET kept_at = excluded.kept_at, begun_at = 0`
    )
    this.#remove = database.prepare<[string, FilePlace]>('DELETE FROM files WHERE cid = ? AND place = ?')
    this.#find = database.prepare<[FilePlace, string], KeptFile>(
      `SELECT ${COLUMNS} FROM files WHERE place = ? AND cid = ? AND kept_at > 0`
    )
    // In the order of the index, so that nothing is sorted.
    this.#since = database.prepare<[FilePlace, number, number, string, number], KeptFile>(
      `SELECT ${COLUMNS} FROM files WHERE place = ? AND kept_at > ? AND (kept_at, begun_at, cid) < (?, 0, ?)
       ORDER BY kept_at DESC, begun_at DESC, cid DESC LIMIT ?`
    )
    this.#ended = database
      .prepare<[FilePlace, number, number, number], string>(
        `SELECT cid FROM files WHERE ${ENDED} ORDER BY kept_at LIMIT ?`
      )
      .pluck()
    this.#isEnded = database
      .prepare<[FilePlace, number, number, string], number>(`SELECT 1 FROM files WHERE ${ENDED} AND cid = ?`)
      .pluck()
    this.#total = database
      .prepare<[], number>(`SELECT bytes + ${FILE_OVERHEAD_BYTES} * files FROM totals, counts`)
      .pluck()
  }

  /**
   * Remembers that a file is about to be kept, for 10 minutes from now on at least. It does not count yet.
   *
   * @throws ServerError ERR_STORAGE_FULL
   */
  begin(file: FileSize, nowSeconds: number): void {
    if (!this.#has(file.cid)) this.#assertRoom(file)
    this.#begin.run(file.cid, this.#place, file.byteCount, nowSeconds)
  }

  /**
   * Keeps a file from now on; its time starts anew.
   *
   * @returns false when it was kept already
   * @throws ServerError ERR_STORAGE_FULL
   */
  keep(file: FileSize, nowSeconds: number): boolean {
    const isNew = !this.#has(file.cid)
    if (isNew) this.#assertRoom(file)
    this.#keep.run(file.cid, this.#place, file.byteCount, nowSeconds)
    return isNew
  }

  remove(cid: string): void {
    this.#remove.run(cid, this.#place)
  }

  find(cid: string): KeptFile | undefined {
    return this.#find.get(this.#place, cid)
  }

  /**
   * What was kept after a moment, the newest first, but for what is begun once more.
   *
   * @param last - where an earlier call stopped: what follows it
   */
  since(seconds: number, limit: number, last?: KeptFile): KeptFile[] {
    return this.#since.all(this.#place, seconds, last?.keptAtSeconds ?? Number.MAX_SAFE_INTEGER, last?.cid ?? '', limit)
  }

  /** Cids of what has ended, the first to end first. */
  ended(nowSeconds: number, limit: number): string[] {
    return this.#ended.all(...this.#endsBefore(nowSeconds), limit)
  }

  isEnded(cid: string, nowSeconds: number): boolean {
    return this.#isEnded.get(...this.#endsBefore(nowSeconds), cid) !== undefined
  }

  #endsBefore(nowSeconds: number): [FilePlace, number, number] {
    return [this.#place, nowSeconds - this.#options.ttlSeconds, nowSeconds - UNCONFIRMED_SECONDS]
  }

  #has(cid: string): boolean {
    return this.#isKept.get(cid, this.#place) !== undefined
  }

  #assertRoom({ byteCount }: FileSize): void {
    const { maxBytes } = this.#options
    const used = this.#total.get() ?? 0
    const needed = byteCount + FILE_OVERHEAD_BYTES
    if (used + needed <= maxBytes) return
    const detail = `${used} of ${maxBytes} bytes in use by all, ${needed} needed`
    throw new ServerError('ERR_STORAGE_FULL', { detail })
  }
}

import { rollBack, type SqlConnection } from 'express-did-auth/stores/sqlite'
import { StartError } from '../../config/startup-error.js'
import { FILE_OVERHEAD_BYTES } from '../quota.js'

/** Version of the tables; those of before the content store have none. */
export const SCHEMA_VERSION = 2

/**
 * `contents`: what is stored, once each; small content in its row, larger in an object. `bytes` comes last, because SQLite
 * reads a row from its beginning.
 *
 * `garbage`: objects to be deleted. `upload`: it is being written, and its writer may still take it into use; `takedown`: it
 * is overwritten first.
 *
 * `entries.number` grows with each entry written, and so is their order. `lists` has a row for each key that has entries:
 * how many, and the hash of them all, which tells damage and is the ETag. They are found without `owners`, so that no one
 * damaged row makes a list shorter.
 *
 * `files` of before had another shape, hence `relay_files`. `posts`: what a user posted within a time slot, under a hash.
 */
export const TABLES = `
  CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS contents (
    id INTEGER PRIMARY KEY,
    cid TEXT NOT NULL UNIQUE,
    byte_count INTEGER NOT NULL,
    json_byte_count INTEGER NOT NULL,
    leaf_hashes BLOB NOT NULL,
    object TEXT,
    bytes BLOB
  ) STRICT;
  CREATE TABLE IF NOT EXISTS garbage (
    object TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('upload', 'removed', 'takedown')),
    since INTEGER NOT NULL,
    byte_count INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS denied (
    cid TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS owners (
    id INTEGER PRIMARY KEY,
    did TEXT NOT NULL UNIQUE,
    byte_count INTEGER NOT NULL,
    entry_count INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL,
    key TEXT NOT NULL,
    cid TEXT NOT NULL,
    byte_count INTEGER NOT NULL,
    json_byte_count INTEGER NOT NULL DEFAULT 0,
    UNIQUE (owner, key, cid)
  );
  CREATE INDEX IF NOT EXISTS entries_by_cid ON entries (cid);
  CREATE TABLE IF NOT EXISTS lists (
    did TEXT NOT NULL,
    key TEXT NOT NULL,
    entry_count INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (did, key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE IF NOT EXISTS relay_files (
    cid TEXT PRIMARY KEY,
    byte_count INTEGER NOT NULL,
    json_byte_count INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS relay_files_by_end ON relay_files (expires_at);
  CREATE TABLE IF NOT EXISTS posts (
    did_hash TEXT PRIMARY KEY,
    byte_count INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS posts_by_end ON posts (ends_at);

  CREATE TABLE IF NOT EXISTS pins (
    revision INTEGER PRIMARY KEY AUTOINCREMENT,
    cid TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('pin', 'pinned', 'unpin')),
    attempts INTEGER NOT NULL DEFAULT 0,
    is_in_doubt INTEGER NOT NULL DEFAULT 0,
    retry_at INTEGER NOT NULL DEFAULT 0,
    claimed_revision INTEGER NOT NULL DEFAULT 0,
    claimed_until INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX IF NOT EXISTS pins_open ON pins (retry_at) WHERE state <> 'pinned';

  INSERT OR IGNORE INTO numbers VALUES
    ('version', ${SCHEMA_VERSION}), ('fileBytes', 0), ('probes', 0);`

/**
 * Creates the tables where there are none, and brings those of before the content store up to date: all but the content
 * itself, which `takeOverContents` moves. In one transaction, so that of two processes that start together one does it.
 *
 * @param fileTtlSeconds - how long the relay's files of before are kept after they were last posted
 * @throws StartError when a later version made the tables
 */
export function prepareTables(connection: SqlConnection, fileTtlSeconds: number): void {
  connection.exec('BEGIN IMMEDIATE')
  try {
    const find = connection.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?")
    const has = (table: string): boolean => find.get(table) !== undefined
    const [hadLists, hadEntries, hadFiles] = [has('lists'), has('entries'), has('files')]
    if (hadEntries && !hadLists) connection.exec(UPGRADE_ENTRIES)
    if (has('vault_pins')) connection.exec(UPGRADE_PINS)
    connection.exec(TABLES)
    if (hadEntries && !hadLists) connection.exec("INSERT INTO numbers VALUES ('listsToBuild', 1)")
    if (hadFiles) connection.exec(takeOverFiles(fileTtlSeconds))
    const version = connection.prepare("SELECT number FROM numbers WHERE name = 'version'").get()?.number
    if (version !== SCHEMA_VERSION) {
      throw new StartError(`The database has tables of version ${String(version)}, this server knows ${SCHEMA_VERSION}`)
    }
    connection.exec('COMMIT')
  } catch (error) {
    rollBack(connection)
    throw error
  }
}

/** A server of before refuses version 2. */
const UPGRADE_ENTRIES = `
  ALTER TABLE entries ADD COLUMN json_byte_count INTEGER NOT NULL DEFAULT 0;
  UPDATE vault_version SET version = ${SCHEMA_VERSION};`

/** What was open may be under way at the node: it counts as claimed by a process that ended. */
const UPGRADE_PINS = `
  DROP INDEX IF EXISTS vault_pins_open;
  ALTER TABLE vault_pins RENAME TO pins;
  ALTER TABLE pins RENAME COLUMN is_doubtful TO is_in_doubt;
  ALTER TABLE pins RENAME COLUMN retry_at_seconds TO retry_at;
  ALTER TABLE pins ADD COLUMN claimed_revision INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE pins ADD COLUMN claimed_until INTEGER NOT NULL DEFAULT 0;
  UPDATE pins SET claimed_until = 1 WHERE state <> 'pinned';`

/** A file on a node has its bytes there alone; they are fetched when it is read. What was only begun may be pinned. */
function takeOverFiles(ttlSeconds: number): string {
  return `
    INSERT INTO relay_files SELECT cid, max(byte_count), 0, max(kept_at) + ${ttlSeconds} FROM files
      WHERE kept_at > 0 GROUP BY cid;
    INSERT OR IGNORE INTO pins (cid, state) SELECT cid, 'pinned' FROM files WHERE place = 'node' AND kept_at > 0;
    INSERT OR IGNORE INTO pins (cid, state, claimed_until) SELECT cid, 'unpin', 1 FROM files WHERE place = 'node';
    UPDATE numbers SET number = (SELECT ifnull(sum(byte_count + ${FILE_OVERHEAD_BYTES}), 0) FROM relay_files)
      WHERE name = 'fileBytes';
    DROP TABLE files; DROP TABLE IF EXISTS totals; DROP TABLE IF EXISTS counts;`
}

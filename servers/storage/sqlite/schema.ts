import { rollBack, type SqlConnection } from 'express-did-auth/stores/sqlite'
import { StartError } from '../../config/startup-error.js'

/** Version of the tables. */
export const SCHEMA_VERSION = 1

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
 * `posts`: what a user posted within a time slot, under a hash.
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
 * Creates the tables where there are none, in one transaction, so that of two processes that start together one does it.
 *
 * @throws StartError when another version made the tables
 */
export function prepareTables(connection: SqlConnection): void {
  connection.exec('BEGIN IMMEDIATE')
  try {
    connection.exec(TABLES)
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

import { rollBack, type PostgresMigration, type SqlConnection } from 'express-did-auth/server-kit'
import { StartError } from '../../config/startup-error.js'
import type { TablePrefix } from './content-dialect.js'

/**
 * The tables of contents, once for each engine, with the same columns.
 *
 * `contents`: what is stored, once each; small content in its row, larger in an object. In PostgreSQL, foreign keys make it
 * sure that content is there as long as an entry or a file has it. `bytes` comes last, because SQLite reads a row from its
 * beginning. `unreferenced`: content without a use that could not be deleted at once; a collector looks whether something
 * has it yet. `garbage`: objects to be deleted. `upload`: it is being written, and its writer may still take it into use;
 * `takedown`: it is overwritten first. `denied`: content that was taken down.
 *
 * `entries.number` is counted in the row of their owner, which each write locks: so it is the order of commits. `lists` has a
 * row for each key that has entries: how many, and the hash of them all, which tells damage and is the ETag. They are found
 * without `owners`, so that no one damaged row makes a list shorter.
 *
 * `posts`: what a user posted within a time slot, under a hash. `numbers`: `reserved` is the number that entries of new
 * owners come after, `probes` a row that a probe can write, `revisions` (SQLite) the last revision of a pin.
 */
const INDEXES = `
CREATE INDEX IF NOT EXISTS ~entries_by_cid ON ~entries (cid);
CREATE INDEX IF NOT EXISTS ~files_by_end ON ~files (expires_at, byte_count);
CREATE INDEX IF NOT EXISTS ~posts_by_end ON ~posts (ends_at);
CREATE INDEX IF NOT EXISTS ~pins_open ON ~pins (retry_at, revision) WHERE state <> 'pinned';`

const SQLITE_VERSION = 1

/** `STRICT`, because SQLite would else keep a text where a number belongs. */
const SQLITE_TABLES = `
CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contents (
  id INTEGER PRIMARY KEY,
  cid TEXT NOT NULL UNIQUE,
  byte_count INTEGER NOT NULL,
  leaf_hashes BLOB NOT NULL,
  object TEXT,
  bytes BLOB
) STRICT;
CREATE TABLE IF NOT EXISTS unreferenced (cid TEXT PRIMARY KEY, since INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS garbage (
  object TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('upload', 'removed', 'takedown')),
  since INTEGER NOT NULL,
  byte_count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS denied (cid TEXT PRIMARY KEY, reason TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owners (
  id INTEGER PRIMARY KEY,
  did TEXT NOT NULL UNIQUE,
  byte_count INTEGER NOT NULL,
  entry_count INTEGER NOT NULL,
  last_number INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS lists (
  did TEXT NOT NULL,
  key TEXT NOT NULL,
  entry_count INTEGER NOT NULL,
  hash BLOB NOT NULL,
  PRIMARY KEY (did, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
  owner INTEGER NOT NULL,
  key TEXT NOT NULL,
  cid TEXT NOT NULL,
  number INTEGER NOT NULL,
  byte_count INTEGER NOT NULL,
  PRIMARY KEY (owner, key, cid)
) STRICT;
CREATE TABLE IF NOT EXISTS files (
  cid TEXT PRIMARY KEY,
  byte_count INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS posts (
  did_hash TEXT PRIMARY KEY,
  byte_count INTEGER NOT NULL,
  ends_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pins (
  cid TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pin', 'pinned', 'unpin')),
  attempts INTEGER NOT NULL DEFAULT 0,
  is_in_doubt INTEGER NOT NULL DEFAULT 0,
  retry_at INTEGER NOT NULL DEFAULT 0,
  claimed_revision INTEGER NOT NULL DEFAULT 0,
  claimed_until INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS pins_added AFTER INSERT ON pins BEGIN
  UPDATE numbers SET number = max(number, new.revision) WHERE name = 'revisions';
END;
CREATE TRIGGER IF NOT EXISTS pins_changed AFTER UPDATE OF revision ON pins WHEN new.revision > old.revision BEGIN
  UPDATE numbers SET number = max(number, new.revision) WHERE name = 'revisions';
END;${INDEXES.replaceAll('~', '')}
INSERT OR IGNORE INTO numbers VALUES ('version', ${SQLITE_VERSION}), ('probes', 0), ('reserved', 0), ('revisions', 0);`

const POSTGRES_TABLES = `
CREATE SEQUENCE ~revisions;
CREATE TABLE ~numbers (name text COLLATE "C" PRIMARY KEY, number bigint NOT NULL);
CREATE TABLE ~contents (
  cid text COLLATE "C" PRIMARY KEY,
  byte_count integer NOT NULL,
  leaf_hashes bytea NOT NULL,
  object text COLLATE "C",
  bytes bytea,
  CHECK ((object IS NULL) <> (bytes IS NULL))
);
ALTER TABLE ~contents ALTER bytes SET STORAGE EXTERNAL;
CREATE TABLE ~unreferenced (cid text COLLATE "C" PRIMARY KEY, since bigint NOT NULL);
CREATE TABLE ~garbage (
  object text COLLATE "C" PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('upload', 'removed', 'takedown')),
  since bigint NOT NULL,
  byte_count integer NOT NULL
);
CREATE TABLE ~denied (cid text COLLATE "C" PRIMARY KEY, reason text NOT NULL, at bigint NOT NULL);
CREATE TABLE ~owners (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  did text COLLATE "C" NOT NULL UNIQUE,
  byte_count bigint NOT NULL,
  entry_count bigint NOT NULL,
  last_number bigint NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE ~lists (
  did text COLLATE "C" REFERENCES ~owners (did),
  key text COLLATE "C",
  entry_count bigint NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (did, key)
) WITH (fillfactor = 80);
CREATE TABLE ~entries (
  owner bigint,
  key text COLLATE "C",
  cid text COLLATE "C" REFERENCES ~contents,
  number bigint NOT NULL,
  byte_count integer NOT NULL,
  PRIMARY KEY (owner, key, cid)
);
CREATE TABLE ~files (cid text COLLATE "C" PRIMARY KEY REFERENCES ~contents, byte_count integer NOT NULL, expires_at bigint NOT NULL);
CREATE TABLE ~posts (did_hash text COLLATE "C" PRIMARY KEY, byte_count bigint NOT NULL, ends_at bigint NOT NULL);
CREATE TABLE ~pins (
  cid text COLLATE "C" PRIMARY KEY,
  revision bigint NOT NULL DEFAULT pg_catalog.nextval('~revisions'),
  state text NOT NULL CHECK (state IN ('pin', 'pinned', 'unpin')),
  attempts integer NOT NULL DEFAULT 0,
  is_in_doubt integer NOT NULL DEFAULT 0,
  retry_at bigint NOT NULL DEFAULT 0,
  claimed_revision bigint NOT NULL DEFAULT 0,
  claimed_until bigint NOT NULL DEFAULT 0
);
CREATE TABLE ~objects (name text COLLATE "C" PRIMARY KEY, is_whole boolean NOT NULL DEFAULT false);
CREATE TABLE ~object_pieces (
  object text COLLATE "C" REFERENCES ~objects ON DELETE CASCADE,
  number integer,
  bytes bytea NOT NULL,
  PRIMARY KEY (object, number)
);
ALTER TABLE ~object_pieces ALTER bytes SET STORAGE EXTERNAL;${INDEXES}
INSERT INTO ~numbers VALUES ('probes', 0), ('reserved', 0);`

/** The steps of the schema in PostgreSQL; their version stands in the table `<prefix>_schema`. */
export function contentMigrations(tables: TablePrefix): PostgresMigration[] {
  const statements = POSTGRES_TABLES.replaceAll('~', `${tables}_`)
    .split(/;\n|;$/)
    .map((text) => text.trim())
    .filter((text) => text !== '')
  return [{ statements, needsCode: 1 }]
}

/**
 * Creates the tables in SQLite where there are none, in one transaction, so that of two processes that start together one
 * does it.
 *
 * @throws StartError when another version made the tables
 */
export function prepareTables(connection: SqlConnection): void {
  connection.exec('BEGIN IMMEDIATE')
  try {
    connection.exec(SQLITE_TABLES)
    const version = connection.prepare("SELECT number FROM numbers WHERE name = 'version'").get()?.number
    if (version !== SQLITE_VERSION) {
      throw new StartError(`The database has tables of version ${String(version)}, this server knows ${SQLITE_VERSION}`)
    }
    connection.exec('COMMIT')
  } catch (error) {
    rollBack(connection)
    throw error
  }
}

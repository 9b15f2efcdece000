import type { PostgresMigration } from 'express-did-auth/stores/postgres'
import type { TablePrefix } from './content-dialect.js'

/**
 * The tables of contents, as PostgreSQL has them; SQLite's follow from them (`prepareSqliteFile`). `~` is the prefix.
 *
 * `contents`: each once; small content in its row, larger in an object. In PostgreSQL, foreign keys ensure that content
 * is there as long as an entry or a file has it. `bytes` comes last, because SQLite reads a row from its beginning.
 * `unreferenced`: content without a use that could not be deleted at once. `garbage`: objects to be deleted. `upload`:
 * it is being written, and may still come into use; `takedown`: it is overwritten first. `denied`: what was taken down.
 *
 * `entries.number` is counted in the row of their owner, which each write locks: so it is the order of commits. `lists`
 * has a row for each key that has entries: how many, and the hash of them all, which reveals damage and is the ETag.
 * They are found without `owners`, so that no one damaged row makes a list shorter.
 *
 * `posts`: what a user posted within a time slot, under a hash. `numbers`: `reserved` is the number that entries of new
 * owners come after, `probes` a row that a probe can write, `revisions` (SQLite) the last revision of a pin.
 */
const TABLES = `
CREATE TABLE ~numbers (name text COLLATE "C" PRIMARY KEY, number bigint NOT NULL) WITHOUT ROWID;
CREATE TABLE ~contents (
  cid text COLLATE "C" PRIMARY KEY,
  byte_count integer NOT NULL,
  leaf_hashes bytea NOT NULL,
  object text COLLATE "C",
  bytes bytea,
  CHECK ((object IS NULL) <> (bytes IS NULL))
);
CREATE TABLE ~unreferenced (cid text COLLATE "C" PRIMARY KEY, since bigint NOT NULL) WITHOUT ROWID;
CREATE TABLE ~garbage (
  object text COLLATE "C" PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('upload', 'removed', 'takedown')),
  since bigint NOT NULL,
  byte_count integer NOT NULL
) WITHOUT ROWID;
CREATE TABLE ~denied (cid text COLLATE "C" PRIMARY KEY, reason text NOT NULL, at bigint NOT NULL) WITHOUT ROWID;
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
) WITH (fillfactor = 80) WITHOUT ROWID;
CREATE TABLE ~entries (
  owner bigint,
  key text COLLATE "C",
  cid text COLLATE "C" REFERENCES ~contents,
  number bigint NOT NULL,
  byte_count integer NOT NULL,
  PRIMARY KEY (owner, key, cid)
);
CREATE TABLE ~files (
  cid text COLLATE "C" PRIMARY KEY REFERENCES ~contents,
  byte_count integer NOT NULL,
  expires_at bigint NOT NULL
) WITHOUT ROWID;
CREATE TABLE ~posts (
  did_hash text COLLATE "C" PRIMARY KEY,
  byte_count bigint NOT NULL,
  ends_at bigint NOT NULL
) WITHOUT ROWID;
CREATE TABLE ~pins (
  cid text COLLATE "C" PRIMARY KEY,
  revision bigint NOT NULL,
  state text NOT NULL CHECK (state IN ('pin', 'pinned', 'unpin')),
  attempts integer NOT NULL DEFAULT 0,
  is_in_doubt integer NOT NULL DEFAULT 0,
  retry_at bigint NOT NULL DEFAULT 0,
  claimed_revision bigint NOT NULL DEFAULT 0,
  claimed_until bigint NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX ~entries_by_cid ON ~entries (cid);
CREATE INDEX ~files_by_end ON ~files (expires_at, byte_count);
CREATE INDEX ~posts_by_end ON ~posts (ends_at);
CREATE INDEX ~pins_open ON ~pins (retry_at, revision) WHERE state <> 'pinned';
INSERT INTO ~numbers VALUES ('probes', 0), ('reserved', 0);`

const OF_POSTGRES = `
CREATE SEQUENCE ~revisions;
CREATE TABLE ~objects (name text COLLATE "C" PRIMARY KEY, is_whole boolean NOT NULL DEFAULT false);
CREATE TABLE ~object_pieces (
  object text COLLATE "C" REFERENCES ~objects ON DELETE CASCADE,
  number integer,
  bytes bytea NOT NULL,
  PRIMARY KEY (object, number)
);
ALTER TABLE ~contents ALTER bytes SET STORAGE EXTERNAL;
ALTER TABLE ~object_pieces ALTER bytes SET STORAGE EXTERNAL;`

const OF_SQLITE = `
INSERT INTO numbers VALUES ('revisions', 0);
CREATE TRIGGER pins_added AFTER INSERT ON pins BEGIN
  UPDATE numbers SET number = max(number, new.revision) WHERE name = 'revisions'; END;
CREATE TRIGGER pins_changed AFTER UPDATE OF revision ON pins WHEN new.revision > old.revision BEGIN
  UPDATE numbers SET number = max(number, new.revision) WHERE name = 'revisions'; END;`

/** The statements of a text, of which each ends with a line. */
function splitStatements(text: string, prefix: string): string[] {
  return text
    .trim()
    .slice(0, -1)
    .split(';\n')
    .map((one) => one.replaceAll('~', prefix))
}

export const SQLITE_TABLES: readonly string[] = splitStatements(TABLES + OF_SQLITE, '')

/** The steps of the schema in PostgreSQL; their version is in the table `<prefix>_schema`. */
export function createContentMigrations(tables: TablePrefix): PostgresMigration[] {
  const statements = splitStatements(TABLES.replaceAll(' WITHOUT ROWID', '') + OF_POSTGRES, `${tables}_`)
  return [{ statements, needsCode: 1 }]
}

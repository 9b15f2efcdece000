import { postgresDialect, sqliteDialect, type Dialect } from 'express-did-auth/server-kit'
import type { PostgresMigration } from 'express-did-auth/stores/postgres'
import type { TablePrefix } from './content-dialect.js'

/**
 * Creates the text of the tables of contents. `~` stands for the prefix.
 *
 * - `contents`: one row per cid. Small content is stored in its row, large content in an object. In PostgreSQL, foreign
 *   keys prevent the deletion of content that an entry or a file uses. `bytes` is the last column, because SQLite reads
 *   rows from the beginning.
 * - `unreferenced`: unused content that could not be deleted at once.
 * - `garbage`: objects to delete. Kind `upload`: the upload is running, and its object may still come into use. Kind
 *   `takedown`: the object is overwritten before it is deleted.
 * - `denied`: cids that were taken down.
 * - `owners`, `entries`: each write locks its owner's row and takes the entry's `number` from it. The numbers are
 *   therefore in the order of commits.
 * - `lists`: for each key with entries, their number and a hash of all. The hash reveals damage, and is the ETag. A
 *   list is found without `owners`, so that a single damaged row never makes a list look shorter.
 * - `posts`: bytes that a user has posted within a time slot, by the hash of the DID.
 * - `numbers`: entries of new owners have numbers above `reserved`. A probe writes `probes`. In SQLite, `revisions` is
 *   the last revision of a pin.
 */
const createTables = ({ words }: Dialect): string => `
CREATE TABLE ~numbers (name ${words.exactText} PRIMARY KEY, number ${words.bigint} NOT NULL)${words.end({ hasKeyOnly: true })};
CREATE TABLE ~contents (
  cid ${words.exactText} PRIMARY KEY,
  byte_count integer NOT NULL,
  leaf_hashes ${words.bytes} NOT NULL,
  object ${words.exactText},
  bytes ${words.bytes},
  CHECK ((object IS NULL) <> (bytes IS NULL))
)${words.end()};
CREATE TABLE ~unreferenced (cid ${words.exactText} PRIMARY KEY, since ${words.bigint} NOT NULL)${words.end({ hasKeyOnly: true })};
CREATE TABLE ~garbage (
  object ${words.exactText} PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('upload', 'removed', 'takedown')),
  since ${words.bigint} NOT NULL,
  byte_count integer NOT NULL
)${words.end({ hasKeyOnly: true })};
CREATE TABLE ~denied (cid ${words.exactText} PRIMARY KEY, reason text NOT NULL, at ${words.bigint} NOT NULL)${words.end({ hasKeyOnly: true })};
CREATE TABLE ~owners (
  id ${words.identityKey},
  did ${words.exactText} NOT NULL UNIQUE,
  byte_count ${words.bigint} NOT NULL,
  entry_count ${words.bigint} NOT NULL,
  last_number ${words.bigint} NOT NULL
)${words.end({ fillFactor: 80 })};
CREATE TABLE ~lists (
  did ${words.exactText}${words.references('~owners (did)')},
  key ${words.exactText},
  entry_count ${words.bigint} NOT NULL,
  hash ${words.bytes} NOT NULL,
  PRIMARY KEY (did, key)
)${words.end({ fillFactor: 80, hasKeyOnly: true })};
CREATE TABLE ~entries (
  owner ${words.bigint},
  key ${words.exactText},
  cid ${words.exactText}${words.references('~contents')},
  number ${words.bigint} NOT NULL,
  byte_count integer NOT NULL,
  PRIMARY KEY (owner, key, cid)
)${words.end()};
CREATE TABLE ~files (
  cid ${words.exactText} PRIMARY KEY${words.references('~contents')},
  byte_count integer NOT NULL,
  expires_at ${words.bigint} NOT NULL
)${words.end({ hasKeyOnly: true })};
CREATE TABLE ~posts (
  did_hash ${words.exactText} PRIMARY KEY,
  byte_count ${words.bigint} NOT NULL,
  ends_at ${words.bigint} NOT NULL
)${words.end({ hasKeyOnly: true })};
CREATE TABLE ~pins (
  cid ${words.exactText} PRIMARY KEY,
  revision ${words.bigint} NOT NULL,
  state text NOT NULL CHECK (state IN ('pin', 'pinned', 'unpin')),
  attempts integer NOT NULL DEFAULT 0,
  is_in_doubt integer NOT NULL DEFAULT 0,
  retry_at ${words.bigint} NOT NULL DEFAULT 0,
  claimed_revision ${words.bigint} NOT NULL DEFAULT 0,
  claimed_until ${words.bigint} NOT NULL DEFAULT 0
)${words.end({ hasKeyOnly: true })};
CREATE INDEX ~entries_by_cid ON ~entries (cid);
CREATE INDEX ~files_by_end ON ~files (expires_at, byte_count);
CREATE INDEX ~posts_by_end ON ~posts (ends_at);
CREATE INDEX ~pins_open ON ~pins (retry_at, revision) WHERE state <> 'pinned';
INSERT INTO ~numbers VALUES ('probes', 0), ('reserved', 0);`

/** Additional statements for PostgreSQL. */
const POSTGRES_ADDITIONS = `
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

/** Additional statements for SQLite. */
const SQLITE_ADDITIONS = `
INSERT INTO numbers VALUES ('revisions', 0);
CREATE TRIGGER pins_added AFTER INSERT ON pins BEGIN
  UPDATE numbers SET number = max(number, new.revision) WHERE name = 'revisions'; END;
CREATE TRIGGER pins_changed AFTER UPDATE OF revision ON pins WHEN new.revision > old.revision BEGIN
  UPDATE numbers SET number = max(number, new.revision) WHERE name = 'revisions'; END;`

/** Splits a text into statements. Each statement ends with `;` at the end of a line. */
function splitStatements(text: string, prefix: string): string[] {
  return text
    .trim()
    .slice(0, -1)
    .split(';\n')
    .map((statement) => statement.replaceAll('~', prefix))
}

export const SQLITE_TABLES: readonly string[] = splitStatements(createTables(sqliteDialect) + SQLITE_ADDITIONS, '')

/** Creates the migration steps for PostgreSQL. The table `<prefix>_schema` contains the version. */
export function createContentMigrations(tables: TablePrefix): PostgresMigration[] {
  const statements = splitStatements(createTables(postgresDialect) + POSTGRES_ADDITIONS, `${tables}_`)
  return [{ statements, needsCode: 1 }]
}

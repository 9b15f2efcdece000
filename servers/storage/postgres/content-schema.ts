/** Whose tables: relay and vault have their own, also on one database. */
export type TablePrefix = 'relay' | 'vault'

/**
 * Tables of a server's content, in the order in which they are made; `~` stands for the server's prefix.
 *
 * `contents`: what is stored, once each; small content in its row, larger in an object. Its foreign keys are what makes it
 * sure that content is there as long as an entry or a file has it.
 *
 * `loose`: content that was let go; a collector looks whether something has it yet. `garbage`: objects to be deleted, as in
 * SQLite's tables. `denied`: content that was taken down.
 *
 * `entries.number` grows with each entry written, and is fetched while the owner's row is locked: for one owner it is the
 * order of commits. `lists` has a row for each key that has entries: how many, and the hash of them all, which tells damage
 * and is the ETag.
 *
 * `posts`: what a user posted within a time slot, under a hash. `objects` and `object_pieces`: large content where there is no
 * other store of objects.
 */
const TABLES = `
CREATE SEQUENCE ~entry_numbers;
CREATE SEQUENCE ~revisions;
CREATE TABLE ~contents (
  cid text COLLATE "C" PRIMARY KEY,
  byte_count integer NOT NULL,
  json_byte_count integer NOT NULL,
  leaf_hashes bytea NOT NULL,
  object text COLLATE "C",
  bytes bytea,
  CHECK ((object IS NULL) <> (bytes IS NULL))
);
ALTER TABLE ~contents ALTER bytes SET STORAGE EXTERNAL;
CREATE TABLE ~loose (cid text COLLATE "C" PRIMARY KEY, since bigint NOT NULL);
CREATE TABLE ~garbage (
  object text COLLATE "C" PRIMARY KEY,
  cid text COLLATE "C" NOT NULL,
  kind text NOT NULL CHECK (kind IN ('upload', 'removed', 'takedown')),
  since bigint NOT NULL,
  byte_count integer NOT NULL
);
CREATE TABLE ~denied (cid text COLLATE "C" PRIMARY KEY, reason text NOT NULL, at bigint NOT NULL);
CREATE TABLE ~owners (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  did text COLLATE "C" NOT NULL UNIQUE,
  byte_count bigint NOT NULL,
  entry_count bigint NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE ~lists (
  owner bigint REFERENCES ~owners,
  key text COLLATE "C",
  entry_count bigint NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (owner, key)
) WITH (fillfactor = 80);
CREATE TABLE ~entries (
  owner bigint,
  key text COLLATE "C",
  cid text COLLATE "C" REFERENCES ~contents,
  number bigint NOT NULL,
  byte_count integer NOT NULL,
  json_byte_count integer NOT NULL,
  PRIMARY KEY (owner, key, cid)
);
CREATE INDEX ~entries_by_cid ON ~entries (cid);
CREATE TABLE ~files (
  cid text COLLATE "C" PRIMARY KEY REFERENCES ~contents,
  byte_count integer NOT NULL,
  json_byte_count integer NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX ~files_by_end ON ~files (expires_at);
CREATE TABLE ~posts (did_hash text COLLATE "C" PRIMARY KEY, byte_count bigint NOT NULL, ends_at bigint NOT NULL);
CREATE INDEX ~posts_by_end ON ~posts (ends_at);
CREATE TABLE ~pins (
  cid text COLLATE "C" PRIMARY KEY,
  revision bigint NOT NULL DEFAULT pg_catalog.nextval('~revisions'),
  state text NOT NULL CHECK (state IN ('pin', 'pinned', 'unpin')),
  attempts integer NOT NULL DEFAULT 0,
  is_in_doubt boolean NOT NULL DEFAULT false,
  retry_at bigint NOT NULL DEFAULT 0,
  claimed_revision bigint NOT NULL DEFAULT 0,
  claimed_until bigint NOT NULL DEFAULT 0
);
CREATE INDEX ~pins_open ON ~pins (retry_at, revision) WHERE state <> 'pinned';
CREATE TABLE ~objects (
  name text COLLATE "C" PRIMARY KEY,
  is_whole boolean NOT NULL DEFAULT false
);
CREATE TABLE ~object_pieces (
  object text COLLATE "C" REFERENCES ~objects ON DELETE CASCADE,
  number integer,
  bytes bytea NOT NULL,
  PRIMARY KEY (object, number)
);
ALTER TABLE ~object_pieces ALTER bytes SET STORAGE EXTERNAL;
CREATE TABLE ~probes (id integer PRIMARY KEY, number bigint NOT NULL);
INSERT INTO ~probes VALUES (1, 0);`

/** The statements that make a server's tables. */
export function contentTables(prefix: TablePrefix): string[] {
  return TABLES.replaceAll('~', `${prefix}_`)
    .split(/;\n|;$/)
    .map((text) => text.trim())
    .filter((text) => text !== '')
}

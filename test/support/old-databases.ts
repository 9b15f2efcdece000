import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { openSqliteConnection, chooseSqliteEngine, type SqlConnection } from '../../src/stores/sqlite/index.js'
import { contentOf } from '../../servers/storage/unixfs-blocks.js'

/** Tables of before the content store, as its servers made them. */
const BLOCKS = 'CREATE TABLE blocks (cid TEXT NOT NULL UNIQUE, uses INTEGER NOT NULL, bytes BLOB NOT NULL);'
const VAULT = `${BLOCKS}
  CREATE TABLE owners (id INTEGER PRIMARY KEY, did TEXT NOT NULL UNIQUE, byte_count INTEGER NOT NULL, entry_count INTEGER NOT NULL);
  CREATE TABLE entries (number INTEGER PRIMARY KEY, owner INTEGER NOT NULL, key TEXT NOT NULL, cid TEXT NOT NULL,
    byte_count INTEGER NOT NULL, UNIQUE (owner, key, cid));
  CREATE INDEX entries_by_cid ON entries (cid);
  CREATE TABLE vault_version (version INTEGER NOT NULL);
  INSERT INTO vault_version VALUES (1);
  CREATE TABLE vault_pins (revision INTEGER PRIMARY KEY AUTOINCREMENT, cid TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, is_doubtful INTEGER NOT NULL DEFAULT 0, retry_at_seconds INTEGER NOT NULL DEFAULT 0);
  CREATE INDEX vault_pins_open ON vault_pins (retry_at_seconds) WHERE state <> 'pinned';`
const RELAY = `${BLOCKS}
  CREATE TABLE files (cid TEXT NOT NULL, place TEXT NOT NULL, byte_count INTEGER NOT NULL, kept_at INTEGER NOT NULL DEFAULT 0,
    begun_at INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (cid, place)) WITHOUT ROWID;
  CREATE INDEX files_by_time ON files (place, kept_at, begun_at);
  CREATE TABLE totals (bytes INTEGER NOT NULL);
  INSERT INTO totals VALUES (0);
  CREATE TABLE counts (files INTEGER NOT NULL);
  INSERT INTO counts VALUES (0);
  CREATE TRIGGER files_in AFTER INSERT ON files WHEN new.kept_at > 0 BEGIN
    UPDATE totals SET bytes = bytes + new.byte_count;
  END;
  CREATE TRIGGER count_out AFTER DELETE ON files WHEN old.kept_at > 0 BEGIN
    UPDATE counts SET files = files - 1;
  END;`

/** An entry of a vault of before: whose it is, its key, its content. */
export type OldEntry = readonly [did: string, key: string, content: string | Buffer]

/** Opens a new database as a server of before made it. */
function openOld(file: string, tables: string): SqlConnection {
  mkdirSync(dirname(file), { recursive: true })
  const connection = openSqliteConnection(file, chooseSqliteEngine(), { synchronous: 'OFF', busyMilliseconds: 1_000 })
  connection.exec(`BEGIN; ${tables}`)
  return connection
}

function addBlocks(connection: SqlConnection, content: string | Buffer): string {
  const { cid, blocks } = contentOf(Buffer.from(content))
  const put = connection.prepare('INSERT INTO blocks VALUES (?, 1, ?) ON CONFLICT (cid) DO UPDATE SET uses = uses + 1')
  for (const block of blocks) put.run(block.cid, Buffer.from(block.bytes))
  return cid
}

/** Writes a vault of before. @param more - changes that are made to it at the end */
export function oldVault(file: string, entries: readonly OldEntry[], more = ''): void {
  const connection = openOld(file, VAULT)
  const add = connection.prepare(`INSERT INTO entries (owner, key, cid, byte_count)
    SELECT id, ?, ?, ? FROM owners WHERE did = ?`)
  const seen = new Set<string>()
  for (const [did, key, content] of entries) {
    connection.prepare('INSERT OR IGNORE INTO owners (did, byte_count, entry_count) VALUES (?, 0, 0)').run(did)
    const byteCount = Buffer.byteLength(content)
    const { cid } = contentOf(Buffer.from(content))
    if (!seen.has(cid)) addBlocks(connection, content)
    seen.add(cid)
    add.run(key, cid, byteCount, did)
    connection
      .prepare('UPDATE owners SET byte_count = byte_count + ?, entry_count = entry_count + 1 WHERE did = ?')
      .run(byteCount, did)
  }
  connection.exec(`${more}; COMMIT`)
  connection.close()
}

/** Writes a relay of before: files here or on its node, with the time when they were posted; 0: only begun. */
export function oldRelay(
  file: string,
  files: readonly (readonly [content: string | Buffer, place: 'here' | 'node', keptAtSeconds: number])[]
): void {
  const connection = openOld(file, RELAY)
  for (const [content, place, keptAt] of files) {
    const { cid, byteCount } = contentOf(Buffer.from(content))
    if (place === 'here') addBlocks(connection, content)
    connection
      .prepare('INSERT INTO files VALUES (?, ?, ?, ?, ?)')
      .run(cid, place, byteCount, keptAt, keptAt === 0 ? 1 : 0)
  }
  connection.exec('COMMIT')
  connection.close()
}

import type { SqliteFile } from '../shared/content/database.js'
import { StartError } from '../shared/environment/start-error.js'

const VERSION = 1

/**
 * `number` grows with each entry written, and so is their order. What is unique by owner, key and cid is also how the
 * entries of a key are found; the other index tells who still has a content.
 */
const TABLES = `
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
    UNIQUE (owner, key, cid)
  );
  CREATE INDEX IF NOT EXISTS entries_by_cid ON entries (cid);
  CREATE TABLE IF NOT EXISTS vault_version (version INTEGER NOT NULL);
  INSERT INTO vault_version SELECT ${VERSION} WHERE NOT EXISTS (SELECT * FROM vault_version);`

/** Creates the tables of the index where there are none. @throws StartError when a later version made them */
export function createVaultTables(database: SqliteFile): void {
  database.transaction(() => database.exec(TABLES)).immediate()
  const version: unknown = database.prepare('SELECT version FROM vault_version').pluck().get()
  if (version === VERSION) return
  throw new StartError(`The vault's database has tables of version ${String(version)}, this server knows ${VERSION}`)
}

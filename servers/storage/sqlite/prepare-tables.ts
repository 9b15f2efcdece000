import { rollBack, type SqlConnection } from 'express-did-auth/stores/sqlite'
import { StartError } from '../../config/startup-error.js'
import { SCHEMA_VERSION, TABLES } from './schema.js'

/** What a file counts beside its bytes. */
const FILE_OVERHEAD_BYTES = 512

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

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase, type SqliteFile } from '../../servers/shared/content/database.js'
import { truncateLog } from '../../servers/vault/repair/truncate-log.js'
import { temporaryFolder } from '../support/store-folder.js'

const folder = { path: '', remove: (): void => undefined }
let database: SqliteFile
let server: SqliteFile

beforeEach(() => {
  Object.assign(folder, temporaryFolder())
  database = openDatabase(join(folder.path, 'a.db'))
  database.exec('CREATE TABLE a (b); INSERT INTO a VALUES (1)')
  server = openDatabase(join(folder.path, 'a.db'))
})
afterEach(() => {
  server.close()
  database.close()
  folder.remove()
})

const logBytes = (): number => statSync(join(folder.path, 'a.db-wal')).size

describe('the log of changes of a vault', () => {
  it('is emptied at once when nobody reads', async () => {
    expect(logBytes()).toBeGreaterThan(0)
    expect(await truncateLog(database)).toBe(true)
    expect(logBytes()).toBe(0)
  })

  it('is emptied when a reader is done, and a server writes meanwhile', async () => {
    server.exec('BEGIN')
    server.prepare('SELECT * FROM a').get()
    const startedAt = performance.now()
    const truncated = truncateLog(database)
    // One try: SQLite would wait 5 s, and let nobody write.
    expect(performance.now() - startedAt).toBeLessThan(2_000)
    const writer = openDatabase(join(folder.path, 'a.db'))
    writer.pragma('busy_timeout = 0')
    writer.exec('INSERT INTO a VALUES (2)')
    writer.close()
    server.exec('COMMIT')
    expect(await truncated).toBe(true)
    expect(logBytes()).toBe(0)
  })

  it('stays as it is when a reader goes on and on', async () => {
    server.exec('BEGIN')
    server.prepare('SELECT * FROM a').get()
    database.exec('INSERT INTO a VALUES (2)')
    const before = logBytes()
    expect(await truncateLog(database)).toBe(false)
    expect(logBytes()).toBe(before)
    // As patient as it was.
    expect(database.pragma('busy_timeout', { simple: true })).toBe(5_000)
  })
})

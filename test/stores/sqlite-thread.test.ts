import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { Worker } from 'node:worker_threads'
import { prepareFile } from '../../src/stores/sqlite/prepare-tables.js'
import { startSqliteThreads } from '../../src/stores/sqlite/sqlite-thread.js'
import { openThreadDatabase, type ThreadDatabase } from '../../src/stores/sqlite/serve-sqlite.js'
import type { ThreadRole } from '../../src/stores/sqlite/sqlite-thread.js'
import { sqliteDialect, type Dialect } from '../../src/stores/sql/dialect.js'
import { collectVerbs } from '../../src/stores/sql/query.js'
import * as sessionVerbs from '../../src/stores/sql/session-verbs.js'
import * as storeVerbs from '../../src/stores/sql/store-verbs.js'
import { createLaterSteps, createTables } from '../../src/stores/sql/tables.js'
import { engine, sqliteFile, type SqliteFile } from '../support/servers/sqlite-stores.js'
import { startWorker } from '../support/servers/start-sqlite-worker.js'

describe(`the threads of a SQLite store with ${engine}`, () => {
  let files: SqliteFile
  let databaseOf: (role: ThreadRole) => ThreadDatabase
  beforeEach(() => {
    files = sqliteFile()
    const [tables, laterSteps] = [createTables(sqliteDialect), createLaterSteps(sqliteDialect)]
    const opened = prepareFile(files.file, engine, tables, 'did_auth_numbers', laterSteps)
    databaseOf = (role) => ({ ...opened, engine, synchronous: 'FULL', role })
  })
  afterEach(() => files.remove())

  it('wait for the disk, so that acknowledged writes survive a power failure', () => {
    const { connection } = openThreadDatabase(databaseOf('writer'))
    expect(connection.prepare('PRAGMA synchronous').all()).toMatchObject([{ synchronous: 2 }])
    connection.close()
  })

  it('include a reader that cannot write', () => {
    const { connection } = openThreadDatabase(databaseOf('reader'))
    expect(() => connection.exec('DELETE FROM did_auth_numbers')).toThrow('readonly')
    expect(connection.prepare('SELECT count(*) AS n FROM did_auth_numbers').get()).toMatchObject({ n: 4 })
    connection.close()
  })

  it('serve reads while the writer waits for the disk', async () => {
    const silentWriter = new Worker('require("node:worker_threads").parentPort.on("message", () => 0)', { eval: true })
    const start = (role: ThreadRole): Worker =>
      role === 'writer' ? silentWriter : startWorker(new URL('file:///worker.js'), databaseOf(role))
    const threads = startSqliteThreads({ start, verbs: collectVerbs<Dialect>(sessionVerbs, storeVerbs) })
    const writeFailure = threads.run(storeVerbs.ping).catch((error: unknown) => String(error))
    expect(await threads.run(sessionVerbs.findSession, 'https://service.example', 'a')).toBeUndefined()
    await silentWriter.terminate()
    expect(await writeFailure).toContain('has ended')
    await threads.close()
  })
})

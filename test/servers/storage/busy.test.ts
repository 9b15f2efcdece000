import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { chooseSqliteEngine, openSqliteConnection } from '../../../src/stores/sqlite/index.js'
import { entryOf, sqliteFolder, textsOf, type SqliteFolder } from '../../support/content-stores.js'

let files: SqliteFolder
beforeEach(() => {
  files = sqliteFolder()
})
afterEach(() => files.remove())

describe('a content store whose database another process writes to', () => {
  it('reads on, and writes when the other has ended', async () => {
    const store = await files.open()
    await store.writeEntry(entryOf('k', 'a'))
    const other = openSqliteConnection(files.file, chooseSqliteEngine(), {
      synchronous: 'OFF',
      busyMilliseconds: 1_000
    })
    other.exec('BEGIN IMMEDIATE')
    let isWritten = false
    const written = store.writeEntry(entryOf('k', 'b')).then(() => (isWritten = true))
    await new Promise(setImmediate)
    expect(await textsOf(store, 'k')).toEqual(['a'])
    expect(isWritten).toBe(false)
    other.exec('COMMIT')
    other.close()
    await written
    expect(await textsOf(store, 'k')).toEqual(['a', 'b'])
  })

  it('answers 503 after 4 s', async () => {
    const store = await files.open()
    const other = openSqliteConnection(files.file, chooseSqliteEngine(), {
      synchronous: 'OFF',
      busyMilliseconds: 1_000
    })
    other.exec('BEGIN IMMEDIATE')
    await expect(store.writeEntry(entryOf('k', 'b'))).rejects.toMatchObject({ code: 'ERR_STORAGE', status: 503 })
    other.exec('ROLLBACK')
    other.close()
    await store.writeEntry(entryOf('k', 'c'))
    expect(await textsOf(store, 'k')).toEqual(['c'])
  })
})

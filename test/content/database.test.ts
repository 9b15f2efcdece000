import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { join } from 'node:path'
import { freeBytesOf, openDatabase, type SqliteFile } from '../../servers/shared/content/database.js'
import { temporaryFolder } from '../support/store-folder.js'

const folder = { path: '', remove: (): void => undefined }
let database: SqliteFile

beforeEach(() => {
  Object.assign(folder, temporaryFolder())
})
afterEach(() => {
  database.close()
  folder.remove()
})

const pragma = (name: string): unknown => database.pragma(name, { simple: true })

describe('a database of a server', () => {
  it('keeps what is committed over a loss of power, and a log of changes of at most 16 MiB', () => {
    database = openDatabase(join(folder.path, 'a.db'))
    // 2 is FULL.
    expect(['journal_mode', 'synchronous', 'journal_size_limit'].map(pragma)).toEqual(['wal', 2, 16_777_216])
  })

  it('keeps it over the end of the process alone where that is enough', () => {
    database = openDatabase(join(folder.path, 'a.db'), { synchronous: 'NORMAL' })
    expect(pragma('synchronous')).toBe(1)
  })

  it('overwrites what is removed only where it is told so', () => {
    database = openDatabase(join(folder.path, 'a.db'))
    expect(pragma('secure_delete')).toBe(0)
    database.close()
    database = openDatabase(join(folder.path, 'a.db'), { secureDelete: true })
    expect(pragma('secure_delete')).toBe(1)
  })

  it('says how much of it is free', () => {
    database = openDatabase(join(folder.path, 'a.db'))
    database.exec('CREATE TABLE a (bytes BLOB)')
    expect(freeBytesOf(database)).toBe(0)
    database.exec('INSERT INTO a VALUES (zeroblob(1000000)); DELETE FROM a')
    expect(freeBytesOf(database)).toBeGreaterThan(990_000)
    expect(freeBytesOf(database)).toBeLessThan(1_010_000)
  })
})

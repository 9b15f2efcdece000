import { describe } from '@jest/globals'
import { engine, sqliteFile } from '../support/servers/sqlite-stores.js'
import { sqlUpkeepTests } from './sql-upkeep.js'

describe(`a store in SQLite by ${engine}`, () =>
  sqlUpkeepTests(async () => {
    const files = sqliteFile()
    const rows = async (text: string) => files.rows(text)
    return { store: files.store, rows, analyze: async () => undefined, remove: () => files.remove() }
  }))

import { afterAll, describe } from '@jest/globals'
import { postgresTables, type PostgresTables } from '../support/servers/postgres-stores.js'
import { sqlUpkeepTests } from './sql-upkeep.js'

let postgres: PostgresTables | undefined
afterAll(() => postgres?.drop())

describe('a store in PostgreSQL', () =>
  sqlUpkeepTests(async () => {
    const tables = (postgres ??= await postgresTables())
    return { ...tables, remove: () => tables.clear() }
  }))

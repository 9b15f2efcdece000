import { describe } from '@jest/globals'
import { sqliteFolder } from '../../support/servers/content-stores.js'
import { contentRaces } from './content-races.js'

describe('content stores on SQLite', () => {
  contentRaces(sqliteFolder, { sequences: 3, seed: 1, operations: 100, operationsWithFaults: 100, rounds: 4 })
})

import { describe, jest } from '@jest/globals'
import { sqliteFolder } from '../support/content-stores.js'
import { contentStoreContract } from './content-store.js'
import { pinLedgerContract } from './pin-ledger.js'

// Threads, processes and a disk, on a machine that may pause.
jest.setTimeout(120_000)

describe('the ContentStore contract on SQLite', () => {
  contentStoreContract(sqliteFolder)
})

describe('the PinLedger contract on SQLite', () => {
  pinLedgerContract(sqliteFolder)
})

import { describe } from '@jest/globals'
import { sqliteFolder } from '../support/content-stores.js'
import { contentStoreContract } from './content-store.js'
import { pinLedgerContract } from './pin-ledger.js'

describe('the ContentStore contract on SQLite', () => {
  contentStoreContract(sqliteFolder)
})

describe('the PinLedger contract on SQLite', () => {
  pinLedgerContract(sqliteFolder)
})

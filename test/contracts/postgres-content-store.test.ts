import { describe } from '@jest/globals'
import { usePostgresContents } from '../support/postgres-contents.js'
import { contentStoreContract } from './content-store.js'
import { pinLedgerContract } from './pin-ledger.js'

describe('the ContentStore contract on PostgreSQL', () => {
  contentStoreContract(usePostgresContents())
})

describe('the PinLedger contract on PostgreSQL', () => {
  pinLedgerContract(usePostgresContents())
})

import { describe } from '@jest/globals'
import type { ContentFolder } from '../support/servers/content-stores.js'
import { contentInspectionContract } from './content-inspection.js'
import { contentStoreContract } from './content-store.js'
import { pinLedgerContract } from './pin-ledger.js'

/** Tests all contracts of content on one engine. */
export function contentContracts(makeFolder: () => ContentFolder | Promise<ContentFolder>): void {
  describe('the ContentStore contract', () => contentStoreContract(makeFolder))

  describe('the PinLedger contract', () => pinLedgerContract(makeFolder))

  describe('the ContentInspection contract', () => contentInspectionContract(makeFolder))
}

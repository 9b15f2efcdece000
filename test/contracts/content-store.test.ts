import { afterAll, beforeAll, describe } from '@jest/globals'
import { createS3ObjectStore } from '../../servers/content/s3/s3-object-store.js'
import { type FakeS3, startFakeS3 } from '../support/faults/fake-s3.js'
import { contentEngines } from '../support/servers/postgres-contents.js'
import { contentInspectionContract } from './content-inspection.js'
import { contentStoreContract } from './content-store.js'
import { pinLedgerContract } from './pin-ledger.js'
import { createFileObjectStore } from '../../servers/content/files.js'
import { objectStoreContract } from './object-store.js'

describe.each(contentEngines())('on %s', (_engine, make) => {
  describe('the ContentStore contract', () => contentStoreContract(make))

  describe('the PinLedger contract', () => pinLedgerContract(make))

  describe('the ContentInspection contract', () => contentInspectionContract(make))
})

describe('the ObjectStore contract on files', () => objectStoreContract((folder) => createFileObjectStore(folder)))

describe('the ObjectStore contract on S3', () => {
  let s3: FakeS3
  beforeAll(async () => {
    s3 = await startFakeS3()
  })
  afterAll(() => s3.close())
  let stores = 0
  objectStoreContract(() => createS3ObjectStore(s3.options(`store-${(stores += 1)}/`)))
})

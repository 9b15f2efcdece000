import { afterAll, beforeAll, describe } from '@jest/globals'
import { createS3ObjectStore } from '../../servers/content/s3/s3-object-store.js'
import { type FakeS3, startFakeS3 } from '../support/faults/fake-s3.js'
import { sqliteFolder } from '../support/servers/content-stores.js'
import { contentContracts } from './content-contracts.js'
import { createFileObjectStore } from '../../servers/content/files.js'
import { objectStoreContract } from './object-store.js'

describe('on SQLite', () => contentContracts(sqliteFolder))

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

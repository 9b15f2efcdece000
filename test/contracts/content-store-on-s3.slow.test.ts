import { afterAll, beforeAll, describe } from '@jest/globals'
import { createS3ObjectStore } from '../../servers/content/s3/s3-object-store.js'
import { type FakeS3, startFakeS3 } from '../support/faults/fake-s3.js'
import { sqliteFolder } from '../support/servers/content-stores.js'
import { contentStoreContract } from './content-store.js'

describe('on SQLite, with objects on S3, the ContentStore contract', () => {
  let s3: FakeS3
  beforeAll(async () => {
    s3 = await startFakeS3()
  })
  afterAll(() => s3.close())
  let folders = 0
  contentStoreContract(() => sqliteFolder(createS3ObjectStore(s3.options(`folder-${(folders += 1)}/`))))
})

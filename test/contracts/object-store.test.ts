import { afterAll, beforeAll, describe } from '@jest/globals'
import { FileObjectStore } from '../../servers/storage/files/file-object-store.js'
import { S3ObjectStore } from '../../servers/storage/s3/s3-object-store.js'
import { startFakeS3, type FakeS3 } from '../support/fake-s3.js'
import { objectStoreContract } from './object-store.js'

describe('the ObjectStore contract on files', () => {
  objectStoreContract((folder) => new FileObjectStore(folder))
})

describe('the ObjectStore contract on S3', () => {
  let s3: FakeS3
  beforeAll(async () => {
    s3 = await startFakeS3()
  })
  afterAll(() => s3.close())
  let stores = 0
  objectStoreContract(() => new S3ObjectStore(s3.options(`store-${(stores += 1)}/`)))
})

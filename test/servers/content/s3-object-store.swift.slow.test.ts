import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createS3ObjectStore, type S3ObjectStore } from '../../../servers/content/s3/s3-object-store.js'
import { contentStoreContract } from '../../contracts/content-store.js'
import { objectStoreContract } from '../../contracts/object-store.js'
import { createObjectName, listObjectNames, sqliteFolder } from '../../support/servers/content-stores.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { PAGE_LENGTH, startSwift, type SwiftServer } from '../../support/engines/swift-server.js'

let swift: SwiftServer
let stores = 0
const createStore = (): S3ObjectStore => createS3ObjectStore(swift.options(`store-${(stores += 1)}/`))

beforeAll(async () => {
  swift = await startSwift()
})
afterAll(() => swift.stop())

describe('the ObjectStore contract on OpenStack Swift', () => objectStoreContract(createStore))

describe('the ContentStore contract on SQLite, with objects on OpenStack Swift', () =>
  contentStoreContract(() => sqliteFolder(createStore())))

describe('createS3ObjectStore on OpenStack Swift', () => {
  it('lists more than one page', async () => {
    const { path, remove } = temporaryFolder()
    const file = join(path, 'body')
    writeFileSync(file, 'x')
    const store = createStore()
    const names = Array.from({ length: PAGE_LENGTH + 5 }, (_, number) => createObjectName(String(number))).sort()
    for (let start = 0; start < names.length; start += 10)
      await Promise.all(names.slice(start, start + 10).map((name) => store.put(name, file)))
    expect(await listObjectNames(store)).toEqual(names)
    remove()
  })

  it.each([
    ['secret key', { secretAccessKey: 'another' }, 'EACCES', '403 SignatureDoesNotMatch'],
    ['key', { accessKeyId: 'another' }, 'EACCES', '403 SignatureDoesNotMatch'],
    ['bucket', { bucket: 'another' }, 'EIO', '404 NoSuchBucket']
  ])('reports a wrong %s', async (_what, wrong, code, response) => {
    const store = createS3ObjectStore({ ...swift.options('one/'), ...wrong })
    await expect(store.ping()).rejects.toMatchObject({ code, message: `Object storage answered ${response} to GET` })
  })

  // This test is the last one, because the storage does not recover.
  it('reports an outage, and no missing object, when the storage has lost its disks', async () => {
    const store = createStore()
    await swift.stopStorage()
    for (const verb of [
      () => store.ping(),
      () => store.delete('one'),
      () => store.read('one')[Symbol.asyncIterator]().next()
    ])
      await expect(verb()).rejects.toMatchObject({ code: 'EIO', isTemporary: true })
  })
})

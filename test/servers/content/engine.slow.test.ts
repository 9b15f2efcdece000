import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { StartError } from '../../../servers/config/startup-error.js'
import { computeCid, did, createEntry, createLargeBytes, readTexts } from '../../support/servers/content-stores.js'
import { openVault, readStates } from '../../support/servers/content-engine.js'
import { startFakeS3, type FakeS3 } from '../../support/faults/fake-s3.js'
import { testDatabase, type TestDatabase } from '../../support/engines/postgres-server.js'

let database: TestDatabase
let s3: FakeS3
beforeAll(async () => {
  database = await testDatabase()
  s3 = await startFakeS3()
})
afterAll(async () => {
  await database.drop()
  await s3.close()
})

describe('openContentEngine', () => {
  it('uses the database and the bucket of the environment, which another instance shares', async () => {
    const { endpoint, bucket, region, accessKeyId, secretAccessKey } = s3.options()
    const variables = {
      DATABASE_URL: database.url,
      S3_ENDPOINT: endpoint,
      S3_BUCKET: bucket,
      S3_REGION: region,
      S3_ACCESS_KEY_ID: accessKeyId,
      S3_SECRET_ACCESS_KEY: secretAccessKey
    }
    const first = await (await openVault(variables)).open()
    const second = await (await openVault(variables)).open()
    const large = createLargeBytes('x')
    await first.contents.writeEntry(createEntry('k', large))
    await first.contents.writeEntry(createEntry('k', 'small'))
    expect(await readTexts(second.contents, 'k')).toEqual([String(large), 'small'])
    expect(s3.requests.some((request) => request.startsWith(`PUT vault/${computeCid(large)}.`))).toBe(true)
    expect(await readStates(first.dependencies)).toEqual({
      database: [true, 'ok'],
      objects: [true, 'ok'],
      clock: [true, 'ok']
    })
    expect(await second.contents.readUsage(did)).toMatchObject({ entryCount: 2 })
    expect(await first.usedPercent()).toBe(0)
  })

  it('fails with one line if the database is misconfigured', async () => {
    const url = new URL(database.url)
    url.pathname = '/no_such_database'
    url.password = 'hunter2'
    const failure: unknown = await openVault({ DATABASE_URL: url.href }).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(StartError)
    expect(String(failure)).toMatch(/^StartError: Cannot use the database \(DATABASE_URL\): .*no_such_database.*$/)
    expect(String(failure)).not.toContain('hunter2')
  })
})

import { describe, expect, it } from '@jest/globals'
import { readObjectStore } from '../../../../servers/storage/s3/read-object-store.js'
import { startFakeS3 } from '../../../support/fake-s3.js'

const set = {
  S3_ENDPOINT: 'https://s3.example.com',
  S3_BUCKET: 'content',
  S3_ACCESS_KEY_ID: 'AKIDEXAMPLE',
  S3_SECRET_ACCESS_KEY: 'a secret'
}

describe('readObjectStore', () => {
  it('is none where nothing is set', () => {
    expect(readObjectStore({}, 'vault/')).toBeUndefined()
    expect(readObjectStore({ S3_BUCKET: undefined }, 'vault/')).toBeUndefined()
  })

  it('is the store at the endpoint, with the bucket in the path unless it is told otherwise', async () => {
    const s3 = await startFakeS3()
    try {
      const { endpoint, bucket, region, accessKeyId, secretAccessKey } = s3.options()
      const keys = { S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey, S3_REGION: region }
      const store = readObjectStore({ S3_ENDPOINT: `${endpoint}/`, S3_BUCKET: bucket, ...keys }, 'vault/')
      await store?.delete('one')
      expect(s3.requests).toEqual(['DELETE vault/one'])
    } finally {
      await s3.close()
    }
  })

  it('names all that is missing', () => {
    expect(() => readObjectStore({ S3_BUCKET: 'content' }, 'vault/')).toThrow(
      'Object storage: set S3_ENDPOINT, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY as well'
    )
    expect(() => readObjectStore({ ...set, S3_BUCKET: '' }, 'vault/')).toThrow('Object storage: set S3_BUCKET as well')
  })

  it.each([
    ['S3_ENDPOINT', 'ftp://s3.example.com'],
    ['S3_ENDPOINT', 's3.example.com'],
    ['S3_ENDPOINT', 'https://user:password@s3.example.com'],
    ['S3_ENDPOINT', 'https://s3.example.com/?key=1'],
    ['S3_BUCKET', 'Content'],
    ['S3_BUCKET', 'a/b'],
    ['S3_REGION', 'us east'],
    ['S3_ACCESS_KEY_ID', 'a key\n']
  ])('says that %s is wrong, and shows nothing of it: %j', (name, value) => {
    const message = String(failureOf({ ...set, [name]: value }))
    expect(message).toMatch(`StartError: Object storage: ${name}: give`)
    for (const text of [value, 'a secret', 'password']) expect(message).not.toContain(text)
  })

  it('puts no bucket before an IP address', () => {
    for (const S3_ENDPOINT of ['http://127.0.0.1:9000', 'http://[::1]:9000']) {
      expect(String(failureOf({ ...set, S3_ENDPOINT, S3_FORCE_PATH_STYLE: false }))).toContain('S3_FORCE_PATH_STYLE: ')
    }
    expect(readObjectStore({ ...set, S3_FORCE_PATH_STYLE: false }, 'vault/')).toBeDefined()
  })
})

function failureOf(variables: Parameters<typeof readObjectStore>[0]): unknown {
  try {
    return readObjectStore(variables, 'vault/')
  } catch (error) {
    return error
  }
}

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import {
  parseObjectList,
  createS3ObjectStore,
  type S3ObjectStore,
  type S3StoreOptions
} from '../../../servers/content/s3/s3-object-store.js'
import { toStorageError } from '../../../servers/content/storage-error.js'
import {
  createLargeBytes,
  NOW,
  createObjectName,
  listObjectNames,
  sqliteFolder
} from '../../support/servers/content-stores.js'
import { startFakeS3, type FakeS3, type S3Fault } from '../../support/faults/fake-s3.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'

let s3: FakeS3
let folder: string
let file: string
let remove: () => void
let objects: S3ObjectStore
const bytes = createLargeBytes('x', 1_000_000)

beforeAll(async () => {
  s3 = await startFakeS3()
  ;({ path: folder, remove } = temporaryFolder())
  file = join(folder, 'body')
  writeFileSync(file, bytes)
})
afterAll(async () => {
  await s3.close()
  remove()
})
beforeEach(() => {
  objects = createS3ObjectStore(s3.options())
})
afterEach(() => {
  s3.fault = () => undefined
  s3.objects.clear()
  s3.requests.length = 0
})

/** Creates a store with short deadlines and without retries. */
const createImpatientStore = (options: Partial<S3StoreOptions> = {}): S3ObjectStore =>
  createS3ObjectStore({ ...s3.options(), deadlines: { answer: 100, stall: 100, retries: 0 }, ...options })

/** Plays these faults one after the other, and then none. */
function play(...faults: (S3Fault | undefined)[]): void {
  s3.fault = () => faults.shift()
}

const objectName = createObjectName('one')

const verbs = {
  put: (store: S3ObjectStore) => store.put(objectName, file),
  read: (store: S3ObjectStore) => readAll(store, objectName),
  delete: (store: S3ObjectStore) => store.delete(objectName),
  list: (store: S3ObjectStore) => listObjectNames(store),
  ping: (store: S3ObjectStore) => store.ping()
} satisfies Record<string, (store: S3ObjectStore) => Promise<unknown>>
const everyVerb = Object.entries(verbs)

async function readAll(store: S3ObjectStore, name: string): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of store.read(name)) pieces.push(piece)
  return Buffer.concat(pieces)
}

const catchError = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'done',
    (error: unknown) => error
  )

describe('a foreign object below the prefix', () =>
  it('is not listed, and is ignored by the check of stored objects', async () => {
    await objects.put(objectName, file)
    const foreign = ['backup.tar', `${objectName}.old`, `${objectName.slice(0, -16)}0123`, `2024/${objectName}`].map(
      (name) => `vault/${name}`
    )
    for (const key of [...foreign, `other/${objectName}`]) s3.objects.set(key, bytes)
    expect(await listObjectNames(objects)).toEqual([objectName])
    const stored = sqliteFolder(objects)
    const { store, inspection } = await stored.openAll()
    expect(await inspection.checkObjects({ isDryRun: false })).toBe(1)
    await store.collectGarbage(NOW, { isFull: true })
    expect([...s3.objects.keys()]).toEqual([...foreign, `other/${objectName}`])
    await stored.remove()
  }))

describe('a temporary failure', () => {
  const temporaryFaults: S3Fault[] = ['reset', 'done and 500', 'slow down']
  // The length of a pause before a retry is its usual length multiplied by this number plus 0.5.
  beforeEach(() => void jest.spyOn(Math, 'random').mockReturnValue(-0.5))
  afterEach(() => void jest.restoreAllMocks())

  it.each(everyVerb.flatMap(([verb]) => temporaryFaults.map((fault) => [verb, fault] as const)))(
    'is retried during %s if the storage fails twice with "%s"',
    async (verb, fault) => {
      await objects.put(objectName, file)
      play(fault, fault)
      await verbs[verb as keyof typeof verbs](objects)
      s3.fault = () => undefined
      expect(await listObjectNames(objects)).toEqual(verb === 'delete' ? [] : [objectName])
    }
  )

  it.each(everyVerb)('is an error the third time: %s', async (_verb, run) => {
    s3.objects.set(`vault/${objectName}`, bytes)
    play('reset', 'reset', 'reset')
    expect(await catchError(run(objects))).toMatchObject({ name: 'S3Error', code: 'EIO' })
    expect(s3.requests).toHaveLength(3)
  })

  it('is retried from the beginning if it cut an upload', async () => {
    play('cut', 'cut')
    await objects.put(objectName, file)
    expect(s3.objects.get(`vault/${objectName}`)?.equals(bytes)).toBe(true)
  })

  it('is not retried if the storage asks for a longer wait', async () => {
    s3.retryAfterSeconds = 60
    play('slow down')
    const error = await catchError(objects.put(objectName, file))
    s3.retryAfterSeconds = 0
    expect(error).toMatchObject({ message: 'Object storage answered 503 SlowDown to PUT', retryAfterSeconds: 60 })
    expect(toStorageError(error)).toMatchObject({ code: 'ERR_STORAGE', status: 503, retryAfterSeconds: 60 })
    expect(s3.requests).toEqual([`PUT vault/${objectName}`, 'PUT SlowDown'])
  })

  it('is retried after the wait that the storage asks for', async () => {
    s3.retryAfterSeconds = 1
    play('slow down')
    const start = performance.now()
    await objects.ping()
    s3.retryAfterSeconds = 0
    expect(performance.now() - start).toBeGreaterThan(1_000)
  })
})

describe('unavailable storage', () => {
  it.each(everyVerb)('is an error if it refuses connections: %s', async (_verb, run) => {
    await s3.refuse()
    try {
      const error = await catchError(run(objects))
      expect(error).toMatchObject({ code: 'EIO', cause: { code: 'ECONNREFUSED' } })
      expect(toStorageError(error)).toMatchObject({ code: 'ERR_STORAGE', status: 503 })
    } finally {
      await s3.listen()
    }
  })

  it.each(everyVerb)('is an error if it is silent: %s', async (_verb, run) => {
    play('silent')
    expect(await catchError(run(createImpatientStore()))).toMatchObject({ code: 'EIO', cause: { name: 'AbortError' } })
  })

  it.each(['read', 'list'] as const)('is an error if it stops in the middle: %s', async (verb) => {
    s3.objects.set(`vault/${objectName}`, bytes)
    play('stall', 'silent')
    expect(await catchError(verbs[verb](createImpatientStore()))).toMatchObject({
      code: 'EIO',
      cause: { name: 'AbortError' }
    })
  })

  it('is no error if it is slow but continues', async () => {
    s3.objects.set(`vault/${objectName}`, bytes)
    s3.fault = () => 'slow'
    expect((await readAll(objects, objectName)).equals(bytes)).toBe(true)
  })
})

describe('an object whose connection breaks during a read', () => {
  it('is read on from the break while each connection delivers bytes', async () => {
    s3.objects.set(`vault/${objectName}`, bytes)
    play('cut', 'cut', 'cut', 'cut', 'cut')
    expect((await readAll(objects, objectName)).equals(bytes)).toBe(true)
    expect(s3.requests).toHaveLength(6)
  })

  it('is ENOENT if it was deleted in between', async () => {
    s3.objects.set(`vault/${objectName}`, bytes)
    s3.fault = () => {
      if (s3.requests.length > 1) s3.objects.delete(`vault/${objectName}`)
      return 'cut'
    }
    expect(await catchError(readAll(objects, objectName))).toMatchObject({ code: 'ENOENT' })
  })

  it('is an error if the storage ignores the range', async () => {
    s3.objects.set(`vault/${objectName}`, bytes)
    play('cut', 'no range')
    expect(await catchError(readAll(objects, objectName))).toMatchObject({
      code: 'EIO',
      message: 'Object storage answered 200 to GET'
    })
  })

  it('is an error if no further bytes arrive', async () => {
    s3.objects.set(`vault/${objectName}`, bytes)
    play('cut', 'reset', 'reset', 'reset')
    expect(await catchError(readAll(objects, objectName))).toMatchObject({ code: 'EIO' })
  })
})

describe('a request that the storage refuses', () => {
  it.each([
    ['wrong secret key', { secretAccessKey: 'another' }, 'EACCES', '403 SignatureDoesNotMatch'],
    ['unknown key', { accessKeyId: 'another' }, 'EACCES', '403 InvalidAccessKeyId'],
    ['wrong region', { region: 'another' }, 'EACCES', '403 AuthorizationHeaderMalformed'],
    ['missing bucket', { bucket: 'another' }, 'EIO', '404 NoSuchBucket']
  ])('is reported in one line, and not retried: %s', async (_what, wrong, code, response) => {
    const store = createS3ObjectStore({ ...s3.options(), ...wrong })
    for (const [verb, run] of everyVerb) {
      const method = verb === 'put' ? 'PUT' : verb === 'delete' ? 'DELETE' : 'GET'
      const error = await catchError(run(store))
      expect(error).toMatchObject({ code, message: `Object storage answered ${response} to ${method}` })
      expect(toStorageError(error)).toMatchObject({ code: 'ERR_STORAGE', status: 503 })
    }
    expect(s3.requests).toHaveLength(2 * everyVerb.length)
  })

  it('is ERR_STORAGE_FULL if space is lacking', async () => {
    s3.fault = () => 'full'
    const error = await catchError(objects.put(objectName, file))
    expect(error).toMatchObject({ code: 'ENOSPC' })
    expect(toStorageError(error)).toMatchObject({ code: 'ERR_STORAGE_FULL', status: 507 })
  })

  it('is not reported as missing content if a proxy or a missing bucket answers 404', async () => {
    s3.objects.set(`vault/${objectName}`, bytes)
    for (const fault of ['proxy 404', 'no bucket'] as const) {
      play(fault)
      expect(await catchError(readAll(objects, objectName))).toMatchObject({ code: 'EIO' })
    }
  })

  it('shows no key and no part of a signature', async () => {
    const { accessKeyId, secretAccessKey } = s3.options()
    for (const fault of ['silent', 'denied', 'no bucket', 'full', 'proxy 404'] as const) {
      s3.fault = () => fault
      const printed = inspect(await catchError(createImpatientStore().put(objectName, file)), {
        depth: 10,
        showHidden: true
      })
      for (const secret of [accessKeyId, secretAccessKey, 'AWS4', 'Signature']) expect(printed).not.toContain(secret)
    }
  })
})

describe('a list of objects', () => {
  it('contains all pages', async () => {
    s3.pageLength = 3
    const names = Array.from({ length: 10 }, (_, number) => createObjectName(String(number))).sort()
    for (const name of names) s3.objects.set(`vault/${name}`, bytes)
    expect(await listObjectNames(objects)).toEqual(names)
    s3.pageLength = 1_000
    expect(s3.requests).toHaveLength(4)
  })

  it('contains only objects below its prefix, and no foreign names', async () => {
    const foreignKeys = [
      'vault/a&b<c>"d" é\'',
      'vault/backup.tar',
      `vault/another/${objectName}`,
      `vault/${objectName}0`,
      `vault/x${objectName}`
    ]
    for (const key of [`vault/${objectName}`, ...foreignKeys, `relay/${objectName}`, `vault${objectName}`, objectName])
      s3.objects.set(key, bytes)
    expect(await listObjectNames(objects)).toEqual([objectName])
  })

  it('is an error if it was cut, and never a shorter list', async () => {
    s3.objects.set(`vault/${objectName}`, bytes)
    s3.fault = () => 'cut'
    expect(await catchError(listObjectNames(objects))).toMatchObject({ code: 'EIO' })
  })
})

const createList = (content: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${content}</ListBucketResult>\n`
const last = '<IsTruncated>false</IsTruncated>'
const createObject = (key: string): string => `<Contents><Key>${key}</Key><Size>5</Size></Contents>`

describe('parseObjectList', () => {
  it('reads keys and the token of the next page, in any order', () => {
    const head = '<Name>content</Name><Prefix>vault/</Prefix><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>'
    const owner = '<Contents><Owner><ID>1</ID></Owner><Key>vault/b</Key></Contents>'
    const text = createList(
      `${head}${createObject('vault/a')}${owner}<NextContinuationToken>t+/=&amp;</NextContinuationToken>`
    )
    expect(parseObjectList(text)).toEqual({ keys: ['vault/a', 'vault/b'], continuationToken: 't+/=&' })
  })

  it('reads an empty list, with spaces around elements', () =>
    expect(parseObjectList(createList(`\n  ${last}\n`))).toEqual({ keys: [] }))

  it('decodes entities once', () =>
    expect(
      parseObjectList(createList(last + createObject('&lt;&gt;&quot;&apos;&amp;lt;&#233;&#xE9;&#x1F4A5;'))).keys
    ).toEqual(['<>"\'&lt;éé💥']))

  it.each([
    ['an empty text', ''],
    ['an HTML page', '<html></html>'],
    ['another answer', '<Error><Code>SlowDown</Code></Error>'],
    ['a list that was cut', createList(last + createObject('a')).slice(0, -5)],
    ['an object without end', createList(`${last}<Contents><Key>a</Key>`)],
    ['an object without key', createList(`${last}<Contents><Size>5</Size></Contents>`)],
    ['an empty key', createList(last + createObject(''))],
    ['two keys', createList(last + createObject('a</Key><Key>b'))],
    ['elements in a key', createList(last + createObject('<b>a</b>'))],
    ['no IsTruncated', createList(createObject('a'))],
    ['an invalid IsTruncated', createList('<IsTruncated>maybe</IsTruncated>')],
    ['IsTruncated without a token', createList('<IsTruncated>true</IsTruncated>')],
    ['a comment', createList(`${last}<!-- ${createObject('a')} -->`)],
    ['CDATA', createList(last + createObject('<![CDATA[a]]>'))],
    ['an unknown entity', createList(last + createObject('&own;'))],
    ['an entity without end', createList(last + createObject('a&amp'))],
    ['an invalid character', createList(last + createObject('&#x110000;'))]
  ])('refuses %s', (_what, text) =>
    expect(() => parseObjectList(text)).toThrow('The response of the object storage is no list of objects')
  )
})

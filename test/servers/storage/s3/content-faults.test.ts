import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { S3ObjectStore } from '../../../../servers/storage/s3/s3-object-store.js'
import { leaksOf } from '../../../support/content-crashes.js'
import {
  cidOf,
  did,
  entryOf,
  largeBytes,
  objectNames,
  sqliteFolder,
  textOf,
  textsOf,
  type SqliteFolder,
  type TestStore
} from '../../../support/content-stores.js'
import { startFakeS3, type FakeS3, type S3Fault } from '../../../support/fake-s3.js'

/** Sequences of 40 operations. */
const RUNS = Number(process.env.TEST_MODEL_RUNS ?? 5)
const KEYS = ['a', 'b']
const TEXTS = ['one', 'two', 'three'].map((name) => String(largeBytes(name, 300_000)))
const LASTING: S3Fault[] = ['reset', 'silent', 'cut', 'done and 500', 'no bucket', 'full']

let s3: FakeS3
let files: SqliteFolder
let store: TestStore
/** Its object store gives up early. */
let impatient: TestStore
let folders = 0
const place = { did, key: 'a' }
const [large = '', other = ''] = TEXTS

beforeAll(async () => {
  s3 = await startFakeS3()
})
afterAll(() => s3.close())
beforeEach(async () => {
  const options = s3.options(`folder-${(folders += 1)}/`)
  files = sqliteFolder(new S3ObjectStore(options))
  store = await files.open()
  const deadlines = { answer: 300, stall: 300, retries: 0 }
  impatient = await files.open({ objects: new S3ObjectStore({ ...options, deadlines }) })
})
afterEach(async () => {
  s3.fault = () => undefined
  await files.remove()
})

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'done',
    (error: unknown) => (error as { code?: unknown }).code
  )

/** What is left behind once nothing fails any more, and each unfinished upload is garbage. */
const leaks = async (): Promise<string[]> => {
  s3.fault = () => undefined
  return leaksOf(files, store)
}

describe('content whose storage answers 500 after it stored', () => {
  it('is not there, and its object is garbage until the collector deletes it', async () => {
    s3.fault = ({ method }) => (method === 'PUT' ? 'done and 500' : undefined)
    await expect(store.writeEntry(entryOf('a', large))).rejects.toMatchObject({ code: 'ERR_STORAGE', status: 503 })
    expect(await textsOf(store, 'a')).toEqual([])
    expect(await objectNames(files.objects)).toHaveLength(1)
    await store.collectGarbage(files.clocks.seconds)
    expect(await objectNames(files.objects)).toHaveLength(1)
    expect(await leaks()).toEqual([])
    expect(await objectNames(files.objects)).toEqual([])
  })

  it('is stored under another name when it is written again', async () => {
    s3.fault = ({ method }) => (method === 'PUT' ? 'done and 500' : undefined)
    await expect(store.writeEntry(entryOf('a', large))).rejects.toMatchObject({ code: 'ERR_STORAGE' })
    s3.fault = () => undefined
    await store.writeEntry(entryOf('a', large))
    expect(await objectNames(files.objects)).toHaveLength(2)
    expect(await leaks()).toEqual([])
    expect(await textsOf(store, 'a')).toEqual([large])
    expect(await objectNames(files.objects)).toHaveLength(1)
  })

  it('is stored where it answers so once', async () => {
    const faults: S3Fault[] = ['done and 500']
    s3.fault = () => faults.shift()
    await store.writeEntry(entryOf('a', large))
    expect(await textsOf(store, 'a')).toEqual([large])
    expect(await leaks()).toEqual([])
  })
})

describe.each(LASTING)('while the storage plays "%s"', (fault) => {
  const expected = fault === 'full' ? 'ERR_STORAGE_FULL' : 'ERR_STORAGE'
  beforeEach(async () => {
    await store.writeEntry(entryOf('a', large))
  })

  it('a write of large content is refused and changes nothing, and that of small content is stored', async () => {
    s3.fault = () => fault
    expect(await codeOf(impatient.writeEntry(entryOf('a', other, { replaces: 'all' })))).toBe(expected)
    await impatient.writeEntry(entryOf('b', 'small'))
    expect(await textsOf(impatient, 'b')).toEqual(['small'])
    s3.fault = () => undefined
    expect(await textsOf(store, 'a')).toEqual([large])
    expect(await leaks()).toEqual([])
  })

  it('large content is read or refused, and is not taken for lost', async () => {
    s3.fault = () => fault
    const [content] = await impatient.readContents([cidOf(large)])
    // Each connection that is cut brings half of what is left.
    expect(await codeOf(textOf(content))).toBe(fault === 'cut' ? 'done' : expected)
  })

  it('content is removed, and its object as soon as that works again', async () => {
    s3.fault = () => fault
    await impatient.removeEntries(place)
    expect(await codeOf(impatient.collectGarbage(files.clocks.seconds, { isFull: true }))).not.toBe('done')
    expect(await textsOf(store, 'a')).toEqual([])
    s3.fault = () => undefined
    await store.collectGarbage(files.clocks.seconds, { isFull: true })
    expect(await objectNames(files.objects)).toEqual([])
    expect(await leaks()).toEqual([])
  })
})

describe('wrong bytes from the storage', () => {
  it('are never handed out', async () => {
    await store.writeEntry(entryOf('a', large))
    s3.fault = ({ method }) => (method === 'GET' ? 'wrong bytes' : undefined)
    const [content] = await store.readContents([cidOf(large)])
    await expect(content?.bytes()).rejects.toMatchObject({ code: 'ERR_CONTENT_MISSING', status: 502 })
  })
})

describe('content stores on one bucket that fails at any moment', () => {
  /** Half of the requests fail. */
  const faults = fc.option(fc.constantFrom<S3Fault>('reset', 'slow', 'cut', 'done and 500', 'slow down', 'silent'), {
    nil: undefined,
    freq: 1
  })
  const operations = fc.array(
    fc.record({
      verb: fc.constantFrom('write', 'write', 'write', 'remove', 'collect', 'read'),
      key: fc.constantFrom(...KEYS),
      text: fc.constantFrom(...TEXTS),
      faults: fc.array(faults, { minLength: 4, maxLength: 4 })
    }),
    { minLength: 40, maxLength: 40 }
  )

  it('lose nothing that was acknowledged, hand out nothing else, and leave nothing behind', async () => {
    const property = fc.asyncProperty(operations, async (sequence) => {
      // What each key may have: one list, or two while it is unknown whether a write happened.
      const possible = new Map(KEYS.map((key) => [key, ['']]))
      for (const key of KEYS) await store.removeEntries({ did, key })
      for (const { verb, key, text, faults: coming } of sequence) {
        const queue = [...coming]
        s3.fault = () => queue.shift()
        const before = possible.get(key) ?? []
        if (verb === 'collect') await codeOf(impatient.collectGarbage(files.clocks.seconds, { isFull: true }))
        if (verb === 'read') {
          const read = await textsOf(impatient, key).catch((error: unknown) => error)
          if (Array.isArray(read)) expect(before).toContain(read.join())
          else expect(read).toMatchObject({ code: 'ERR_STORAGE' })
        }
        if (verb === 'remove') {
          await impatient.removeEntries({ did, key })
          possible.set(key, [''])
        }
        if (verb === 'write') {
          const outcome = await codeOf(impatient.writeEntry(entryOf(key, text, { replaces: 'all' })))
          expect(['done', 'ERR_STORAGE']).toContain(outcome)
          possible.set(key, outcome === 'done' ? [text] : [...before, text])
        }
      }
      s3.fault = () => undefined
      for (const key of KEYS) expect(possible.get(key)).toContain((await textsOf(store, key)).join())
      expect(await leaks()).toEqual([])
    })
    await fc.assert(property, { numRuns: RUNS })
  })
})

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { createS3ObjectStore } from '../../../servers/content/s3/s3-object-store.js'
import {
  computeCid,
  did,
  createEntry,
  createLargeBytes,
  sqliteFolder,
  readTexts,
  type SqliteFolder,
  type TestStore
} from '../../support/servers/content-stores.js'
import { startFakeS3, type FakeS3, type S3Fault } from '../../support/faults/fake-s3.js'

const KEYS = ['a', 'b']
const TEXTS = ['one', 'two', 'three'].map((name) => String(createLargeBytes(name, 300_000)))

/** Expected codes. ERR_CONTENT_MISSING is none of them, because unreadable content is not lost. */
const REFUSALS = ['ERR_STORAGE', 'ERR_STORAGE_FULL']

const catchCode = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'done',
    (error: unknown) => (error as { code?: unknown }).code
  )

/** How many random sequences run. */
export interface FaultSequences {
  readonly runs: number
  /** Number of operations of each sequence. */
  readonly length: number
  /** Default: random. */
  readonly seed?: number
}

/** Tests content stores on one bucket that fails at any moment. */
export function s3ContentFaults({ runs, length, seed }: FaultSequences): void {
  let s3: FakeS3
  let files: SqliteFolder
  let store: TestStore
  /** Store whose object store times out early. */
  let impatientStore: TestStore
  let folders = 0

  beforeAll(async () => {
    s3 = await startFakeS3()
  })
  afterAll(() => s3.close())
  beforeEach(async () => {
    const options = s3.options(`folder-${(folders += 1)}/`)
    files = sqliteFolder(createS3ObjectStore(options))
    store = await files.open()
    const deadlines = { answer: 300, stall: 300, retries: 0 }
    impatientStore = await files.open({ objects: createS3ObjectStore({ ...options, deadlines }) })
  })
  afterEach(async () => {
    s3.fault = () => undefined
    await files.remove()
  })

  describe('wrong bytes from the object storage', () =>
    it('are never returned', async () => {
      const [large = ''] = TEXTS
      await store.writeEntry(createEntry('a', large))
      s3.fault = ({ method }) => (method === 'GET' ? 'wrong bytes' : undefined)
      const [content] = await store.readContents([computeCid(large)])
      await expect(content?.bytes()).rejects.toMatchObject({ code: 'ERR_CONTENT_MISSING', status: 502 })
    }))

  describe('content stores on one bucket that fails at any moment', () => {
    /** Half of the requests fail. */
    const faults = fc.option(
      fc.constantFrom<S3Fault>('reset', 'slow', 'cut', 'done and 500', 'slow down', 'silent', 'no bucket', 'full'),
      { nil: undefined, freq: 1 }
    )
    const operations = fc.array(
      fc.record({
        verb: fc.constantFrom('write', 'write', 'write', 'remove', 'collect', 'read'),
        key: fc.constantFrom(...KEYS),
        text: fc.constantFrom(...TEXTS),
        faults: fc.array(faults, { minLength: 4, maxLength: 4 })
      }),
      { minLength: length, maxLength: length }
    )

    it('lose nothing that was acknowledged, return nothing else, and leave nothing behind', async () => {
      const property = fc.asyncProperty(operations, async (sequence) => {
        // The possible lists of each key. It has several while the outcome of a write is unknown.
        const possible = new Map(KEYS.map((key) => [key, ['']]))
        for (const key of KEYS) await store.removeEntries({ did, key })
        for (const { verb, key, text, faults: upcomingFaults } of sequence) {
          const queue = [...upcomingFaults]
          s3.fault = () => queue.shift()
          const before = possible.get(key) ?? []
          if (verb === 'collect') await catchCode(impatientStore.collectGarbage(files.clocks.seconds, { isFull: true }))
          if (verb === 'read') {
            const read = await readTexts(impatientStore, key).catch((error: unknown) => error)
            if (Array.isArray(read)) expect(before).toContain(read.join())
            else expect(REFUSALS).toContain((read as { code?: unknown }).code)
          }
          if (verb === 'remove') {
            await impatientStore.removeEntries({ did, key })
            possible.set(key, [''])
          }
          if (verb === 'write') {
            const outcome = await catchCode(impatientStore.writeEntry(createEntry(key, text, { replaces: 'all' })))
            expect(['done', ...REFUSALS]).toContain(outcome)
            possible.set(key, outcome === 'done' ? [text] : [...before, text])
          }
        }
        s3.fault = () => undefined
        for (const key of KEYS) expect(possible.get(key)).toContain((await readTexts(store, key)).join())
        expect(await files.leaks(store)).toEqual([])
      })
      await fc.assert(property, { numRuns: runs, ...(seed !== undefined && { seed }) })
    })
  })
}

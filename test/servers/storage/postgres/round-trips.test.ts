import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { cidOf, did, entryOf, fileOf, largeBytes, textsOf, type TestStore } from '../../../support/content-stores.js'
import { usePostgresContents, type PostgresContents } from '../../../support/postgres-contents.js'
import { watchedPool, type WatchedPool } from '../../../support/watched-pool.js'

const make = usePostgresContents()
let files: PostgresContents
let pool: WatchedPool
let store: TestStore
beforeEach(async () => {
  files = await make()
  pool = watchedPool(files.url)
  store = await files.open({ source: pool, tracksPins: true })
})
afterEach(async () => {
  await pool.end()
  await files.remove()
})

const place = { did, key: 'k' }
const large = largeBytes('large')

/** Statements and round trips of a verb, for a user who is known already. */
async function costOf(verb: () => Promise<unknown>): Promise<[statements: number, trips: number]> {
  await store.writeEntry(entryOf('other', 'of the user'))
  pool.reset()
  await verb()
  return [pool.sent.length, pool.trips]
}

describe('statements and round trips', () => {
  it.each([
    ['a write', () => store.writeEntry(entryOf('k', 'a')), 9, 3],
    ['a write that replaces nothing of a list', () => store.writeEntry(entryOf('k', 'a', { replaces: 'all' })), 9, 3],
    ['a list', () => store.listEntries(place), 1, 1],
    ['a description', () => store.describeList(place), 1, 1],
    ['contents of a hundred entries', () => store.readContents(Array.from({ length: 100 }, () => cidOf('a'))), 1, 1],
    ['a claim of pins', () => store.claim({ limit: 20, nowSeconds: 0, leaseSeconds: 30 }), 1, 1],
    ['a file that is found', () => store.findFile(cidOf('a'), 0), 1, 1]
  ])('of %s', async (_what, verb, statements, trips) => {
    expect(await costOf(verb)).toEqual([statements, trips])
  })

  it('of a replacement and of a removal are those of one transaction, which deletes what is unreferenced', async () => {
    await store.writeEntry(entryOf('k', 'a'))
    expect(await costOf(() => store.writeEntry(entryOf('k', 'b', { replaces: 'all' })))).toEqual([10, 3])
    expect(await costOf(() => store.removeEntries(place))).toEqual([7, 3])
  })

  it('of a post, beside the sum of all files that is read every 10 s', async () => {
    await store.writeFile(fileOf('a'))
    expect(await costOf(() => store.writeFile(fileOf('b')))).toEqual([8, 3])
  })
})

describe('a write whose answer is lost', () => {
  it.each([['a'], [large]])('is made once more, and is there once', async (content) => {
    pool.loseAnswerTo = 'COMMIT'
    const { etag } = await store.writeEntry(entryOf('k', content))
    expect(pool.loseAnswerTo).toBeUndefined()
    expect((await store.listEntries(place)).etag).toBe(etag)
    expect(await store.usageOf(did)).toEqual({ byteCount: content.length, entryCount: 1 })
    expect(await files.leaks(store)).toEqual([])
    expect(await textsOf(store, 'k')).toEqual([content.toString()])
  })

  it('with a condition is an error, since its condition may hold no more', async () => {
    pool.loseAnswerTo = 'COMMIT'
    const failure = { code: 'ERR_STORAGE', status: 503 }
    await expect(store.writeEntry(entryOf('k', 'a', { ifNoneMatch: '*' }))).rejects.toMatchObject(failure)
    expect(await textsOf(store, 'k')).toEqual(['a'])
  })

  it('that posts a file charges its user once', async () => {
    const bounds = { maxStoreBytes: 1_000_000, maxBytesPerDid: 10, slotSeconds: 100 }
    pool.loseAnswerTo = 'COMMIT'
    await store.writeFile(fileOf('12345', { bounds }))
    expect(pool.loseAnswerTo).toBeUndefined()
    await store.writeFile(fileOf('67890', { bounds }))
  })
})

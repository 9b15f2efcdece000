import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { ContentModel, operations } from '../../support/content-model.js'
import { NOW, objectNames, sqliteFolder, type ContentFolder } from '../../support/content-stores.js'
import { usePostgresContents } from '../../support/postgres-contents.js'

/** Sequences of 30 operations. */
const RUNS = Number(process.env.TEST_MODEL_RUNS ?? 10)

const engines: [name: string, make: () => ContentFolder | Promise<ContentFolder>][] = [
  ['on one folder', sqliteFolder],
  ['on one database of PostgreSQL', usePostgresContents()]
]

describe.each(engines)('two content stores %s', (_name, make) => {
  let files: ContentFolder
  beforeEach(async () => {
    files = await make()
  })
  afterEach(() => files.remove())

  it('hold what the model says after any sequence of verbs, and as many objects', async () => {
    const stores = [await files.open(), await files.open()]
    const property = fc.asyncProperty(operations, async (sequence) => {
      const model = new ContentModel(stores)
      for (const did of ['did:ethr:rsk:0xa', 'did:ethr:rsk:0xb'])
        for (const key of ['a', 'ключ']) await stores[0]!.removeEntries({ did, key })
      for (const operation of sequence) expect(await model.apply(operation)).toEqual([])
      await stores[0]!.collectGarbage(NOW, { isFull: true })
      const cids = (await objectNames(files.objects)).map((name) => name.slice(0, name.indexOf('.')))
      expect(cids).toEqual([...model.largeContents()].sort())
    })
    await fc.assert(property, { numRuns: RUNS })
  })
})

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { ContentModel, operations } from '../../support/content-model.js'
import { NOW, objectNames, sqliteFolder, type SqliteFolder } from '../../support/content-stores.js'

/** Sequences of 30 operations. */
const RUNS = Number(process.env.TEST_MODEL_RUNS ?? 10)

let files: SqliteFolder
beforeEach(() => {
  files = sqliteFolder()
})
afterEach(() => files.remove())

describe('two content stores on one folder', () => {
  it('hold what the model says after any sequence of verbs, and as many objects', async () => {
    const stores = [await files.open(), await files.open()]
    const property = fc.asyncProperty(operations, async (sequence) => {
      const model = new ContentModel(stores)
      for (const did of ['did:ethr:rsk:0xa', 'did:ethr:rsk:0xb'])
        for (const key of ['a', 'ключ']) await stores[0]!.removeEntries({ did, key })
      for (const operation of sequence) expect(await model.apply(operation)).toEqual([])
      await stores[0]!.collectGarbage(NOW)
      const cids = (await objectNames(files.objects)).map((name) => name.slice(0, name.indexOf('.')))
      expect(cids).toEqual([...model.largeContents()].sort())
    })
    await fc.assert(property, { numRuns: RUNS })
  })
})

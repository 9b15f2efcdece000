import { afterEach, describe, expect, it } from '@jest/globals'
import type { ObjectStore } from '../../../servers/content/content-store.js'
import { createEntry, createLargeBytes, readTexts, sqliteFolder } from '../../support/servers/content-stores.js'

const files = sqliteFolder()
afterEach(() => files.remove())

describe('an upload that a collector has abandoned', () => {
  it('leaves no object if the collector deletes it before it exists, and forgets its name afterwards', async () => {
    let continueCollecting = (): void => undefined
    const isWritten = new Promise<void>((resolve) => (continueCollecting = resolve))
    let noteDeletion = (): void => undefined
    const isDeleted = new Promise<void>((resolve) => (noteDeletion = resolve))
    const slowlyDeleted: ObjectStore = {
      ...files.objects,
      delete: async (name, options) => {
        await files.objects.delete(name, options)
        noteDeletion()
        await isWritten
      }
    }
    const collector = await files.open({ objects: slowlyDeleted })
    let collecting: Promise<void> | undefined
    const lateUpload: ObjectStore = {
      ...files.objects,
      put: async (name, file) => {
        if (collecting === undefined) {
          files.clocks.advance(20_000)
          collecting = collector.collectGarbage(files.clocks.seconds)
          await isDeleted
        }
        await files.objects.put(name, file)
      }
    }
    const writer = await files.open({ objects: lateUpload })
    const bytes = createLargeBytes('content ', 100_000)
    await writer.writeEntry(createEntry('key', bytes, { replaces: 'all' }))
    continueCollecting()
    await collecting
    expect(await readTexts(writer, 'key')).toHaveLength(1)
    expect(await files.leaks(writer)).toEqual([])
  })
})

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { createS3ObjectStore, type S3ObjectStore } from '../../../servers/content/s3/s3-object-store.js'
import { startFakeS3, type FakeS3 } from '../../support/faults/fake-s3.js'
import { until } from '../../support/fixtures/until.js'
import { createLargeBytes } from '../../support/servers/content-stores.js'

let s3: FakeS3
let objects: S3ObjectStore
beforeAll(async () => {
  s3 = await startFakeS3()
  objects = createS3ObjectStore(s3.options())
})
afterAll(() => s3.close())

describe('a slow reader of large objects', () => {
  it('applies backpressure: memory holds little more than one piece of each object', async () => {
    const [count, byteCount] = [20, 8_388_608]
    const large = createLargeBytes('y', byteCount)
    s3.objects.set('vault/large', large)
    s3.sentBytes = 0
    const before = process.memoryUsage().arrayBuffers
    const readers = Array.from({ length: count }, () => objects.read('large')[Symbol.asyncIterator]())
    for (const reader of readers) expect((await reader.next()).value).toHaveLength(262_144)
    // Waits until the buffers of the unread connections are full.
    let sentBefore = -1
    await until(async () => {
      const [lastPage, now] = [sentBefore, s3.sentBytes]
      sentBefore = now
      await new Promise((resolve) => setTimeout(resolve, 200))
      return lastPage === now && now === s3.sentBytes
    })
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(count * 1_500_000)
    for (const reader of readers) await reader.return?.()
  })
})

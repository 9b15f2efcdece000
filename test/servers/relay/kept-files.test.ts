import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../../support/relay-app.js'
import { walletOf } from '../../support/wallet.js'

const wallet = walletOf(1)
const WEEK_SECONDS = 7 * 86_400

/** In a row, in an object that is cached, and in one that is streamed. */
const files = ['hello', 'b'.repeat(500_000), 'c\n'.repeat(400_000)]

let relay: TestRelay

afterEach(() => relay.end())

async function posted(file: string): Promise<string> {
  const { status, body } = await postFile(relay, await logIn(relay, wallet), file)
  expect(status).toBe(200)
  return body.cid
}

async function fetched(cid: string, from = relay): Promise<unknown> {
  const { status, body } = await getFile(from, await logIn(from, wallet), cid)
  return status === 200 ? body.file : status
}

describe('a posted file', () => {
  it('is found after a restart', async () => {
    relay = await startTestRelay()
    const cids = [await posted(files[0]!), await posted(files[1]!), await posted(files[2]!)]
    await relay.restart()
    for (const [index, cid] of cids.entries()) expect((await fetched(cid)) === files[index]).toBe(true)
  })

  it('is found by another relay on the same folder', async () => {
    relay = await startTestRelay()
    const other = await startTestRelay({}, { folder: relay.folder, clock: relay.clock })
    for (const file of files) expect((await fetched(await posted(file), other)) === file).toBe(true)
    await other.end()
  })
})

describe('RELAY_FILE_TTL_SECONDS', () => {
  beforeEach(async () => {
    relay = await startTestRelay()
  })

  it('is 7 days by default, from the last post on, also for what is in memory', async () => {
    const [once, twice] = [await posted('once'), await posted('twice')]
    relay.clock.seconds += WEEK_SECONDS - 1
    expect([await fetched(once), await fetched(twice)]).toEqual(['once', 'twice'])
    expect(await posted('twice')).toBe(twice)
    relay.clock.seconds += 1
    expect([await fetched(once), await fetched(twice)]).toEqual([404, 'twice'])
    relay.clock.seconds += WEEK_SECONDS - 1
    expect(await fetched(twice)).toBe(404)
    expect(await posted('once')).toBe(once)
    expect(await fetched(once)).toBe('once')
  })

  it('ends with the bytes of the file: a sweep about every minute deletes them', async () => {
    await relay.end()
    const doNotFake = [
      'Date',
      'hrtime',
      'nextTick',
      'performance',
      'queueMicrotask',
      'setImmediate',
      'setInterval'
    ] as const
    jest.useFakeTimers({ doNotFake: [...doNotFake] })
    try {
      relay = await startTestRelay()
      const cids = [await posted('row'), await posted('o'.repeat(100_000))]
      expect((await relay.contents.readContents(cids)).map((content) => content?.byteCount)).toEqual([3, 100_000])
      relay.clock.seconds += WEEK_SECONDS
      while ((await relay.contents.readContents(cids)).some(Boolean)) await jest.advanceTimersByTimeAsync(72_000)
    } finally {
      jest.useRealTimers()
    }
  })
})

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import request from 'supertest'
import { ByteBudget } from '../../../servers/content/limits.js'
import { ServerError } from '../../../servers/http/server-error.js'
import { SharedAnswers } from '../../../servers/relay/file-relay.js'
import {
  getFile,
  logIn,
  loginCredential,
  postFile,
  requestChallenge,
  startTestRelay,
  type TestRelay,
  type TestRelayOptions
} from '../../support/servers/relay-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const WEEK_SECONDS = 7 * 86_400
const LONG_FILE = '"'.repeat(1_048_577)

let relay: TestRelay
let token: string
let findFile: jest.SpiedFunction<TestRelay['contents']['findFile']>
let readContents: jest.SpiedFunction<TestRelay['contents']['readContents']>

async function start(variables: Record<string, string> = {}, options: TestRelayOptions = {}): Promise<void> {
  relay = await startTestRelay(variables, options)
  token = await logIn(relay, wallet)
  findFile = jest.spyOn(relay.contents, 'findFile')
  readContents = jest.spyOn(relay.contents, 'readContents')
}

afterEach(() => relay.end())

const storeFile = async (file: string): Promise<string> => (await postFile(relay, token, file)).body.cid
const countStoreCalls = () => [findFile.mock.calls.length, readContents.mock.calls.length]

describe('a file of up to 1 MiB', () => {
  beforeEach(() => start())

  it('is read from the store once for many concurrent requests', async () => {
    const cid = await storeFile('a'.repeat(100_000))
    const answers = await Promise.all(Array.from({ length: 20 }, () => getFile(relay, token, cid)))
    expect(answers.map(({ status }) => status)).toEqual(Array<number>(20).fill(200))
    expect(readContents).toHaveBeenCalledTimes(1)
  })

  it('is then served from memory, and checked in the store once per second', async () => {
    const cid = await storeFile('hello')
    for (let count = 0; count < 3; count += 1) await getFile(relay, token, cid)
    expect(countStoreCalls()).toEqual([1, 1])
    relay.clock.seconds += 1
    for (let count = 0; count < 3; count += 1) expect((await getFile(relay, token, cid)).text).toBe('{"file":"hello"}')
    expect(countStoreCalls()).toEqual([2, 1])
  })

  it('is streamed without a length if it is one byte longer', async () => {
    const cid = await storeFile(LONG_FILE)
    for (let count = 0; count < 2; count += 1) {
      const { body, headers } = await getFile(relay, token, cid)
      expect(body.file === LONG_FILE).toBe(true)
      expect(headers['content-length']).toBeUndefined()
    }
    expect(readContents).toHaveBeenCalledTimes(2)
  })

  it('is answered 503 while the store is unavailable, also if it is cached', async () => {
    const cid = await storeFile('hello')
    await getFile(relay, token, cid)
    relay.clock.seconds += 1
    findFile.mockRejectedValueOnce(new ServerError('ERR_STORAGE'))
    expect((await getFile(relay, token, cid)).status).toBe(503)
    expect((await getFile(relay, token, cid)).text).toBe('{"file":"hello"}')
  })
})

describe('RELAY_MAX_MEMORY_BYTES', () =>
  it.each([
    ['two files of 10,000 bytes', '25000', 10_000],
    ['two short files, each with an overhead of 512 bytes', '1100', 1]
  ])('limits the cache to %s, and reads other files from the store', async (_what, maxBytes, byteCount) => {
    await start({ RELAY_MAX_MEMORY_BYTES: maxBytes })
    const cids = await Promise.all(['1', '2', '3'].map((digit) => storeFile(digit.repeat(byteCount))))
    for (const cid of [...cids, cids[2]!, cids[1]!, cids[0]!]) {
      expect((await getFile(relay, token, cid)).status).toBe(200)
    }
    expect(readContents).toHaveBeenCalledTimes(4)
  }))

/** Posts and fetches with new tokens, because time passes in some of these tests. */
const storeFileLater = async (file: string): Promise<string> =>
  (await postFile(relay, await logIn(relay, wallet), file)).body.cid
async function fetchFile(cid: string): Promise<unknown> {
  const { status, body } = await getFile(relay, await logIn(relay, wallet), cid)
  return status === 200 ? body.file : status
}

describe('a posted file', () => {
  /** Files that are stored in a row, in a cached object, and in a streamed object. */
  const files = ['hello', 'b'.repeat(500_000), 'c\n'.repeat(400_000)]

  it('can be read after a restart, which also remembers used logins', async () => {
    await start({}, { hasSessionFile: true })
    const jwt = loginCredential(wallet, await requestChallenge(relay, wallet.did))
    await request(relay.listener).post('/auth').send({ jwt }).expect(200)
    const cids = [await storeFile(files[0]!), await storeFile(files[1]!), await storeFile(files[2]!)]
    await relay.restart()
    for (const [index, cid] of cids.entries()) expect((await fetchFile(cid)) === files[index]).toBe(true)
    await request(relay.listener).post('/auth').send({ jwt }).expect(401)
  })
})

describe('RELAY_FILE_TTL_SECONDS', () => {
  beforeEach(() => start())

  it('is 7 days by default, counted from the last post, also for cached files', async () => {
    const [once, twice] = [await storeFileLater('once'), await storeFileLater('twice')]
    relay.clock.seconds += WEEK_SECONDS - 1
    expect([await fetchFile(once), await fetchFile(twice)]).toEqual(['once', 'twice'])
    expect(await storeFileLater('twice')).toBe(twice)
    relay.clock.seconds += 1
    expect([await fetchFile(once), await fetchFile(twice)]).toEqual([404, 'twice'])
    relay.clock.seconds += WEEK_SECONDS - 1
    expect(await fetchFile(twice)).toBe(404)
    expect(await storeFileLater('once')).toBe(once)
    expect(await fetchFile(once)).toBe('once')
  })

  it('ends with a sweep about every minute, which deletes the bytes of expired files', async () => {
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
      const cids = [await storeFileLater('row'), await storeFileLater('o'.repeat(100_000))]
      expect((await relay.contents.readContents(cids)).map((content) => content?.byteCount)).toEqual([3, 100_000])
      relay.clock.seconds += WEEK_SECONDS
      while ((await relay.contents.readContents(cids)).some(Boolean)) await jest.advanceTimersByTimeAsync(72_000)
    } finally {
      jest.useRealTimers()
    }
  })
})

describe('SharedAnswers', () => {
  it('allows 250 bytes of responses in flight, and counts each response once', () => {
    const answers = new SharedAnswers(new ByteBudget({ maxBytes: 250 }))
    const [first, second, third] = [Buffer.alloc(150), Buffer.alloc(100), Buffer.alloc(1)]
    const [releaseFirst, releaseSecond] = [answers.tryAcquire(first), answers.tryAcquire(first)]
    expect([releaseFirst, releaseSecond, answers.tryAcquire(second), answers.tryAcquire(third)].map(Boolean)).toEqual([
      true,
      true,
      true,
      false
    ])
    releaseFirst?.()
    expect(answers.tryAcquire(third)).toBeUndefined()
    releaseSecond?.()
    expect(answers.tryAcquire(third)).toBeDefined()
  })

  it('allows one client network a quarter of the bytes, also of responses that others read', () => {
    const answers = new SharedAnswers(new ByteBudget({ maxBytes: 400 }))
    const [first, second] = [Buffer.alloc(100), Buffer.alloc(1)]
    expect(answers.tryAcquire(first, 'a')).toBeDefined()
    expect(answers.tryAcquire(second, 'a')).toBeUndefined()
    expect([answers.tryAcquire(first, 'b'), answers.tryAcquire(second, 'b')].map(Boolean)).toEqual([true, true])
  })
})

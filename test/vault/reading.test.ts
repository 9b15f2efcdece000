import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { ServerError } from '../../servers/shared/http/server-error.js'
import { EntryGone, entryReader } from '../../servers/vault/reads/entry-reader.js'
import { testVault, VaultUser, type TestVault } from '../support/vault-app.js'
import { fillVault } from '../support/vault-fill.js'
import { walletOf } from '../support/wallet.js'

const MEBIBYTE = 1_048_576

jest.setTimeout(30_000)

let vault: TestVault
let user: VaultUser
let server: Server

beforeEach(async () => {
  vault = await testVault()
  user = await VaultUser.logIn(vault.listener, walletOf(1))
  server = createServer(vault.listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
afterEach(async () => {
  jest.restoreAllMocks()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

/** Puts entries under a key of the user's. */
function fill(key: string, contents: readonly string[]): void {
  fillVault(
    vault,
    user.did,
    contents.map((content) => [key, content])
  )
}

/** Contents of a mebibyte, all different; JSON has to escape the first. */
function mebibytes(count: number): string[] {
  return Array.from({ length: count }, (_, number) => `${number}${number === 0 ? '"' : ''}`.padEnd(MEBIBYTE, 'x'))
}

/** What this process holds in memory that is no garbage. */
async function heldBytes(): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let count = 0; count < 3; count += 1) {
    collect()
    // What is outside the heap is let go of by what runs then.
    await pause(50)
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** An answer of which nothing is taken yet. */
function open(path: string): Promise<IncomingMessage> {
  const { port } = server.address() as AddressInfo
  return new Promise((resolve, reject) => {
    const headers = { Authorization: user.authorization }
    httpRequest({ port, host: '127.0.0.1', path, agent: false, headers }, resolve).on('error', reject).end()
  })
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of answer) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

describe('GET /:did/:key', () => {
  it.each([
    ['just held in memory', MEBIBYTE],
    ['just not held in memory', MEBIBYTE + 1]
  ])('answers the exact array, with its length, at the size that is %s', async (_what, size) => {
    const contents = ['"', 'é', 'x'.repeat(size - 14)]
    fill('notes', contents)
    const expected = JSON.stringify(contents)
    expect(Buffer.byteLength(expected)).toBe(size)
    const { headers, text } = await user.read('notes').expect(200)
    expect(text).toBe(expected)
    expect(headers).toMatchObject({
      'content-length': String(size),
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff'
    })
  })

  it('answers 64 MiB', async () => {
    const contents = mebibytes(64)
    fill('notes', contents)
    const answer = await open(`/${user.did}/notes`)
    const text = await textOf(answer)
    expect(JSON.parse(text)).toEqual(contents)
    expect(answer.headers['content-length']).toBe(String(text.length))
  })

  it('answers 1,000 entries of a key in order', async () => {
    const contents = Array.from({ length: 1_000 }, (_, number) => `entry ${(number * 7) % 1_000}`)
    fill('notes', contents)
    expect((await user.read('notes').expect(200)).body).toEqual(contents)
    await user.put('notes', 'one').expect(200)
    await user.read('notes').expect(200, ['one'])
    expect((await user.get('storage')).body).toMatchObject({ used: 3, usedEntries: 1 })
  })

  it('holds little for readers that take nothing, and serves others meanwhile', async () => {
    fill('notes', mebibytes(24))
    fill('else', ['small'])
    const before = process.memoryUsage().arrayBuffers
    const answers = await Promise.all(Array.from({ length: 6 }, () => open(`/${user.did}/notes`)))
    await user.read('else').expect(200, ['small'])
    await user.post('else', 'more').expect(201)
    globalThis.gc?.()
    // All six answers are 144 MiB.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(60 * MEBIBYTE)
    const [first] = await Promise.all(answers.map(textOf))
    expect(first).toHaveLength(24 * (MEBIBYTE + 3) + 2)
  })

  it('breaks the connection when an entry goes while it is sent, and logs no error', async () => {
    fill('notes', mebibytes(32))
    const answer = await open(`/${user.did}/notes`)
    await user.delete('notes').expect(200)
    await expect(textOf(answer)).rejects.toThrow('aborted')
    expect(vault.log().filter(({ level }) => level === 'error')).toEqual([])
    await user.read('notes').expect(200, [])
  })

  it('breaks the connection when content is lost while it is sent, and logs why', async () => {
    fill('notes', mebibytes(32))
    const answer = await open(`/${user.did}/notes`)
    vault.database.exec('DELETE FROM blocks')
    await expect(textOf(answer)).rejects.toThrow('aborted')
    expect(vault.log()).toContainEqual(
      expect.objectContaining({ level: 'error', event: 'request-failed', reason: 'ERR_CONTENT_LOST' })
    )
  })

  it('goes on with what it listed when something is added while it is sent', async () => {
    const contents = mebibytes(16)
    fill('notes', contents)
    const answer = await open(`/${user.did}/notes`)
    await user.post('notes', 'new').expect(201)
    expect(JSON.parse(await textOf(answer))).toEqual(contents)
  })

  it('logs no error when its reader goes', async () => {
    fill('notes', mebibytes(16))
    const answer = await open(`/${user.did}/notes`)
    answer.destroy()
    await pause(50)
    await user.read('else').expect(200, [])
    expect(vault.log().filter(({ level }) => level === 'error')).toEqual([])
  })

  it('is read anew, and never wrongly lost, while its key changes all the time', async () => {
    fill('notes', mebibytes(4))
    const statuses = await Promise.all(
      Array.from({ length: 40 }, async (_, number) => {
        if (number % 2 === 0) return (await user.put('notes', `${number}`.padEnd(400_000, 'y'))).status
        return (await user.read('notes')).status
      })
    )
    expect(new Set(statuses)).toEqual(new Set([200]))
  })

  it('answers HEAD with the length alone', async () => {
    fill('notes', ['a', 'b'])
    fill('large', mebibytes(2))
    for (const [key, length] of [
      ['notes', '9'],
      ['large', String(2 * (MEBIBYTE + 3) + 2)],
      ['nothing', '2']
    ] as const) {
      const { headers } = await user.head(key).expect(200)
      expect(headers['content-length']).toBe(length)
    }
  })
})

describe.each(['/keys', '/backup'])('GET %s of 10,000 long keys', (path) => {
  /** What a reader holds of them while it is answered: the list, not the 11 MB of its answer. */
  const LIST_BYTES = 10_000 * (512 + 192)
  const READERS = 32

  const keys = Array.from({ length: 10_000 }, (_, number) => `${'"'.repeat(507)}${10_000 + number}`)

  beforeEach(() => {
    fillVault(
      vault,
      user.did,
      keys.map((key, number) => [key, String(number)])
    )
  })

  it('holds no more than the room for readers that take nothing, and serves others meanwhile', async () => {
    const before = await heldBytes()
    const answers = await Promise.all(Array.from({ length: READERS }, () => open(path)))
    await user.get('storage').expect(200)
    // All answers are 360 MB, all lists 225 MB.
    expect((await heldBytes()) - before).toBeLessThan(170 * MEBIBYTE)
    const served = answers.filter(({ statusCode }) => statusCode === 200).length
    expect(served).toBeGreaterThanOrEqual(8)
    expect(served).toBeLessThanOrEqual((128 * MEBIBYTE) / LIST_BYTES)
    const refused = answers.filter(({ statusCode, headers }) => statusCode === 503 && headers['retry-after'] === '1')
    expect(refused).toHaveLength(READERS - served)

    // Once they have taken nothing for 10 s, another has the room.
    const now = performance.now.bind(performance)
    const later = jest.spyOn(performance, 'now').mockImplementation(() => now() + 10_000)
    const text = await textOf(await open(path))
    later.mockRestore()
    const shown = JSON.parse(text) as Record<'keys' | 'entries', { key: string }[]>
    expect((path === '/keys' ? shown.keys : shown.entries).map(({ key }) => key)).toEqual(keys)
  })
})

describe('the ETag of a key', () => {
  it('saves whoever has it from reading again, until the key changes', async () => {
    await user.post('notes', 'a').expect(201)
    const { etag } = (await user.read('notes').expect(200)).headers
    expect(etag).toMatch(/^"[\w-]{43}"$/)
    for (const value of [etag!, `"other", ${etag}`, '*', `W/${etag}`]) {
      const answer = await user.read('notes').set('If-None-Match', value).expect(304)
      expect([answer.text, answer.headers.etag, answer.headers['cache-control']]).toEqual(['', etag, 'no-cache'])
    }
    await user.read('notes').set('If-None-Match', '"other"').expect(200, ['a'])
    await user.post('notes', 'b').expect(201)
    const { headers } = await user.read('notes').set('If-None-Match', etag!).expect(200, ['a', 'b'])
    expect(headers.etag).not.toBe(etag)
  })

  it('tells orders apart', async () => {
    fill('one', ['a', 'b'])
    for (const content of ['b', 'a']) await user.post('two', content).expect(201)
    for (const content of ['a', 'b']) await user.post('three', content).expect(201)
    const etags = await Promise.all(['one', 'two', 'three'].map(async (key) => (await user.read(key)).headers.etag))
    expect(etags[0]).toBe(etags[2])
    expect(etags[0]).not.toBe(etags[1])
  })

  it('needs no content to be read', async () => {
    await user.post('notes', 'a').expect(201)
    const { etag } = (await user.read('notes').expect(200)).headers
    vault.database.exec('DELETE FROM blocks')
    await user.read('notes').set('If-None-Match', etag!).expect(304)
  })
})

describe('a reader of entries', () => {
  const entry = { id: 'cid', byteCount: 1 }

  it('waits for the node no longer than its patience in all', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick'] })
    try {
      const lost = { fetch: () => pauseFor(400) }
      const parts = { index: { findOne: () => entry }, contents: { read: () => undefined }, lost }
      const read = entryReader(parts, user.did, 1_000)
      const outcomes: string[] = []
      for (let count = 0; count < 4; count += 1) {
        const reading = Promise.resolve(read('notes', 'cid')).then(
          String,
          (error: unknown) => (error as ServerError).code
        )
        await jest.advanceTimersByTimeAsync(400)
        outcomes.push(await reading)
      }
      expect(outcomes).toEqual(['bytes', 'bytes', 'ERR_CONTENT_LOST', 'ERR_CONTENT_LOST'])
    } finally {
      jest.useRealTimers()
    }
  })

  it('tells an entry that has gone from content that is lost', () => {
    const lost = { fetch: () => Promise.reject(new Error('asked')) }
    const read = entryReader({ index: { findOne: () => undefined }, contents: { read: () => undefined }, lost }, 'did')
    expect(() => read('notes', 'cid')).toThrow(EntryGone)
  })
})

function pauseFor(milliseconds: number): Promise<Uint8Array> {
  return new Promise((resolve) => {
    setTimeout(() => {
      resolve(Buffer.from('bytes'))
    }, milliseconds)
  })
}

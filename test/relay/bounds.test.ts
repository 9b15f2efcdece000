import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import request, { type Response } from 'supertest'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../support/relay-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const other = walletOf(2)
const MEBIBYTE = 1_048_576
const DAY_SECONDS = 86_400

// Files of 8 MiB on a slow machine.
jest.setTimeout(30_000)

let relay: TestRelay

afterEach(() => relay.end())

const answerOf = ({ status, text }: Response) => [status, text]

/** A file of so many bytes, different for each mark. */
const fileOf = (byteCount: number, mark = '') => mark + 'a'.repeat(byteCount - mark.length)

/** Posts, and answers the cid. Each token is new, because time passes in these tests. */
async function posted(file: string, user = wallet): Promise<string> {
  const { status, text, body } = await postFile(relay, await logIn(relay, user), file)
  if (status !== 200) throw new Error(`${status} ${text}`)
  return body.cid
}

async function statusOf(cid: string): Promise<number> {
  return (await getFile(relay, await logIn(relay, wallet), cid)).status
}

describe('RELAY_MAX_FILE_BYTES', () => {
  it('is 8 MiB by default: such a file is posted and fetched, one byte more is 413 with the maximum', async () => {
    relay = await startTestRelay()
    const token = await logIn(relay, wallet)
    const file = fileOf(8 * MEBIBYTE)
    const { status, body } = await postFile(relay, token, file)
    expect([status, body.cid]).toEqual([200, 'bafybeiggwim5ic3yowdf3x57ldre4ze2gchvhobgophf3l6udgyoiehwiu'])
    const fetched = await getFile(relay, token, body.cid)
    expect(fetched.text === `{"file":"${file}"}`).toBe(true)
    const refused = await postFile(relay, token, `${file}a`)
    expect(answerOf(refused)).toEqual([413, 'Content too large: at most 8388608 bytes'])
  })

  it('counts bytes of UTF-8, however they are spelled', async () => {
    relay = await startTestRelay({ RELAY_MAX_FILE_BYTES: '10' })
    const token = await logIn(relay, wallet)
    const post = (json: string) =>
      request(relay.listener)
        .post('/file')
        .set('Authorization', token)
        .set('Content-Type', 'application/json')
        .send(`{"file":"${json}"}`)
    expect((await post('é'.repeat(5))).status).toBe(200)
    expect((await post('\\u00e9'.repeat(5))).status).toBe(200)
    expect(answerOf(await post('é'.repeat(5) + 'a'))).toEqual([413, 'Content too large: at most 10 bytes'])
    expect((await post('\\u0061'.repeat(10))).status).toBe(200)
    expect((await post('\\u0061'.repeat(11))).status).toBe(413)
    expect((await post('a'.repeat(10_000))).status).toBe(413)
  })
})

describe('RELAY_MAX_MEMORY_BYTES', () => {
  it('lets the least recently used go first', async () => {
    relay = await startTestRelay({ RELAY_MAX_MEMORY_BYTES: String(350_000) })
    const cids: string[] = []
    for (const mark of ['1', '2', '3']) cids.push(await posted(fileOf(100_000, mark)))
    const [first = '', second = '', third = ''] = cids
    expect(await statusOf(first)).toBe(200)
    const fourth = await posted(fileOf(100_000, '4'))
    expect([await statusOf(first), await statusOf(second), await statusOf(third), await statusOf(fourth)]).toEqual([
      200, 404, 200, 200
    ])
  })

  it('counts what tiny files take beside their bytes', async () => {
    relay = await startTestRelay({ RELAY_MAX_MEMORY_BYTES: '20000' })
    const cids: string[] = []
    for (let index = 0; index < 20; index += 1) cids.push(await posted(`file ${index}`))
    const statuses = await Promise.all(cids.map(statusOf))
    expect(statuses.filter((status) => status === 200).length).toBeLessThan(20)
    expect(statuses.at(-1)).toBe(200)
  })

  it('smaller than a file is 507', async () => {
    relay = await startTestRelay({ RELAY_MAX_MEMORY_BYTES: '100000' })
    const answer = await postFile(relay, await logIn(relay, wallet), fileOf(100_000))
    expect(answerOf(answer)).toEqual([507, 'Storage full: 100000 bytes of memory in all'])
    expect(relay.database.prepare('SELECT count(*) FROM files').pluck().get()).toBe(0)
  })
})

describe('files that slow readers keep alive', () => {
  it('are at most 128 MiB beside the memory: whoever takes what left it first is cut off, nobody is refused', async () => {
    relay = await startTestRelay({ RELAY_MAX_MEMORY_BYTES: String(9 * MEBIBYTE) })
    const server = createServer(relay.listener)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const token = await logIn(relay, wallet)
    const readers: Socket[] = []
    // Asks, and takes no more than the headers.
    const ask = async (cid: string): Promise<void> => {
      const reader = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined)
      readers.push(reader)
      reader.write(`GET /file/${cid} HTTP/1.1\r\nHost: a\r\nAuthorization: ${token}\r\n\r\n`)
      await new Promise((resolve) => reader.once('readable', resolve))
    }
    // Each leaves memory with the next; with what is around it, a file is a little more than 8 MiB.
    for (let count = 0; count < 17; count += 1) {
      const { status, body } = await postFile(relay, token, fileOf(8 * MEBIBYTE, `${count} `))
      expect(status).toBe(200)
      await ask(body.cid)
    }
    const [first, second] = readers
    const closed = new Promise((resolve) => first?.once('close', resolve))
    first?.resume()
    await closed
    expect(first?.bytesRead).toBeLessThan(8 * MEBIBYTE)
    let received = 0
    second?.on('data', (chunk: Buffer) => (received += chunk.length))
    while (received < 8 * MEBIBYTE) await new Promise((resolve) => second?.once('data', resolve))
    for (const reader of readers) reader.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
})

describe('RELAY_FILE_TTL_SECONDS', () => {
  it('is 24 h by default, from the last post on', async () => {
    relay = await startTestRelay()
    const [once, twice] = [await posted('once'), await posted('twice')]
    relay.clock.seconds += DAY_SECONDS - 1
    expect(await statusOf(once)).toBe(200)
    expect(await posted('twice')).toBe(twice)
    relay.clock.seconds += 1
    expect([await statusOf(once), await statusOf(twice)]).toEqual([404, 200])
    relay.clock.seconds += DAY_SECONDS - 2
    expect(await statusOf(twice)).toBe(200)
    relay.clock.seconds += 1
    expect(await statusOf(twice)).toBe(404)
    expect(await posted('once')).toBe(once)
    expect(await statusOf(once)).toBe(200)
  })
})

describe('RELAY_MAX_BYTES_PER_DID', () => {
  const full = '{"type":"about:blank","title":"Storage full: 100 of 100 bytes held by this DID, 1 needed",'

  it('bounds what a DID holds in memory, in all its spellings, and says the numbers', async () => {
    relay = await startTestRelay({ RELAY_MAX_BYTES_PER_DID: '100' })
    await posted(fileOf(60, '1'))
    await posted(fileOf(40, '2'), { ...wallet, did: wallet.did.replace('rsk', 'RSK') })
    const answer = await postFile(relay, await logIn(relay, wallet), 'b')
    expect(answerOf(answer)).toEqual([507, 'Storage full: 100 of 100 bytes held by this DID, 1 needed'])
    const problem = await request(relay.listener)
      .post('/file')
      .set('Authorization', await logIn(relay, wallet))
      .set('Accept', 'application/problem+json')
      .send({ file: 'b' })
    expect(problem.text).toBe(`${full}"status":507,"code":"ERR_STORAGE_FULL"}`)
    await posted('b', other)
  })

  it('counts the same content once', async () => {
    relay = await startTestRelay({ RELAY_MAX_BYTES_PER_DID: '100' })
    for (let times = 0; times < 5; times += 1) await posted(fileOf(100))
    await posted(fileOf(100), other)
  })

  it('is free again when a file has ended', async () => {
    relay = await startTestRelay({ RELAY_MAX_BYTES_PER_DID: '100' })
    await posted(fileOf(100))
    relay.clock.seconds += DAY_SECONDS - 1
    expect((await postFile(relay, await logIn(relay, wallet), 'a')).status).toBe(507)
    relay.clock.seconds += 1
    await posted(fileOf(100, '1'))
  })

  it('cannot be passed by many posts at once', async () => {
    relay = await startTestRelay({ RELAY_MAX_BYTES_PER_DID: '1000' })
    const token = await logIn(relay, wallet)
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, index) => postFile(relay, token, fileOf(100, String(index))))
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
    expect(answers.filter(({ status }) => status === 507)).toHaveLength(20)
  })

  it('may be used by each of many DIDs that post one content', async () => {
    relay = await startTestRelay({ RELAY_MAX_BYTES_PER_DID: '100' })
    for (let number = 1; number <= 70; number += 1) await posted(fileOf(100), walletOf(number))
    expect((await postFile(relay, await logIn(relay, walletOf(1)), 'a')).status).toBe(507)
  })
})

describe('RELAY_MAX_STORE_BYTES', () => {
  it('bounds what all keep together, each with 512 bytes beside it, and says the numbers', async () => {
    relay = await startTestRelay({ RELAY_MAX_STORE_BYTES: '1124' })
    await posted(fileOf(60, '1'))
    await posted(fileOf(60, '1'), other)
    const answer = await postFile(relay, await logIn(relay, other), fileOf(41))
    expect(answerOf(answer)).toEqual([507, 'Storage full: 572 of 1124 bytes in use by all, 553 needed'])
    await posted(fileOf(40))
    expect((await postFile(relay, await logIn(relay, other), 'b')).status).toBe(507)
  })

  it('leaves nothing of what did not fit', async () => {
    relay = await startTestRelay({ RELAY_MAX_STORE_BYTES: '522' })
    const cid = await posted(fileOf(10))
    await postFile(relay, await logIn(relay, wallet), 'another')
    expect(relay.database.prepare('SELECT cid FROM blocks').pluck().all()).toEqual([cid])
    expect(relay.database.prepare('SELECT cid FROM files').pluck().all()).toEqual([cid])
    expect(relay.database.prepare('SELECT bytes FROM totals').pluck().get()).toBe(10)
  })
})

describe('MAX_REQUESTS_PER_TIME_SLOT', () => {
  it('is 1,000 requests for files in 600 s by default, per DID, and survives a new login', async () => {
    relay = await startTestRelay()
    const token = await logIn(relay, wallet)
    const { cid } = (await postFile(relay, token, 'a')).body
    for (let count = 1; count < 999; count += 1) await getFile(relay, token, 'missing')
    expect((await getFile(relay, token, cid)).status).toBe(200)
    relay.clock.seconds += 100
    for (const answer of [
      await getFile(relay, token, cid),
      await postFile(relay, token, 'a'),
      await getFile(relay, await logIn(relay, wallet), cid)
    ]) {
      expect(answerOf(answer)).toEqual([429, 'Too many requests'])
      expect(answer.headers['retry-after']).toBe('500')
    }
    expect((await getFile(relay, await logIn(relay, other), cid)).status).toBe(200)
    relay.clock.seconds += 500
    expect((await getFile(relay, await logIn(relay, wallet), cid)).status).toBe(200)
  })

  it('and TIME_SLOT_IN_SECONDS are as set; a request without a good token counts against nobody', async () => {
    relay = await startTestRelay({ MAX_REQUESTS_PER_TIME_SLOT: '2', TIME_SLOT_IN_SECONDS: '5' })
    const token = await logIn(relay, wallet)
    for (const wrong of ['', `${token}a`, 'Bearer a']) await getFile(relay, wrong, 'a')
    expect((await getFile(relay, token, 'a')).status).toBe(404)
    expect((await getFile(relay, token, 'a')).status).toBe(404)
    const refused = await getFile(relay, token, 'a')
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '5'])
    relay.clock.seconds += 5
    expect((await getFile(relay, token, 'a')).status).toBe(404)
  })
})

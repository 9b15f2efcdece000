import { afterEach, describe, expect, it, beforeEach } from '@jest/globals'
import request from 'supertest'
import type { Response } from 'supertest'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../../support/servers/relay-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const otherWallet = createNumberedWallet(2)
const MEBIBYTE = 1_048_576
const DAY_SECONDS = 86_400

let relay: TestRelay

afterEach(() => relay.end())

const getAnswer = ({ status, text }: Response) => [status, text]

/** Creates a file of `byteCount` bytes that starts with `mark`. */
const createFile = (byteCount: number, mark = '') => mark + 'a'.repeat(byteCount - mark.length)

/** Posts with a new token, because time passes in these tests. */
const post = async (file: string, user = wallet) => postFile(relay, await logIn(relay, user), file)

/** Posts a file that is accepted, and returns its CID. */
async function postAccepted(file: string, user = wallet): Promise<string> {
  const answer = await post(file, user)
  expect(getAnswer(answer)).toEqual([200, expect.any(String)])
  return answer.body.cid
}

describe('RELAY_MAX_FILE_BYTES', () =>
  it('limits a file to 8 MiB by default, and answers 413 with the maximum above it', async () => {
    relay = await startTestRelay()
    const file = createFile(8 * MEBIBYTE)
    const cid = await postAccepted(file)
    expect(cid).toBe('bafybeiggwim5ic3yowdf3x57ldre4ze2gchvhobgophf3l6udgyoiehwiu')
    const fetched = await getFile(relay, await logIn(relay, wallet), cid)
    expect(fetched.text === `{"file":"${file}"}`).toBe(true)
    expect(getAnswer(await post(`${file}a`))).toEqual([413, 'Content too large: at most 8388608 bytes'])
  }))

describe('RELAY_MAX_BYTES_PER_DID', () => {
  it('limits what a DID posts in 24 h, in any spelling, and answers 429 with the remaining seconds', async () => {
    relay = await startTestRelay({ RELAY_MAX_BYTES_PER_DID: '100' })
    await postAccepted(createFile(60, '1'))
    relay.clock.seconds += 100
    await postAccepted(createFile(40, '2'), { ...wallet, did: wallet.did.replace('rsk', 'RSK') })
    const refused = await post('b')
    expect(getAnswer(refused)).toEqual([429, 'Too many requests'])
    // Slots start at midnight UTC, and these tests start at 8 o'clock.
    expect(refused.headers['retry-after']).toBe(String(DAY_SECONDS - 28_900))
    await postAccepted('b', otherWallet)
    relay.clock.seconds += DAY_SECONDS - 28_900
    await postAccepted('b')
  })
})

describe('RELAY_MAX_STORE_BYTES', () =>
  it('limits the bytes of all files, answers 507 with the numbers, and still serves reads', async () => {
    relay = await startTestRelay({ RELAY_MAX_STORE_BYTES: '10000' })
    const cid = await postAccepted(createFile(6_000, '1'))
    await postAccepted(createFile(6_000, '1'), otherWallet)
    const refused = await post(createFile(6_000, '2'), otherWallet)
    expect(getAnswer(refused)).toEqual([507, expect.stringMatching(/^Storage full: \d+ of 10000 bytes .*\d+/)])
    expect((await getFile(relay, await logIn(relay, otherWallet), cid)).status).toBe(200)
  }))

describe('MAX_REQUESTS_PER_TIME_SLOT', () =>
  it('limits file requests per DID and slot, across logins and without those of invalid tokens', async () => {
    relay = await startTestRelay({ MAX_REQUESTS_PER_TIME_SLOT: '3', TIME_SLOT_IN_SECONDS: '500' })
    const token = await logIn(relay, wallet)
    for (const invalidToken of ['', `${token}a`, 'Bearer a']) await getFile(relay, invalidToken, 'a')
    const { cid } = (await postFile(relay, token, 'a')).body
    expect((await getFile(relay, token, 'missing')).status).toBe(404)
    expect((await getFile(relay, token, cid)).status).toBe(200)
    relay.clock.seconds += 100
    for (const answer of [
      await getFile(relay, token, cid),
      await postFile(relay, token, 'a'),
      await getFile(relay, await logIn(relay, wallet), cid)
    ]) {
      expect(getAnswer(answer)).toEqual([429, 'Too many requests'])
      expect(answer.headers['retry-after']).toBe('400')
    }
    expect((await getFile(relay, await logIn(relay, otherWallet), cid)).status).toBe(200)
    relay.clock.seconds += 400
    expect((await getFile(relay, await logIn(relay, wallet), cid)).status).toBe(200)
  }))

let token: string
let cid: string

async function start(variables: Record<string, string>): Promise<void> {
  relay = await startTestRelay({ TRUST_PROXY: '1', MAX_REQUESTS_PER_TIME_SLOT: '3', ...variables })
  token = await logIn(relay, wallet)
  cid = (await postFile(relay, token, 'hello')).body.cid
}

const read = (name = cid, headers: Record<string, string> = {}): Promise<Response> =>
  Promise.resolve(request(relay.listener).get(`/file/${name}`).set('X-Forwarded-For', '203.0.113.1').set(headers))

async function readStatuses(headers: Record<string, string>): Promise<number[]> {
  const statuses: number[] = []
  for (let count = 0; count < 4; count += 1) statuses.push((await read(cid, headers)).status)
  return statuses
}

describe('a relay without RELAY_OPEN_READS', () =>
  it('requires a token for reads', async () => {
    await start({})
    const { status, text } = await read()
    expect([status, text]).toEqual([401, 'Missing access token'])
  }))

describe('RELAY_OPEN_READS=true', () => {
  beforeEach(() => start({ RELAY_OPEN_READS: 'true' }))

  it('answers a read without a token as a read with a token', async () => {
    const [openRead, ownRead] = [await read(), await getFile(relay, token, cid)]
    expect([openRead.status, openRead.text, openRead.headers['file-expires-in']]).toEqual([
      200,
      '{"file":"hello"}',
      '604800'
    ])
    expect([openRead.text, openRead.headers['cache-control']]).toEqual([ownRead.text, 'no-store'])
    expect((await read(`${cid}?a`, { Authorization: '' })).status).toBe(200)
    expect((await read('missing')).status).toBe(404)
  })

  it('answers a read with the password of a site, which is no token', async () => {
    expect((await read(cid, { Authorization: 'Basic eDp5' })).status).toBe(200)
  })

  it('opens no other route', async () => {
    const posted = await request(relay.listener).post('/file').send({ file: 'a' })
    expect([posted.status, posted.text]).toEqual([401, 'Missing access token'])
  })

  it.each(['DIDAuth a', 'Bearer a', 'a.b.c'])('refuses the invalid token %s', async (Authorization) => {
    const { status, text } = await read(cid, { Authorization })
    expect([status, text]).toEqual([401, 'Invalid access token'])
  })

  it('limits reads of a client network, including 404s, separately from other networks and users', async () => {
    for (const name of ['missing', 'a', cid]) await read(name)
    const refused = await read()
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '600'])
    expect((await read(cid, { 'X-Forwarded-For': '203.0.113.2' })).status).toBe(200)
    // The post counts against the quota of the user.
    for (const status of [200, 200, 429]) expect((await read(cid, { Authorization: token })).status).toBe(status)
    relay.clock.seconds += 600
    expect((await read()).status).toBe(200)
  })

  it('counts IPv6 addresses by /64', async () => {
    for (const host of ['1', '2', '3']) await read(cid, { 'X-Forwarded-For': `2001:db8::${host}` })
    expect((await read(cid, { 'X-Forwarded-For': '2001:db8::4' })).status).toBe(429)
  })

  it('counts reads that a page of another site triggers in a browser separately', async () => {
    expect(await readStatuses({ 'Sec-Fetch-Site': 'cross-site' })).toEqual([200, 200, 200, 429])
    expect(await readStatuses({})).toEqual([200, 200, 200, 429])
  })

  it('refuses files that were taken down or have expired', async () => {
    await relay.contents.takeDown(cid, 'test', relay.clock.seconds)
    expect((await read()).status).toBe(451)
    const { cid: otherCid } = (await postFile(relay, token, 'other')).body
    relay.clock.seconds += 604_800
    expect((await read(otherCid)).status).toBe(404)
  })
})

describe('RELAY_OPEN_READS=true with CORS_ORIGINS', () => {
  it('counts the reads of a listed page with those of its network', async () => {
    await start({ RELAY_OPEN_READS: 'true', CORS_ORIGINS: 'https://page.example' })
    const page = { Origin: 'https://page.example', 'Sec-Fetch-Site': 'cross-site' }
    expect(await readStatuses({ 'Sec-Fetch-Site': 'cross-site' })).toEqual([200, 200, 200, 429])
    expect(await readStatuses(page)).toEqual([200, 200, 200, 429])
    expect((await read()).status).toBe(429)
  })
})

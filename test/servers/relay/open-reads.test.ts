import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import request, { type Response } from 'supertest'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../../support/relay-app.js'
import { walletOf } from '../../support/wallet.js'

let relay: TestRelay
let token: string
let cid: string

async function start(variables: Record<string, string>): Promise<void> {
  relay = await startTestRelay({ TRUST_PROXY: '1', MAX_REQUESTS_PER_TIME_SLOT: '3', ...variables })
  token = await logIn(relay, walletOf(1))
  cid = (await postFile(relay, token, 'hello')).body.cid
}

afterEach(() => relay.end())

const read = (name = cid, headers: Record<string, string> = {}): Promise<Response> =>
  Promise.resolve(request(relay.listener).get(`/file/${name}`).set('X-Forwarded-For', '203.0.113.1').set(headers))

async function statusesOf(headers: Record<string, string>): Promise<number[]> {
  const statuses: number[] = []
  for (let count = 0; count < 4; count += 1) statuses.push((await read(cid, headers)).status)
  return statuses
}

describe('without RELAY_OPEN_READS', () => {
  it('a read needs a token', async () => {
    await start({})
    const { status, text } = await read()
    expect([status, text]).toEqual([401, 'Missing access token'])
  })
})

describe('RELAY_OPEN_READS=true', () => {
  beforeEach(() => start({ RELAY_OPEN_READS: 'true' }))

  it('answers a read without a token as one with a token', async () => {
    const [open, own] = [await read(), await getFile(relay, token, cid)]
    expect([open.status, open.text, open.headers['file-expires-in']]).toEqual([200, '{"file":"hello"}', '604800'])
    expect([open.text, open.headers['cache-control']]).toEqual([own.text, 'no-store'])
    expect((await read(`${cid}?a`, { Authorization: '' })).status).toBe(200)
    expect((await read('missing')).status).toBe(404)
  })

  it('opens nothing else', async () => {
    const posted = await request(relay.listener).post('/file').send({ file: 'a' })
    expect([posted.status, posted.text]).toEqual([401, 'Missing access token'])
  })

  it.each(['DIDAuth a', 'Bearer a', 'a.b.c'])('refuses the bad token %s', async (Authorization) => {
    const { status, text } = await read(cid, { Authorization })
    expect([status, text]).toEqual([401, 'Invalid access token'])
  })

  it('bounds the reads of a client network, found or not, and neither those of others nor of users', async () => {
    for (const name of ['missing', 'a', cid]) await read(name)
    const refused = await read()
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '600'])
    expect((await read(cid, { 'X-Forwarded-For': '203.0.113.2' })).status).toBe(200)
    // The post counts for the user.
    for (const status of [200, 200, 429]) expect((await read(cid, { Authorization: token })).status).toBe(status)
    relay.clock.seconds += 600
    expect((await read()).status).toBe(200)
  })

  it('counts IPv6 by /64', async () => {
    for (const host of ['1', '2', '3']) await read(cid, { 'X-Forwarded-For': `2001:db8::${host}` })
    expect((await read(cid, { 'X-Forwarded-For': '2001:db8::4' })).status).toBe(429)
  })

  it('counts what a page of another site makes a browser read apart from the rest', async () => {
    expect(await statusesOf({ 'Sec-Fetch-Site': 'cross-site' })).toEqual([200, 200, 200, 429])
    expect(await statusesOf({})).toEqual([200, 200, 200, 429])
  })

  it('refuses what was taken down or has ended', async () => {
    await relay.contents.takeDown(cid, 'test', relay.clock.seconds)
    expect((await read()).status).toBe(451)
    const { cid: other } = (await postFile(relay, token, 'other')).body
    relay.clock.seconds += 604_800
    expect((await read(other)).status).toBe(404)
  })
})

describe('RELAY_OPEN_READS=true with CORS_ORIGINS', () => {
  it('counts the reads of such a page as those of the network', async () => {
    await start({ RELAY_OPEN_READS: 'true', CORS_ORIGINS: 'https://page.example' })
    const page = { Origin: 'https://page.example', 'Sec-Fetch-Site': 'cross-site' }
    expect(await statusesOf({ 'Sec-Fetch-Site': 'cross-site' })).toEqual([200, 200, 200, 429])
    expect(await statusesOf(page)).toEqual([200, 200, 200, 429])
    expect((await read()).status).toBe(429)
  })
})

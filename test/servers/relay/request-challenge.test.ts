import { createHmac } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { loginCredential, requestChallenge, startTestRelay, type TestRelay } from '../../support/servers/relay-app.js'
import { challengeSecret, createNumberedWallet, START_SECONDS } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)

let relay: TestRelay

beforeEach(async () => {
  relay = await startTestRelay()
})

afterEach(() => relay.end())

const ask = (body: unknown, type = 'application/json') =>
  request(relay.listener)
    .post('/request-auth')
    .set('Content-Type', type)
    .send(typeof body === 'string' ? body : JSON.stringify(body))

describe('POST /request-auth', () => {
  it('returns 64 bytes as 128 hexadecimal digits, which expire in 300 s', async () => {
    const { status, body, headers } = await ask({ did: wallet.did })
    expect(status).toBe(200)
    expect(Object.keys(body)).toEqual(['challenge'])
    expect(body.challenge).toMatch(/^[0-9a-f]{128}$/)
    expect(headers['challenge-expires-in']).toBe('300')
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
  })

  it('computes the last 32 bytes from the first 32, the lower-cased DID and the 10 s slot, by its own key', async () => {
    const upper = wallet.did.replace(/[a-f](?=[0-9a-f]*$)/g, (letter) => letter.toUpperCase())
    expect(upper).not.toBe(wallet.did)
    const challenge = await requestChallenge(relay, upper)
    const secret = createHmac('sha256', challengeSecret).update('relay').digest('hex')
    const slot = Buffer.alloc(8)
    slot.writeUInt32BE(START_SECONDS / 10, 4)
    const expected = createHmac('sha256', secret)
      .update(Buffer.concat([Buffer.from(challenge.slice(0, 64), 'hex'), Buffer.from(wallet.did), slot]))
      .digest('hex')
    expect(challenge.slice(64)).toBe(expected)
  })

  it.each([
    'did:web:example.org',
    'did:ethr:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf',
    `did:example:${'a'.repeat(116)}`
  ])('issues a challenge for any DID of at most 128 characters: %s', async (did) => {
    expect((await ask({ did })).status).toBe(200)
  })

  it.each([
    {},
    [],
    'null',
    '"did"',
    { did: null },
    { did: 7 },
    { did: ['did:web:a'] },
    { did: '' },
    { did: 'alice' },
    { did: `did:example:${'a'.repeat(117)}` },
    { did: `${wallet.did}\n` },
    { response: { did: wallet.did } }
  ])('answers 400 to %j', async (body) => {
    const { status, text, headers } = await ask(body)
    expect([status, text]).toEqual([400, 'Invalid request'])
    expect(headers['content-type']).toBe('text/plain; charset=utf-8')
    expect(headers['www-authenticate']).toBeUndefined()
  })

  it('answers 400 to an absent body, and to a body that is not JSON', async () => {
    expect((await request(relay.listener).post('/request-auth')).status).toBe(400)
    expect((await ask('did=did:web:a', 'application/x-www-form-urlencoded')).text).toBe('Invalid request')
    expect((await ask(`{"did":"${wallet.did}"}`, 'text/plain')).text).toBe('Invalid request')
    expect((await ask('{"did":')).text).toBe('Malformed JSON')
  })

  it('answers 413 to a body above 20 KiB', async () => {
    expect((await ask({ did: wallet.did, rest: 'a'.repeat(20 * 1024) })).status).toBe(413)
  })

  it('keeps earlier challenges valid, however often a stranger requests one', async () => {
    const challenge = await requestChallenge(relay, wallet.did)
    await Promise.all(Array.from({ length: 50 }, () => requestChallenge(relay, wallet.did)))
    const jwt = loginCredential(wallet, challenge)
    expect((await request(relay.listener).post('/auth').send({ jwt })).status).toBe(200)
  })
})

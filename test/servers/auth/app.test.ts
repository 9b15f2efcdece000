import { beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { memoryStore, type Store } from 'express-did-auth'
import { testAuthServer } from '../../support/servers/test-app.js'
import { holdTime, type HeldTime } from '../../support/fixtures/hold-time.js'
import { answering, answeringResults, deadRpcUrl, startRpcNode } from '../../support/faults/rpc-node.js'
import { createLoginText, createNumberedWallet, serviceWallet } from '../../support/fixtures/fixtures.js'
import { until } from '../../support/fixtures/until.js'

const wallet = createNumberedWallet(1)
let time: HeldTime

beforeEach(() => {
  time = holdTime()
})

/** Creates a store that is unavailable. */
const createLostStore = (): Store => Object.assign(memoryStore(), { ping: () => Promise.reject(new Error('gone')) })

async function logIn(listener: Parameters<typeof request>[0]): Promise<{ accessToken: string; refreshToken: string }> {
  const { body } = await request(listener).post('/request-auth').send({ did: wallet.did }).expect(200)
  const sig = wallet.personalSign(createLoginText('auth.example', body.challenge))
  return (await request(listener).post('/auth').send({ did: wallet.did, sig }).expect(200)).body
}

describe('GET /me', () =>
  it("returns the caller's DID", async () => {
    const { listener } = await testAuthServer()
    const { accessToken } = await logIn(listener)
    const response = await request(listener).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    expect(response.body).toEqual({ did: wallet.did })
    expect(response.headers['cache-control']).toBe('no-store')
  }))

describe('environment variables of the auth server', () => {
  it('MAX_REQUESTS_PER_TIME_SLOT limits the requests of a user', async () => {
    const { listener } = await testAuthServer({ MAX_REQUESTS_PER_TIME_SLOT: '2' })
    const { accessToken } = await logIn(listener)
    const getMe = () => request(listener).get('/me').set('Authorization', `DIDAuth ${accessToken}`)
    await getMe().expect(200)
    await getMe().expect(200)
    await getMe().expect(429)
  })

  it('CHALLENGE_EXPIRATION_TIME_IN_SECONDS limits the lifetime of a challenge', async () => {
    const { listener } = await testAuthServer({ CHALLENGE_EXPIRATION_TIME_IN_SECONDS: '7' })
    const response = await request(listener).get(`/request-auth/${wallet.did}`).expect(200)
    expect(Number(response.headers['challenge-expires-in'])).toBeLessThanOrEqual(7)
  })

  it('ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS sets the lifetime of an access token', async () => {
    const { listener } = await testAuthServer({ ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '42' })
    const [, payload = ''] = (await logIn(listener)).accessToken.split('.')
    const { iat, exp } = JSON.parse(Buffer.from(payload, 'base64url').toString())
    expect(exp - iat).toBe(42)
  })

  it('REPLAY_PROTECTION=window accepts one signature twice', async () => {
    for (const [replay, status] of [
      ['window', 200],
      ['single-use', 401]
    ] as const) {
      const { listener } = await testAuthServer({ REPLAY_PROTECTION: replay })
      const { body } = await request(listener).post('/request-auth').send({ did: wallet.did })
      const login = { did: wallet.did, sig: wallet.personalSign(createLoginText('auth.example', body.challenge)) }
      await request(listener).post('/auth').send(login).expect(200)
      await request(listener).post('/auth').send(login).expect(status)
    }
  })

  it.each(['1', 'true', 'loopback', '10.0.0.0/8, 127.0.0.0/8, ::1'])(
    'TRUST_PROXY=%s reads the client address from the proxy: each address has its own budget',
    async (TRUST_PROXY) => {
      const { listener } = await testAuthServer({ TRUST_PROXY, MAX_REQUESTS_PER_TIME_SLOT: '1' })
      const requestChallenge = (address: string) =>
        request(listener).get(`/request-auth/${wallet.did}`).set('X-Forwarded-For', address)
      for (let count = 0; count < 10; count += 1) await requestChallenge('192.0.2.1').expect(200)
      await requestChallenge('192.0.2.1').expect(429)
      await requestChallenge('192.0.2.2').expect(200)
    }
  )

  it('TRUST_PROXY is off by default: X-Forwarded-For changes no budget and causes one warning', async () => {
    const { listener, log } = await testAuthServer({ MAX_REQUESTS_PER_TIME_SLOT: '1' })
    for (let count = 1; count <= 11; count += 1) {
      const address = `192.0.2.${count}`
      const { status } = await request(listener).get(`/request-auth/${wallet.did}`).set('X-Forwarded-For', address)
      expect(status).toBe(count <= 10 ? 200 : 429)
    }
    expect(log().filter(({ event }) => event === 'trust-proxy-off')).toHaveLength(1)
  })

  it('USE_COOKIES stores tokens in cookies, with USER_SESSION_DURATION_IN_HOURS and TRUSTED_ORIGINS', async () => {
    const origin = 'https://app.example'
    const { listener } = await testAuthServer({
      USE_COOKIES: 'true',
      TRUSTED_ORIGINS: origin,
      USER_SESSION_DURATION_IN_HOURS: '0.5'
    })
    const { body } = await request(listener).post('/request-auth').set('Origin', origin).send({ did: wallet.did })
    const login = { did: wallet.did, sig: wallet.personalSign(createLoginText('auth.example', body.challenge)) }
    await request(listener).post('/auth').set('Origin', 'https://evil.example').send(login).expect(403)
    const { headers } = await request(listener).post('/auth').set('Origin', origin).send(login).expect(200)
    expect(headers['set-cookie']).toEqual([
      expect.stringMatching(/^authorization=.*Max-Age=1800;/),
      expect.stringMatching(/^refresh-token=.*Max-Age=1800;/)
    ])
  })

  it('a SERVICE_DID that does not match the key only logs a warning', async () => {
    const { listener, log } = await testAuthServer({ SERVICE_DID: createNumberedWallet(8).did })
    await logIn(listener)
    expect(log()).toContainEqual(expect.objectContaining({ level: 'warn', event: 'signer-address' }))
  })

  it('NETWORK_NAME needs no RPC_URL', async () => {
    const { listener } = await testAuthServer({ NETWORK_NAME: 'sepolia' })
    await logIn(listener)
  })
})

describe('GET /health', () =>
  it('checks no dependency', async () => {
    const { listener } = await testAuthServer({}, { store: createLostStore() })
    const response = await request(listener).get('/health').expect(200)
    expect(response.body).toEqual({ status: 'ok' })
    await request(listener).head('/health').expect(200)
  }))

describe('GET /ready', () => {
  it('reports store, clock and signer', async () => {
    const { listener } = await testAuthServer()
    const response = await request(listener).get('/ready').expect(200)
    expect(response.body).toEqual({ status: 'ready', dependencies: { store: 'ok', clock: 'ok', signer: 'ok' } })
    expect(response.headers['cache-control']).toBe('no-store')
  })

  it('answers 503 while the store is unavailable', async () => {
    const { listener } = await testAuthServer({}, { store: createLostStore() })
    const response = await request(listener).get('/ready').expect(503)
    expect(response.body).toMatchObject({
      status: 'not ready',
      dependencies: { store: 'unavailable', clock: 'ok', signer: 'ok' }
    })
  })

  it('reports an RPC node that responds', async () => {
    const node = await startRpcNode(answeringResults(() => ({ result: '0x1e' })))
    const { listener } = await testAuthServer({ RPC_URL: node.rpcUrl.replace('//', '//user:p%40ss@') })
    const response = await request(listener).get('/ready').expect(200)
    expect(response.body.dependencies).toEqual({ store: 'ok', clock: 'ok', signer: 'ok', rpc: 'ok' })
    node.stop()
  })

  it('sends the RPC node a password without a user name', async () => {
    const authorizations: (string | undefined)[] = []
    const node = await startRpcNode((req, res) => {
      authorizations.push(req.headers.authorization)
      answeringResults(() => ({ result: '0x1e' }))(req, res)
    })
    const { listener } = await testAuthServer({ RPC_URL: node.rpcUrl.replace('//', '//:p%25ss@') })
    await request(listener).get('/ready').expect(200)
    expect(authorizations).toEqual([`Basic ${Buffer.from(':p%ss').toString('base64')}`])
    node.stop()
  })

  it('answers 200 while the RPC node refuses connections or returns garbage', async () => {
    const node = await startRpcNode(answering(200, '"garbage"'))
    for (const RPC_URL of [await deadRpcUrl(), node.rpcUrl]) {
      const { listener } = await testAuthServer({ RPC_URL })
      const response = await request(listener).get('/ready').expect(200)
      expect(response.body).toEqual({
        status: 'ready',
        dependencies: { store: 'ok', clock: 'ok', signer: 'ok', rpc: 'unavailable' }
      })
    }
    node.stop()
  })

  it('limits the wait for a silent RPC node, and asks it once for concurrent requests', async () => {
    const node = await startRpcNode(() => undefined)
    const { listener } = await testAuthServer({ RPC_URL: node.rpcUrl })
    const answering = Promise.all(Array.from({ length: 5 }, () => request(listener).get('/ready')))
    await until(() => node.count() > 0)
    time.end(1_800)
    const answers = await answering
    expect(answers.map(({ body }) => body.dependencies.rpc)).toEqual(Array(5).fill('unavailable'))
    await request(listener).get('/ready').expect(200)
    expect(node.count()).toBe(1)
    node.stop()
  })
})

describe('the request log of the auth server', () =>
  it('contains one line per request, with fixed fields and without the path', async () => {
    const { listener, log } = await testAuthServer()
    await request(listener).get(`/request-auth/${wallet.did}?a=b`).expect(200)
    await request(listener).get(`/${serviceWallet.did}`).expect(404)
    const lines = log().filter(({ event }) => event === 'request')
    expect(lines).toEqual([
      expect.objectContaining({ method: 'GET', route: '/request-auth', status: 200 }),
      expect.objectContaining({ method: 'GET', route: 'other', status: 404, code: 'ERR_NOT_FOUND' })
    ])
    expect(lines.map((line) => Object.keys(line).join(' '))).toEqual([
      'level time server event method route status requestId milliseconds msg',
      'level time server event method route status code requestId milliseconds msg'
    ])
    for (const line of lines) expect(line).toMatchObject({ level: 'info', server: 'auth', msg: 'request' })
  }))

import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { decodePayload } from '../flows/flow-parts.js'
import { createCookieHeader, logIn, setCookies } from '../support/servers/app-client.js'
import { createAccount, createSignedSiwe } from '../support/fixtures/siwe.js'
import { testApp } from '../support/servers/test-app.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const account = createAccount(1)
const address = account.address.toLowerCase()
const did = `did:ethr:rsk:${address}`

describe('GET /siwe/nonce', () => {
  it('returns 64 hex digits as text, with their lifetime in seconds, and JSON if Accept prefers it', async () => {
    const { app } = await testApp({ siwe: true })
    const text = await request(app).get('/siwe/nonce').expect(200)
    expect(text.text).toMatch(/^[0-9a-f]{64}$/)
    expect(text.headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'cache-control': 'no-store',
      'challenge-expires-in': '310'
    })
    for (const asked of [
      request(app).post('/siwe/nonce'),
      request(app).get('/siwe/nonce').set('Accept', 'application/json, text/plain, */*')
    ]) {
      const { body, headers } = await asked.expect(200)
      expect(body).toEqual({ nonce: expect.stringMatching(/^[0-9a-f]{64}$/) })
      expect(headers).toMatchObject({ 'cache-control': 'no-store', 'challenge-expires-in': '310' })
    }
  })
})

describe('POST /siwe/verify', () => {
  it('logs a key in once with a message of viem, with account and method in the token', async () => {
    const { app } = await testApp({ siwe: true })
    const login = await createSignedSiwe(app, account)
    const { body, headers } = await request(app).post('/siwe/verify').send(login).expect(200)
    expect(headers['cache-control']).toBe('no-store')
    expect(body).toEqual({
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
      did,
      address,
      chainId: 30
    })
    expect(decodePayload(body.accessToken)).toMatchObject({ sub: did, acct: `eip155:30:${address}`, amr: ['eoa'] })
    const me = await request(app).get('/me').set('Authorization', `DIDAuth ${body.accessToken}`).expect(200)
    expect(me.body.user).toEqual({ did })
    await request(app).post('/siwe/verify').send(login).expect(401, 'Invalid challenge response: used')
  })

  it('returns the user and sets both cookies in cookie mode', async () => {
    const { app } = await testApp({ siwe: true, useCookies: true })
    const answer = await request(app)
      .post('/siwe/verify')
      .send(await createSignedSiwe(app, account))
      .expect(200, { did, address, chainId: 30 })
    const attributes = expect.arrayContaining(['Path=/', 'HttpOnly', 'Secure', 'SameSite=Strict'])
    expect(setCookies(answer).map((cookie) => cookie.split('; '))).toEqual([attributes, attributes])
    await request(app).get('/me').set('Cookie', createCookieHeader(answer)).expect(200)
  })

  it('responds 401 without a message, and for one that is not text or has no valid form', async () => {
    const { post } = await testApp({ siwe: true })
    for (const message of [undefined, { domain: 'service.example' }, ['a', 'b'], 'Hello'])
      await post('/siwe/verify', { message, signature: '0x' }).expect(401, 'Invalid sign-in message')
  })

  it('reads 32 KiB, ignores other fields, and refuses a form body', async () => {
    const { app } = await testApp({ siwe: true })
    const login = await createSignedSiwe(app, account)
    const padded = (bytes: number): string => {
      const body = JSON.stringify({ ...login, address: '0x0', padding: '' })
      return `${body.slice(0, -2)}${'x'.repeat(bytes - body.length)}"}`
    }
    const send = (body: string) => request(app).post('/siwe/verify').type('json').send(body)
    await send(padded(32_769)).expect(413)
    await send(padded(32_768)).expect(200)
    await request(app)
      .post('/siwe/verify')
      .type('form')
      .send(await createSignedSiwe(app, account))
      .expect(401)
  })

  it.each([
    ['the host of serviceUrl', 'service.example', true],
    ['the host of a trusted origin, with its port', 'localhost:5173', true],
    ['an entry of loginDomains', 'app.example', true],
    ['an entry of siwe.domains, in any letter case', 'Wide.Example:8443', true],
    ['no part of the request', 'evil.example', false],
    ['the hostname of a trusted origin', 'localhost', false]
  ])('accepts as domain %s', async (_what, domain, isGood) => {
    const { app } = await testApp({
      siwe: { domains: ['wide.example:8443'] },
      loginDomains: ['app.example', 'https://url.example/x'],
      trustedOrigins: ['http://localhost:5173']
    })
    const { message, signature } = await createSignedSiwe(app, account, { domain, uri: `https://${domain}/` })
    const answer = await request(app)
      .post('/siwe/verify')
      .set({ Host: domain, 'X-Forwarded-Host': domain })
      .send({ message, signature })
    expect([answer.status, answer.text === 'Sign-in message for another site']).toEqual([isGood ? 200 : 401, !isGood])
  })

  it.each([
    ['https://other.example', 401],
    ['https://other.example/login', 401],
    ['https://service.example/login', 200],
    ['https://app.example', 200]
  ])('responds to a text of a page that two services share, with the URI %s, with %i', async (uri, status) => {
    const { app } = await testApp({ siwe: true, trustedOrigins: ['https://app.example'] })
    const login = await createSignedSiwe(app, account, { domain: 'app.example', uri })
    const sent = request(app)
      .post('/siwe/verify')
      .set({ Origin: 'https://app.example', Accept: 'application/problem+json' })
    const { status: answered, body } = await sent.send(login)
    expect([answered, body.code]).toEqual([status, status === 401 ? 'ERR_MESSAGE_DOMAIN' : undefined])
  })

  it('calls a function of the application, which has to return true', async () => {
    const asked: string[] = []
    const domains = (domain: string) => {
      asked.push(domain)
      return domain.endsWith('.preview.example')
    }
    const { app } = await testApp({ siwe: { domains } })
    const fields = { domain: 'pr-7.preview.example', uri: 'https://pr-7.preview.example/login' }
    await request(app)
      .post('/siwe/verify')
      .send(await createSignedSiwe(app, account, fields))
      .expect(200)
    expect(new Set(asked)).toEqual(new Set(['pr-7.preview.example']))
    const promised = await testApp({ siwe: { domains: (async () => true) as unknown as () => boolean } })
    await request(promised.app)
      .post('/siwe/verify')
      .send(await createSignedSiwe(promised.app, account, fields))
      .expect(401)
  })

  it('logs the invalid line at debug, and no text of the message', async () => {
    const lines: unknown[] = []
    const logger = { debug: (fields: object) => void lines.push(fields), info() {}, warn() {}, error() {} }
    const { app } = await testApp({ siwe: true, logger })
    const { message, signature } = await createSignedSiwe(app, account)
    const broken = message.replace('Version: 1', 'Version: 2')
    await request(app).post('/siwe/verify').send({ message: broken, signature }).expect(401)
    const reason = { check: 'message', field: 'Version', expected: 'Version: 1', line: 6 }
    expect(lines).toEqual([{ event: 'request-refused', code: 'ERR_MESSAGE', reason }])
  })

  it('does not exist without the option', async () => {
    const { app } = await testApp()
    await request(app).get('/siwe/nonce').expect(404)
    await request(app).post('/siwe/verify').send({}).expect(404)
  })
})

describe('the routes of EIP-4361', () => {
  it('have the configured path, also below a router', async () => {
    const { app } = await testApp({ siwe: { path: '/wallet/' } }, { prefix: '/api' })
    await request(app).get('/api/wallet/nonce').expect(200)
    await request(app).post('/api/wallet/verify').send({}).expect(401)
    await request(app).get('/api/siwe/nonce').expect(404)
  })

  it('refuse requests of other sites in cookie mode, like every other route', async () => {
    const { app } = await testApp({ siwe: true, useCookies: true })
    const login = await createSignedSiwe(app, account)
    for (const path of ['nonce', 'verify', 'logout']) {
      const foreign = request(app).post(`/siwe/${path}`).set('Origin', 'https://evil.example')
      await foreign.send(login).expect(403, 'Cross-origin request refused')
    }
    await request(app).post('/siwe/verify').set('Origin', 'https://service.example').send(login).expect(200)
  })

  it('log out like POST /logout', async () => {
    const { app } = await testApp({ siwe: true, useCookies: true })
    const login = await request(app)
      .post('/siwe/verify')
      .send(await createSignedSiwe(app, account))
    const out = await request(app).post('/siwe/logout').set('Cookie', createCookieHeader(login)).expect(200, '')
    expect(out.headers['set-cookie']).toHaveLength(2)
    await request(app).post('/refresh-token').set('Cookie', createCookieHeader(login)).expect(401)
  })

  it('return address and chain at sessionPath, and neither after a login by /auth', async () => {
    const { app } = await testApp({ siwe: true, sessionPath: '/session' })
    const { body } = await request(app)
      .post('/siwe/verify')
      .send(await createSignedSiwe(app, account, { chainId: 137 }))
    const session = async (token: string): Promise<object> =>
      (await request(app).get('/session').set('Authorization', `DIDAuth ${token}`).expect(200)).body
    expect(await session(body.accessToken)).toMatchObject({ did, address, chainId: 137 })
    const { accessToken } = await logIn(app, createNumberedWallet(1))
    const byChallenge = await session(accessToken)
    expect(byChallenge).toMatchObject({ did })
    expect(byChallenge).not.toHaveProperty('address')
    expect(decodePayload(accessToken)).not.toHaveProperty('acct')
    expect(decodePayload(accessToken)).not.toHaveProperty('amr')
  })

  it('allow 50 times the quota of nonces per client network, and count invalid texts as proofs', async () => {
    const { app } = await testApp({ siwe: true, maxRequestsPerTimeSlot: 1 })
    for (let asked = 0; asked < 50; asked += 1) await request(app).get('/siwe/nonce').expect(200)
    const refused = await request(app).get('/siwe/nonce').expect(429)
    expect(refused.headers['retry-after']).toBe('600')
    const send = () => request(app).post('/siwe/verify').send({ message: 'x', signature: '0x' })
    for (let sent = 0; sent < 100; sent += 1) await send().expect(401)
    await send().expect(429)
    await request(app).post('/auth').send({}).expect(429)
  })
})

import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { payloadOf } from '../flows/flow-parts.js'
import { cookieHeader } from '../support/app-client.js'
import { accountOf, signedSiwe } from '../support/siwe.js'
import { testApp } from '../support/test-app.js'

const account = accountOf(1)
const address = account.address.toLowerCase()
const did = `did:ethr:rsk:${address}`

describe('GET /siwe/nonce', () => {
  it('answers 64 hex digits as text, with the seconds for which they are good, and JSON where Accept names it', async () => {
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
  it('logs a key in by a message of viem, once, with account and method in the token', async () => {
    const { app } = await testApp({ siwe: true })
    const login = await signedSiwe(app, account)
    const { body } = await request(app).post('/siwe/verify').send(login).expect(200)
    expect(body).toEqual({
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
      did,
      address,
      chainId: 30
    })
    expect(payloadOf(body.accessToken)).toMatchObject({ sub: did, acct: `eip155:30:${address}`, amr: ['eoa'] })
    const me = await request(app).get('/me').set('Authorization', `DIDAuth ${body.accessToken}`).expect(200)
    expect(me.body.user).toEqual({ did })
    await request(app).post('/siwe/verify').send(login).expect(401, 'Invalid challenge response: used')
  })

  it('answers the user and sets both cookies in cookie mode', async () => {
    const { app } = await testApp({ siwe: true, useCookies: true })
    const answer = await request(app)
      .post('/siwe/verify')
      .send(await signedSiwe(app, account))
      .expect(200, { did, address, chainId: 30 })
    await request(app).get('/me').set('Cookie', cookieHeader(answer)).expect(200)
  })

  it('is not there without the option', async () => {
    const { app } = await testApp()
    await request(app).get('/siwe/nonce').expect(404)
    await request(app).post('/siwe/verify').send({}).expect(404)
  })
})

import { describe, expect, it } from '@jest/globals'
import { es256kSigner } from 'express-did-auth'
import { accessTokenFor, fakeClock, testConfig, wallet } from 'express-did-auth/testing'
import { ES256KSigner } from 'did-jwt'
import request from 'supertest'
import { serviceUrl, serviceWallet, testApp } from '../support/test-app.js'

const alice = wallet('alice')
const tokenOf = (authorization: string): { Authorization: string } => ({ Authorization: `DIDAuth ${authorization}` })

describe('fakeClock', () => {
  it('stands still until it is moved, in either direction', () => {
    const clock = fakeClock(1000)
    clock.advance(60)
    clock.advance(-10)
    expect(clock.nowSeconds()).toBe(1050)
    expect(fakeClock().nowSeconds() % 300).toBe(0)
  })
})

describe('testConfig', () => {
  it('has the same key in every run, and lets a user send any number of requests', async () => {
    expect(testConfig().serviceDid).toBe(testConfig().serviceDid)
    const { app } = await testApp({ ...testConfig() })
    const token = await accessTokenFor(alice.did, {}, { ...testConfig(), clock: fakeClock() })
    for (let count = 0; count < 25; count += 1) await request(app).get('/me').set(tokenOf(token)).expect(200)
  })
})

describe('accessTokenFor', () => {
  it('signs what requireDid accepts where the app has testConfig', async () => {
    const { app } = await testApp({ ...testConfig(), clock: undefined })
    const token = await accessTokenFor(alice.did, { role: 'admin' })
    const { body } = await request(app).get('/me').set(tokenOf(token)).expect(200)
    expect(body.user).toEqual({ did: alice.did })
    expect(body.auth).toMatchObject({ sessionId: expect.stringMatching(/^[\w-]{24}$/), claims: { role: 'admin' } })
  })

  it.each([
    ['a key of es256kSigner', es256kSigner(serviceWallet.privateKey)],
    ['a signer of did-jwt', ES256KSigner(Buffer.from(serviceWallet.privateKey.slice(2), 'hex'))]
  ])('signs for any service, by %s and its clock', async (_what, serviceSigner) => {
    const { app, clock } = await testApp({ accessTokenExpirationTimeInSeconds: 60 })
    const service = { serviceUrl, serviceDid: serviceWallet.did, serviceSigner, clock }
    const token = await accessTokenFor(alice.did, {}, { ...service, accessTokenExpirationTimeInSeconds: 60 })
    await request(app).get('/me').set(tokenOf(token)).expect(200)
    clock.seconds += 60
    await request(app).get('/me').set(tokenOf(token)).expect(401, 'Expired access token')
  })

  it.each([
    [{ exp: 0 }, 'Expired access token'],
    [{ aud: 'https://other.example' }, 'Invalid access token'],
    [{ use: 'refresh' }, 'Invalid access token']
  ])('puts %j in place of what a token has', async (claims, text) => {
    const { app } = await testApp({ ...testConfig(), clock: undefined })
    const token = await accessTokenFor(alice.did, claims)
    await request(app).get('/me').set(tokenOf(token)).expect(401, text)
  })

  it('says that a signer returned no signature', async () => {
    const service = { ...testConfig(), serviceSigner: async () => 'none' }
    await expect(accessTokenFor(alice.did, {}, service)).rejects.toThrow('serviceSigner returned no ES256K signature')
  })
})

import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import type { DidAuthConfig } from 'express-did-auth'
import { cookieHeader, tokensOfCookies } from '../support/app-client.js'
import { breakableStore, START_SECONDS, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const sidOf = (accessToken: string): unknown =>
  JSON.parse(Buffer.from(accessToken.split('.')[1]!, 'base64url').toString()).sid

async function sessionApp(config: Partial<DidAuthConfig> = {}) {
  const test = await testApp({ sessionPath: '/session', ...config })
  return { ...test, own: (as?: string | Record<string, string>) => test.get('/session', as) }
}

/** An application with cookies, and a user who logged in. */
async function cookieApp(config: Partial<DidAuthConfig> = {}) {
  const test = await sessionApp({ useCookies: true, ...config })
  const Cookie = await test.logInForCookies()
  const { accessToken, refreshToken } = tokensOfCookies(Cookie)
  const refreshAs = (as: Record<string, string>) => test.post('/refresh-token', undefined, as)
  return { ...test, Cookie, accessToken, refreshToken, sessionId: sidOf(accessToken), refreshAs }
}

describe('GET /session', () => {
  it('is no route of ours unless sessionPath is set', async () => {
    const { own, logIn } = await sessionApp({ sessionPath: undefined })
    await own((await logIn()).accessToken).expect(404)
  })

  it('answers whose the access token is and how long it is good, not to be stored by caches', async () => {
    const { own, logIn, clock } = await sessionApp()
    const did = `did:ethr:rsk:${wallet.address}`
    const { accessToken } = await logIn(wallet, did)
    clock.seconds = START_SECONDS + 100
    const response = await own(accessToken).expect(200)
    const times = { expiresAt: START_SECONDS + 600, expiresInSeconds: 500 }
    expect(response.body).toEqual({ did, sessionId: sidOf(accessToken), ...times })
    expect(response.headers).toMatchObject({
      'cache-control': 'no-store',
      'content-type': 'application/json; charset=utf-8'
    })
  })

  it.each([
    ['nothing', {}],
    ['a token of no meaning', { Authorization: 'DIDAuth a.b.c' }],
    ['another scheme', { Authorization: 'Bearer a.b.c' }],
    ['a cookie where cookies are off', { Cookie: 'authorization=a.b.c; refresh-token=d' }]
  ])('answers {} to %s, never 401: pages poll it', async (_name, headers) => {
    await (await sessionApp()).own(headers).expect(200, {})
  })

  it('answers for the cookies in cookie mode, as for the header without them', async () => {
    const { own, Cookie, accessToken, sessionId } = await cookieApp()
    const expected = { did: wallet.did, sessionId, expiresAt: START_SECONDS + 600, expiresInSeconds: 600 }
    await own({ Cookie }).expect(200, expected)
    await own(accessToken).expect(200, expected)
  })

  it('answers the time now and 0 seconds where only the refresh cookie is good', async () => {
    const { own, clock, Cookie, refreshToken, sessionId } = await cookieApp()
    clock.seconds = START_SECONDS + 5_000
    const expected = { did: wallet.did, sessionId, expiresAt: START_SECONDS + 5_000, expiresInSeconds: 0 }
    await own({ Cookie }).expect(200, expected)
    await own({ Cookie: `refresh-token=${refreshToken}` }).expect(200, expected)
  })

  it('answers {} when the refresh cookie has expired, or is one of a session that was logged out', async () => {
    const { own, clock, post, Cookie } = await cookieApp()
    clock.seconds = START_SECONDS + 604_800
    await own({ Cookie }).expect(200, {})
    clock.seconds = START_SECONDS
    await post('/logout', undefined, { Cookie }).expect(200)
    clock.seconds = START_SECONDS + 600
    await own({ Cookie }).expect(200, {})
  })

  it('spends no refresh token, and takes a replaced one for no theft: it answers {}', async () => {
    const { own, clock, Cookie, refreshAs } = await cookieApp()
    const next = { Cookie: cookieHeader(await refreshAs({ Cookie }).expect(200)) }
    clock.seconds = START_SECONDS + 3_600
    for (let poll = 0; poll < 3; poll += 1) {
      await own({ Cookie }).expect(200, {})
      expect((await own(next).expect(200)).body).toMatchObject({ expiresInSeconds: 0 })
    }
    await refreshAs(next).expect(200)
  })

  it('answers {} to two cookies of each name, which a sibling domain may have set', async () => {
    const { own, Cookie } = await cookieApp()
    await own({ Cookie: `authorization=x; refresh-token=y; ${Cookie}` }).expect(200, {})
  })

  it('is not counted: the quota is for what comes after', async () => {
    const { own, me, logIn } = await sessionApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn()
    for (let poll = 0; poll < 5; poll += 1) await own(accessToken).expect(200)
    await me(accessToken).expect(200)
  })

  it('is 503 when the store is out of reach, and 200 while the access token says enough', async () => {
    const { store, state } = breakableStore('findSession')
    const { own, clock, Cookie } = await cookieApp({ store })
    state.isBroken = true
    await own({ Cookie }).expect(200)
    clock.seconds += 600
    const { headers } = await own({ Cookie }).expect(503, 'Store unavailable, try again')
    expect(headers['retry-after']).toBe('5')
  })

  it('keeps the refresh token of a header client out of it: it is in no header', async () => {
    const { own, logIn } = await sessionApp()
    const { refreshToken } = await logIn()
    await own().send({ refreshToken }).expect(200, {})
  })

  it('answers HEAD without a body, and no other method', async () => {
    const { app, own, post } = await sessionApp()
    expect((await request(app).head('/session').expect(200)).text).toBeUndefined()
    await own().expect(200, {})
    await post('/session').expect(404)
  })
})

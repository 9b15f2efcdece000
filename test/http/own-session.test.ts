import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { logIn, logInForCookies, type TestTokens } from '../support/app-client.js'
import { breakableStore, START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const config = { sessionPath: '/session' }
const cookieMode = { ...config, useCookies: true }
const own = ({ app }: TestApp) => request(app).get('/session')
const withHeader = (test: TestApp, accessToken: string) => own(test).set('Authorization', `DIDAuth ${accessToken}`)
const sidOf = (accessToken: string): unknown =>
  (JSON.parse(Buffer.from(accessToken.split('.')[1]!, 'base64url').toString()) as { sid: unknown }).sid
const accessOf = (cookies: string): string => /authorization=([^;]+)/.exec(cookies)![1]!
const refreshOf = (cookies: string): string => /refresh-token=([^;]+)/.exec(cookies)![1]!

describe('GET /session', () => {
  it('is no route of ours unless sessionPath is set', async () => {
    const test = await testApp()
    const { accessToken } = await logIn(test.app, wallet)
    await withHeader(test, accessToken).expect(404)
  })

  it('answers whose the access token is and how long it is good, not to be stored by caches', async () => {
    const test = await testApp(config)
    const did = `did:ethr:rsk:${wallet.address}`
    const { accessToken } = await logIn(test.app, wallet, did)
    test.clock.seconds = START_SECONDS + 100
    const response = await withHeader(test, accessToken).expect(200)
    expect(response.body).toEqual({
      did,
      sessionId: sidOf(accessToken),
      expiresAt: START_SECONDS + 600,
      expiresInSeconds: 500
    })
    expect(response.headers['cache-control']).toBe('no-store')
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
  })

  it.each([
    ['nothing', {}],
    ['a token of no meaning', { Authorization: 'DIDAuth a.b.c' }],
    ['another scheme', { Authorization: 'Bearer a.b.c' }],
    ['a cookie where cookies are off', { Cookie: 'authorization=a.b.c; refresh-token=d' }]
  ])('answers {} to %s, never 401: pages poll it', async (_name, headers) => {
    const test = await testApp(config)
    await own(test).set(headers).expect(200, {})
  })

  it('answers for the cookies in cookie mode, as for the header without them', async () => {
    const test = await testApp(cookieMode)
    const cookies = await logInForCookies(test.app, wallet)
    const expected = {
      did: wallet.did,
      sessionId: sidOf(accessOf(cookies)),
      expiresAt: START_SECONDS + 600,
      expiresInSeconds: 600
    }
    await own(test).set('Cookie', cookies).expect(200, expected)
    await withHeader(test, accessOf(cookies)).expect(200, expected)
  })

  it('answers the time now and 0 seconds where only the refresh cookie is good', async () => {
    const test = await testApp(cookieMode)
    const cookies = await logInForCookies(test.app, wallet)
    const sessionId = sidOf(accessOf(cookies))
    test.clock.seconds = START_SECONDS + 5_000
    const expected = { did: wallet.did, sessionId, expiresAt: START_SECONDS + 5_000, expiresInSeconds: 0 }
    await own(test).set('Cookie', cookies).expect(200, expected)
    await own(test)
      .set('Cookie', `refresh-token=${refreshOf(cookies)}`)
      .expect(200, expected)
  })

  it.each<[string, (test: TestApp, cookies: string) => Promise<unknown>]>([
    ['has expired', async ({ clock }) => (clock.seconds = START_SECONDS + 604_800)],
    [
      'was replaced',
      async ({ app, clock }, cookies) => {
        await request(app).post('/refresh-token').set('Cookie', cookies).expect(200)
        clock.seconds = START_SECONDS + 600
      }
    ],
    [
      'is one of a session that was logged out',
      async ({ app, clock }, cookies) => {
        await request(app).post('/logout').set('Cookie', cookies).expect(200)
        clock.seconds = START_SECONDS + 600
      }
    ]
  ])('answers {} when the refresh cookie %s', async (_name, happens) => {
    const test = await testApp(cookieMode)
    const cookies = await logInForCookies(test.app, wallet)
    await happens(test, cookies)
    await own(test).set('Cookie', cookies).expect(200, {})
  })

  it('spends no refresh token, and takes a replaced one for no theft', async () => {
    const test = await testApp(cookieMode)
    const cookies = await logInForCookies(test.app, wallet)
    const next = await request(test.app).post('/refresh-token').set('Cookie', cookies).expect(200)
    test.clock.seconds = START_SECONDS + 3_600
    for (let poll = 0; poll < 3; poll += 1) await own(test).set('Cookie', cookies).expect(200, {})
    const kept = (next.headers['set-cookie'] as unknown as string[]).map((cookie) => cookie.split(';')[0]).join('; ')
    for (let poll = 0; poll < 3; poll += 1) {
      expect((await own(test).set('Cookie', kept).expect(200)).body).toMatchObject({ expiresInSeconds: 0 })
    }
    await request(test.app).post('/refresh-token').set('Cookie', kept).expect(200)
  })

  it('answers {} to two cookies of each name, which a sibling domain may have set', async () => {
    const test = await testApp(cookieMode)
    const cookies = await logInForCookies(test.app, wallet)
    await own(test).set('Cookie', `authorization=x; refresh-token=y; ${cookies}`).expect(200, {})
  })

  it('is not counted: the quota is for what comes after', async () => {
    const test = await testApp({ ...config, maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn(test.app, wallet)
    for (let poll = 0; poll < 5; poll += 1) await withHeader(test, accessToken).expect(200)
    await request(test.app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
  })

  it('is 503 when the store is out of reach, and 200 while the access token says enough', async () => {
    const { store, state } = breakableStore('findSession')
    const test = await testApp({ ...cookieMode, store })
    const cookies = await logInForCookies(test.app, wallet)
    state.isBroken = true
    await own(test).set('Cookie', cookies).expect(200)
    test.clock.seconds = START_SECONDS + 600
    const response = await own(test).set('Cookie', cookies).expect(503, 'Store unavailable, try again')
    expect(response.headers['retry-after']).toBe('5')
  })

  it('keeps the refresh token of a header client out of it: it is in no header', async () => {
    const test = await testApp(config)
    const { refreshToken } = (await logIn(test.app, wallet)) satisfies TestTokens
    await own(test).send({ refreshToken }).expect(200, {})
  })

  it('answers HEAD without a body, and any spelling of its path that Express would take', async () => {
    const test = await testApp(config)
    const { accessToken } = await logIn(test.app, wallet)
    const head = await request(test.app).head('/session').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    expect(head.text).toBeUndefined()
    for (const path of ['/SESSION', '/session/']) await request(test.app).get(path).expect(200, {})
    await request(test.app).post('/session').expect(404)
    await request(test.app).get('/session/more').expect(404)
  })
})

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { memoryStore } from 'express-did-auth'
import {
  cookieHeader,
  logIn,
  logInForCookies,
  setCookies,
  signedLogin,
  type TestTokens
} from '../support/app-client.js'
import { breakableStore, START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const WEEK_SECONDS = 604_800
const logOut = ({ app }: TestApp, refreshToken: unknown) => request(app).post('/logout').send({ refreshToken })
const refresh = ({ app }: TestApp, refreshToken: string) => request(app).post('/refresh-token').send({ refreshToken })

describe('POST /logout with a refresh token in the body', () => {
  // Cause: a user who came back after ten minutes could not log out without a refresh before.
  it('ends its session, beside an expired access token or none', async () => {
    const test = await testApp()
    for (const authorize of [true, false]) {
      const { accessToken, refreshToken } = await logIn(test.app, wallet)
      test.clock.seconds += 600
      const sent = logOut(test, refreshToken)
      await (authorize ? sent.set('Authorization', `DIDAuth ${accessToken}`) : sent).expect(200, '')
      await refresh(test, refreshToken).expect(401, 'Invalid refresh token')
    }
  })

  it('ends the session of a replaced refresh token as well, and takes it for no theft', async () => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const next = (await refresh(test, refreshToken).expect(200)).body as TestTokens
    test.clock.seconds = START_SECONDS + 60
    await logOut(test, refreshToken).expect(200)
    await refresh(test, next.refreshToken).expect(401, 'Invalid refresh token')
    expect(test.log.map(({ fields }) => fields.event)).toEqual(['first-refusal'])
  })

  it('leaves the decision to a good access token', async () => {
    const test = await testApp()
    const [phone, laptop] = [await logIn(test.app, wallet), await logIn(test.app, wallet)]
    await logOut(test, laptop.refreshToken).set('Authorization', `DIDAuth ${phone.accessToken}`).expect(200)
    await refresh(test, phone.refreshToken).expect(401)
    await refresh(test, laptop.refreshToken).expect(200)
  })

  it('that names a session and knows not its secret is 401, and ends nothing', async () => {
    const test = await testApp()
    const { refreshToken } = await logIn(test.app, wallet)
    const guessed = `${refreshToken.split('.')[0]!}.${'b'.repeat(43)}`
    await logOut(test, guessed).expect(401, 'Invalid refresh token')
    await refresh(test, refreshToken).expect(200)
  })
})

describe('POST /logout in cookie mode', () => {
  const config = { useCookies: true }
  const send = ({ app }: TestApp, cookies: string) => request(app).post('/logout').set('Cookie', cookies)
  const clearedBy = (response: { headers: Record<string, unknown> }): string[] =>
    setCookies(response).map((cookie) => {
      expect(cookie).toMatch(/^[a-z-]+=; .*Expires=Thu, 01 Jan 1970 00:00:00 GMT/)
      return cookie.slice(0, cookie.indexOf('='))
    })
  const BOTH = ['authorization', 'refresh-token']

  it('ends the session by the refresh cookie when the access token has expired', async () => {
    const test = await testApp(config)
    const cookies = await logInForCookies(test.app, wallet)
    test.clock.seconds = START_SECONDS + 600
    expect(clearedBy(await send(test, cookies).expect(200, ''))).toEqual(BOTH)
    await request(test.app).post('/refresh-token').set('Cookie', cookies).expect(401)
    expect(clearedBy(await send(test, cookies).expect(200, ''))).toEqual(BOTH)
  })

  // Cause: a logout that failed left both cookies in the browser of somebody who had clicked "log out".
  it.each<[string, number, (test: TestApp, cookies: string) => Promise<request.Response>]>([
    ['without any token', 401, async ({ app }) => request(app).post('/logout')],
    ['with cookies of no meaning', 401, async (test) => send(test, 'authorization=x; refresh-token=y')],
    ['with two cookies of one name', 401, async (test, cookies) => send(test, `${cookies}; ${cookies}`)],
    [
      'when all has expired and was deleted',
      401,
      async (test, cookies) => {
        test.clock.seconds = START_SECONDS + WEEK_SECONDS
        await request(test.app)
          .post('/auth')
          .send(await signedLogin(test.app, walletOf(2)))
        return send(test, cookies)
      }
    ],
    [
      'with a body that does not parse',
      400,
      async ({ app }) => request(app).post('/logout').type('json').send('{"refreshToken":')
    ]
  ])('clears both cookies %s: %d', async (_name, status, answer) => {
    const clock = { seconds: START_SECONDS, nowSeconds: () => clock.seconds }
    const store = memoryStore({ monotonicSeconds: () => clock.seconds })
    const test = { ...(await testApp({ ...config, clock, store })), clock }
    const response = await answer(test, await logInForCookies(test.app, wallet))
    expect(response.status).toBe(status)
    expect(clearedBy(response)).toEqual(BOTH)
  })

  it('clears both cookies when the store is out of reach: 503', async () => {
    const { store, state } = breakableStore('endSession')
    const test = await testApp({ ...config, store })
    const cookies = await logInForCookies(test.app, wallet)
    state.isBroken = true
    expect(clearedBy(await send(test, cookies).expect(503))).toEqual(BOTH)
  })

  // Cause: the parser of the host refused the body before our route saw the request.
  it("clears both cookies when the host's own parser refuses the body: 400, but not for a page of another site", async () => {
    const test = await testApp(config, { before: (app) => app.use(express.json()) })
    const cookies = await logInForCookies(test.app, wallet)
    const sendBroken = () => send(test, cookies).type('json').send('{"refreshToken":')
    expect(clearedBy(await sendBroken().expect(400, 'Malformed JSON'))).toEqual(BOTH)
    const refused = await sendBroken().set('Sec-Fetch-Site', 'cross-site').expect(403, 'Cross-origin request refused')
    expect(setCookies(refused)).toEqual([])
  })

  // A page of another site must not be able to log its visitor out.
  it('clears nothing when a page of another site sends it, and ends no session: 403', async () => {
    const test = await testApp(config)
    const cookies = await logInForCookies(test.app, wallet)
    for (const headers of [{ Origin: 'https://evil.example' }, { 'Sec-Fetch-Site': 'cross-site' }]) {
      const refused = await send(test, cookies).set(headers).expect(403, 'Cross-origin request refused')
      expect(setCookies(refused)).toEqual([])
      const without = await request(test.app).post('/logout').set(headers).expect(403)
      expect(setCookies(without)).toEqual([])
    }
    await request(test.app).post('/refresh-token').set('Cookie', cookies).expect(200)
  })

  it('takes the refresh token from the body where there is no cookie', async () => {
    const test = await testApp(config)
    const cookies = await logInForCookies(test.app, wallet)
    const refreshToken = /refresh-token=([^;]+)/.exec(cookies)![1]!
    await logOut(test, refreshToken).expect(200, '')
    await request(test.app).post('/refresh-token').set('Cookie', cookies).expect(401)
  })
})

describe('the cookies of a session with an end', () => {
  const config = { useCookies: true, userSessionDurationInHours: 2, absoluteSessionDurationInHours: 3 }
  const maxAgesOf = (response: { headers: Record<string, unknown> }): string[] =>
    setCookies(response).map((cookie) => /Max-Age=(\d+)/.exec(cookie)![1]!)

  it('have a Max-Age that never reaches beyond it', async () => {
    const test = await testApp(config)
    const login = await request(test.app)
      .post('/auth')
      .send(await signedLogin(test.app, wallet))
    expect(maxAgesOf(login)).toEqual(['7200', '7200'])
    test.clock.seconds = START_SECONDS + 5_400
    const refreshed = await request(test.app).post('/refresh-token').set('Cookie', cookieHeader(login)).expect(200)
    expect(maxAgesOf(refreshed)).toEqual(['5400', '5400'])
    test.clock.seconds = START_SECONDS + 10_799
    const last = await request(test.app).post('/refresh-token').set('Cookie', cookieHeader(refreshed)).expect(200)
    expect(maxAgesOf(last)).toEqual(['1', '1'])
    test.clock.seconds = START_SECONDS + 10_800
    await request(test.app).post('/refresh-token').set('Cookie', cookieHeader(last)).expect(401)
  })
})

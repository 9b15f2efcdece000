import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { memoryStore } from 'express-did-auth'
import { setCookies, readCookieTokens } from '../support/servers/app-client.js'
import { breakableStore, testApp, type Host } from '../support/servers/test-app.js'
import { createNumberedWallet, TestClock } from '../support/fixtures/fixtures.js'

const WEEK_SECONDS = 604_800

describe('POST /logout with a refresh token in the body', () => {
  const loggedIn = async () => {
    const test = await testApp()
    const logOutBy = (refreshToken: string, as = {}) => test.post('/logout', { refreshToken }, as)
    return { ...test, ...(await test.logIn()), logOutBy }
  }

  // Cause: a user who returned after ten minutes had to refresh before a logout.
  it('ends its session, with an expired access token or none', async () => {
    const { logIn, logOutBy, refresh, clock } = await loggedIn()
    for (const isSent of [true, false]) {
      const { accessToken, refreshToken } = await logIn()
      clock.seconds += 600
      await logOutBy(refreshToken, isSent ? { Authorization: `DIDAuth ${accessToken}` } : {}).expect(200, '')
      await refresh(refreshToken).expect(401, 'Invalid refresh token')
    }
  })

  it('ends its session, with an access token that is damaged', async () => {
    const { refreshToken, logOutBy, refresh } = await loggedIn()
    await logOutBy(refreshToken, { Authorization: 'DIDAuth a.b.c' }).expect(200, '')
    await refresh(refreshToken).expect(401, 'Invalid refresh token')
  })

  it('ends the session of a replaced refresh token too, and reports no theft', async () => {
    const { refreshToken, logOutBy, refresh, clock, log } = await loggedIn()
    const next = (await refresh(refreshToken).expect(200)).body
    clock.seconds += 60
    await logOutBy(refreshToken).expect(200)
    await refresh(next.refreshToken).expect(401, 'Invalid refresh token')
    expect(log.map(({ fields }) => fields.event)).toEqual(['first-refusal'])
  })

  it('ends the session of a valid access token instead', async () => {
    const { accessToken, refreshToken, logIn, logOutBy, refresh } = await loggedIn()
    const laptop = await logIn()
    await logOutBy(laptop.refreshToken, { Authorization: `DIDAuth ${accessToken}` }).expect(200)
    await refresh(refreshToken).expect(401)
    await refresh(laptop.refreshToken).expect(200)
  })

  it('responds 401 to a valid session id with a wrong secret, and ends nothing', async () => {
    const { refreshToken, logOutBy, refresh } = await loggedIn()
    await logOutBy(`${refreshToken.split('.')[0]!}.${'b'.repeat(43)}`).expect(401, 'Invalid refresh token')
    await refresh(refreshToken).expect(200)
  })
})

describe('POST /logout without a refresh token', () =>
  it('responds 401 without an access token, and to a forged one', async () => {
    const { post } = await testApp()
    await post('/logout', {}).expect(401, 'Missing access token')
    await post('/logout', {}, 'x.y.z').expect(401, 'Invalid access token')
  }))

describe('POST /logout in cookie mode', () => {
  const BOTH = ['authorization', 'refresh-token']
  const clearedBy = (response: { headers: Record<string, unknown> }): string[] =>
    setCookies(response).map((cookie) => {
      expect(cookie).toMatch(/^[a-z-]+=; .*Expires=Thu, 01 Jan 1970 00:00:00 GMT/)
      return cookie.slice(0, cookie.indexOf('='))
    })
  const loggedIn = async (config = {}, host: Host = {}) => {
    const test = await testApp({ useCookies: true, ...config }, host)
    const Cookie = await test.logInForCookies()
    const send = (cookies: string | undefined = Cookie, headers = {}) =>
      test.post('/logout', undefined, { ...headers, ...(cookies !== '' && { Cookie: cookies }) })
    const refreshed = () => test.post('/refresh-token', undefined, { Cookie })
    return { ...test, Cookie, send, refreshed }
  }
  type LoggedIn = Awaited<ReturnType<typeof loggedIn>>

  it('ends the session by the refresh cookie when the access token has expired', async () => {
    const { send, refreshed, clock } = await loggedIn()
    clock.seconds += 600
    expect(clearedBy(await send().expect(200, ''))).toEqual(BOTH)
    await refreshed().expect(401)
    expect(clearedBy(await send().expect(200, ''))).toEqual(BOTH)
  })

  // Cause: a failed logout left both cookies in the browser of a user who had clicked "log out".
  it.each<[string, number, (test: LoggedIn) => Promise<request.Response>]>([
    ['without any token', 401, async ({ send }) => send('')],
    ['with cookies of no meaning', 401, async ({ send }) => send('authorization=x; refresh-token=y')],
    [
      'when all has expired and was deleted',
      401,
      async ({ clock, post, createSignedLogin, send }) => {
        clock.seconds += WEEK_SECONDS
        await post('/auth', await createSignedLogin(createNumberedWallet(2)))
        return send()
      }
    ],
    [
      'with a body that does not parse',
      400,
      async ({ app }) => request(app).post('/logout').type('json').send('{"refreshToken":')
    ]
  ])('clears both cookies %s: %d', async (_name, status, answer) => {
    const clock = new TestClock()
    const store = memoryStore({ monotonicSeconds: () => clock.seconds })
    const response = await answer({ ...(await loggedIn({ clock, store })), clock })
    expect(response.status).toBe(status)
    expect(clearedBy(response)).toEqual(BOTH)
  })

  it('ends the sessions of the first 4 cookies of each name, and answers 200', async () => {
    const { logInForCookies, post, send } = await loggedIn()
    const logIns = await Promise.all(
      Array.from({ length: 6 }, (_, index) => logInForCookies(createNumberedWallet(index + 1)))
    )
    const tokens = logIns.map(readCookieTokens)
    const access = tokens.slice(0, 2).map(({ accessToken }) => `authorization=${accessToken}`)
    const refresh = tokens.slice(2).map(({ refreshToken }) => `refresh-token=${refreshToken}`)
    const answer = await send([...access, 'refresh-token=x', ...refresh].join('; ')).expect(200, '')
    expect(new Set(clearedBy(answer))).toEqual(new Set(BOTH))
    const Paths = setCookies(answer).map((cookie) => /Path=([^;]*)/.exec(cookie)![1])
    expect(new Set(Paths)).toEqual(new Set(['/', '/logout', '/logout/']))
    const statuses = await Promise.all(
      tokens.map(async ({ refreshToken }) => (await post('/refresh-token', { refreshToken })).status)
    )
    expect(statuses).toEqual([401, 401, 401, 401, 401, 200])
  })

  it('answers 200 to duplicate cookies of no meaning, and 503 if the store is unavailable', async () => {
    const { store, state } = breakableStore('endSession')
    const { send, Cookie } = await loggedIn({ store })
    await send('authorization=x; authorization=y').expect(200, '')
    state.isBroken = true
    await send(`${Cookie}; authorization=x`).expect(503)
  })

  it('clears both cookies if the store is unavailable: 503', async () => {
    const { store, state } = breakableStore('endSession')
    const { send } = await loggedIn({ store })
    state.isBroken = true
    expect(clearedBy(await send().expect(503))).toEqual(BOTH)
  })

  // A page of another site must not be able to log its visitor out.
  it('clears nothing and ends no session for a page of another site: 403', async () => {
    const { send, refreshed } = await loggedIn()
    for (const headers of [{ Origin: 'https://evil.example' }, { 'Sec-Fetch-Site': 'cross-site' }]) {
      for (const cookies of [undefined, '']) {
        const refused = await send(cookies, headers).expect(403, 'Cross-origin request refused')
        expect(setCookies(refused)).toEqual([])
      }
    }
    await refreshed().expect(200)
  })

  // Cause: with `resourceIssuer`, a made-up token of another service disabled the same-site check.
  it('clears nothing for another site with a Bearer token in addition to the cookies', async () => {
    const { send, refreshed } = await loggedIn({ resourceIssuer: { issuer: 'https://auth.example' } })
    const headers = { Origin: 'https://evil.example', Authorization: 'Bearer x' }
    expect(setCookies(await send(undefined, headers).expect(403, 'Cross-origin request refused'))).toEqual([])
    await refreshed().expect(200)
  })

  // Browsers add the password of a page to requests that other sites cause.
  it('clears nothing for another site with a password in addition to no cookie', async () => {
    const { send } = await loggedIn()
    const headers = { Origin: 'https://evil.example', Authorization: 'Basic eDp5' }
    expect(setCookies(await send('', headers).expect(403, 'Cross-origin request refused'))).toEqual([])
  })

  it('reads the refresh token from the body if there is no cookie', async () => {
    const { post, Cookie, refreshed } = await loggedIn()
    await post('/logout', { refreshToken: readCookieTokens(Cookie).refreshToken }).expect(200, '')
    await refreshed().expect(401)
  })
})

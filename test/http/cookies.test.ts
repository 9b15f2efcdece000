import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { cookieHeader, logInForCookies, setCookies, signedLogin, signUpChallenge } from '../support/app-client.js'
import { START_SECONDS, testApp } from '../support/test-app.js'
import { loginText, walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const config = { useCookies: true }
const accessOf = (cookies: string): string => /authorization=([^;]+)/.exec(cookies)![1]!
const refreshOf = (cookies: string): string => /refresh-token=([^;]+)/.exec(cookies)![1]!

/** Name and attributes of the cookies set, without values and dates, which are the test's own to look at. */
const attributesOf = (response: { headers: Record<string, unknown> }): string[][] =>
  setCookies(response).map((cookie) =>
    cookie
      .split('; ')
      .map((part) => part.replace(/^(authorization|refresh-token|Expires)=.*$/, '$1'))
      .sort()
  )

const SET = ['Expires', 'HttpOnly', 'Max-Age=604800', 'Path=/', 'SameSite=Strict', 'Secure']
const CLEARED = ['Expires', 'HttpOnly', 'Path=/', 'SameSite=Strict', 'Secure']

describe('in cookie mode', () => {
  it.each(['/auth', '/signup'])('POST %s answers 200 without content, and both cookies', async (path) => {
    const { app } = await testApp(config)
    const response = await request(app)
      .post(path)
      .send(await signedLogin(app, wallet))
      .expect(200, '')
    expect(response.headers).toMatchObject({ 'content-length': '0', 'cache-control': 'no-store' })
    expect(attributesOf(response)).toEqual([
      [...SET, 'authorization'],
      ['Expires', 'HttpOnly', 'Max-Age=604800', 'Path=/', 'SameSite=Strict', 'Secure', 'refresh-token']
    ])
    await request(app).get('/me').set('Cookie', cookieHeader(response)).expect(200)
  })

  it('gives both cookies the lifetime of the refresh token', async () => {
    const { app } = await testApp({ ...config, userSessionDurationInHours: 0.25 })
    const response = await request(app)
      .post('/auth')
      .send(await signedLogin(app, wallet))
    for (const cookie of setCookies(response)) expect(cookie).toContain('; Max-Age=900;')
  })

  it('POST /refresh-token replaces both cookies', async () => {
    const { app, clock } = await testApp(config)
    const cookies = await logInForCookies(app, wallet)
    clock.seconds = START_SECONDS + 1
    const response = await request(app).post('/refresh-token').set('Cookie', cookies).expect(200, '')
    expect(attributesOf(response)).toEqual([
      [...SET, 'authorization'],
      [...SET, 'refresh-token']
    ])
    const next = cookieHeader(response)
    expect(accessOf(next)).not.toBe(accessOf(cookies))
    expect(refreshOf(next)).not.toBe(refreshOf(cookies))
    await request(app).get('/me').set('Cookie', next).expect(200)
    await request(app).post('/refresh-token').set('Cookie', next).expect(200)
  })

  it('POST /refresh-token of the loser is 401 and clears no cookie, within the grace and after it', async () => {
    const { app, clock } = await testApp(config)
    const cookies = await logInForCookies(app, wallet)
    await request(app).post('/refresh-token').set('Cookie', cookies).expect(200)
    for (const seconds of [START_SECONDS, START_SECONDS + 60]) {
      clock.seconds = seconds
      const loser = await request(app).post('/refresh-token').set('Cookie', cookies).expect(401)
      expect(setCookies(loser)).toEqual([])
    }
  })

  it('POST /logout clears both cookies and ends the session', async () => {
    const { app } = await testApp(config)
    const cookies = await logInForCookies(app, wallet)
    const response = await request(app).post('/logout').set('Cookie', cookies).expect(200, '')
    expect(attributesOf(response)).toEqual([
      [...CLEARED, 'authorization'],
      [...CLEARED, 'refresh-token']
    ])
    for (const cookie of setCookies(response)) {
      expect(cookie).toMatch(/^[a-z-]+=; /)
      expect(cookie).toContain('Expires=Thu, 01 Jan 1970 00:00:00 GMT')
    }
    await request(app).post('/refresh-token').set('Cookie', cookies).expect(401, 'Invalid refresh token')
  })

  it('without a cookie the header and the body count', async () => {
    const { app } = await testApp(config)
    const cookies = await logInForCookies(app, wallet)
    const authorization = `DIDAuth ${accessOf(cookies)}`
    await request(app).get('/me').set('Authorization', authorization).expect(200)
    await request(app)
      .post('/refresh-token')
      .send({ refreshToken: refreshOf(cookies) })
      .expect(200, '')
    await request(app).post('/logout').set('Authorization', authorization).expect(200, '')
  })

  it('the cookie counts where both are there', async () => {
    const { app } = await testApp(config)
    const cookies = await logInForCookies(app, wallet)
    const other = await logInForCookies(app, walletOf(2))
    const { body } = await request(app)
      .get('/me')
      .set('Cookie', cookies)
      .set('Authorization', `DIDAuth ${accessOf(other)}`)
      .expect(200)
    expect((body as { user: unknown }).user).toEqual({ did: wallet.did })
    await request(app)
      .get('/me')
      .set('Cookie', 'authorization=garbage')
      .set('Authorization', `DIDAuth ${accessOf(other)}`)
      .expect(401, 'Invalid access token')
  })

  it.each([
    ['twice the same', (good: string) => `${good}; ${good}`],
    ['a good one and an empty one', (good: string) => `${good}; authorization=; refresh-token=`],
    ['a foreign one first', (good: string) => `authorization=x; refresh-token=x;${good}`],
    ['two without a blank between', (good: string) => `${good};${good}`]
  ])('answers 401 to two cookies of one name: %s', async (_name, spoil) => {
    const { app } = await testApp(config)
    const cookies = await logInForCookies(app, wallet)
    await request(app).get('/me').set('Cookie', spoil(cookies)).expect(401, 'Duplicate cookie')
    await request(app).post('/logout').set('Cookie', spoil(cookies)).expect(401, 'Duplicate cookie')
    const refused = await request(app)
      .post('/refresh-token')
      .set('Cookie', spoil(cookies))
      .set('Accept', 'application/problem+json')
    expect(refused.body).toEqual({
      type: 'about:blank',
      title: 'Duplicate cookie',
      status: 401,
      code: 'ERR_DUPLICATE_COOKIE'
    })
    await request(app).post('/refresh-token').set('Cookie', cookies).expect(200)
  })

  it('answers 401 to two refresh-token cookies, also beside a good token in the body', async () => {
    const { app } = await testApp(config)
    const refreshToken = refreshOf(await logInForCookies(app, wallet))
    const refresh = (cookies: string) =>
      request(app).post('/refresh-token').set('Cookie', cookies).send({ refreshToken })
    await refresh(`refresh-token=${refreshToken}; refresh-token=${refreshToken}`).expect(401, 'Duplicate cookie')
    await refresh('refresh-token=; refresh-token=').expect(401, 'Duplicate cookie')
    await refresh('theme=dark').expect(200)
  })

  it.each([
    'theme=dark; ',
    'authorization2=x; xauthorization=y; ',
    'authorizationX; ',
    'Authorization=another; ',
    '=; ;; ',
    'a=authorization=x; '
  ])('other cookies do not matter: %s', async (others) => {
    const { app } = await testApp(config)
    const cookies = await logInForCookies(app, wallet)
    await request(app)
      .get('/me')
      .set('Cookie', others + cookies)
      .expect(200)
  })

  it.each(['', 'j:{"a":1}', 'j:["a"]', 'j:null', 's:signed.signature', '%', '%E0%A4%A', 'a'.repeat(5000), '__proto__'])(
    'answers 401 to a cookie whose value is %.20s',
    async (value) => {
      const { app } = await testApp(config)
      await request(app).get('/me').set('Cookie', `authorization=${value}`).expect(401, 'Invalid access token')
      await request(app)
        .post('/refresh-token')
        .set('Cookie', `refresh-token=${value}`)
        .expect(401, 'Invalid refresh token')
    }
  )

  it('answers 401 to the cookies when each stands in the place of the other', async () => {
    const { app } = await testApp(config)
    const cookies = await logInForCookies(app, wallet)
    const swapped = `authorization=${refreshOf(cookies)}; refresh-token=${accessOf(cookies)}`
    await request(app).get('/me').set('Cookie', swapped).expect(401, 'Invalid access token')
    await request(app).post('/refresh-token').set('Cookie', swapped).expect(401, 'Invalid refresh token')
  })

  it('keeps a Set-Cookie of the host', async () => {
    const { app } = await testApp(config, {
      before: (host) =>
        host.use((_req, res, next) => {
          res.cookie('theme', 'dark')
          next()
        })
    })
    const sig = wallet.personalSign(loginText('service.example', await signUpChallenge(app, wallet.did)))
    const response = await request(app).post('/signup').send({ did: wallet.did, sig }).expect(200)
    expect(setCookies(response).map((cookie) => cookie.split('=')[0])).toEqual([
      'theme',
      'authorization',
      'refresh-token'
    ])
  })
})

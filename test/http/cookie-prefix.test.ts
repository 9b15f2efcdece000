import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { cookieHeader, setCookies, signedLogin } from '../support/app-client.js'
import { testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const config = { useCookies: true, cookiePrefix: '__Host-' } as const
const NAMES = ['__Host-authorization', '__Host-refresh-token']

async function loggedIn(options: typeof config | { useCookies: true } = config) {
  const test = await testApp({ ...options, sessionPath: '/session' })
  const response = await request(test.app)
    .post('/auth')
    .send(await signedLogin(test.app, wallet))
    .expect(200)
  return { ...test, response, cookies: cookieHeader(response) }
}

describe("cookiePrefix: '__Host-'", () => {
  it('stands before both names, and both have what a browser asks of such a cookie: Secure, Path=/, no Domain', async () => {
    const { response } = await loggedIn()
    const cookies = setCookies(response)
    expect(cookies.map((cookie) => cookie.split('=')[0])).toEqual(NAMES)
    for (const cookie of cookies) {
      const attributes = cookie.split('; ').slice(1)
      expect(attributes.filter((attribute) => !attribute.startsWith('Expires='))).toEqual([
        'Max-Age=604800',
        'Path=/',
        'HttpOnly',
        'Secure',
        'SameSite=Strict'
      ])
    }
  })

  it('is read by guard, refresh, session and logout', async () => {
    const { app, cookies } = await loggedIn()
    await request(app).get('/me').set('Cookie', cookies).expect(200)
    expect((await request(app).get('/session').set('Cookie', cookies).expect(200)).body).toMatchObject({
      did: wallet.did
    })
    const refreshed = await request(app).post('/refresh-token').set('Cookie', cookies).expect(200)
    expect(setCookies(refreshed).map((cookie) => cookie.split('=')[0])).toEqual(NAMES)
    const ended = await request(app).post('/logout').set('Cookie', cookieHeader(refreshed)).expect(200)
    expect(setCookies(ended).map((cookie) => cookie.slice(0, cookie.indexOf(';')))).toEqual(
      NAMES.map((name) => `${name}=`)
    )
    for (const cookie of setCookies(ended)) expect(cookie).toMatch(/; Path=\/; .*; Secure/)
    await request(app).post('/refresh-token').set('Cookie', cookieHeader(refreshed)).expect(401)
  })

  // A page of a sibling domain can set a cookie of the plain name, and none of the prefixed one.
  it('keeps cookies without it out: they are neither read nor counted', async () => {
    const { app, cookies } = await loggedIn()
    const plain = cookies.replaceAll('__Host-', '')
    await request(app).get('/me').set('Cookie', plain).expect(401, 'Missing access token')
    await request(app).post('/refresh-token').set('Cookie', plain).expect(401, 'Invalid refresh token')
    await request(app).get('/me').set('Cookie', `authorization=x; ${cookies}; authorization=y`).expect(200)
  })
})

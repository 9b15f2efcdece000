import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { setCookies, readCookieTokens } from '../support/servers/app-client.js'
import { testApp } from '../support/servers/test-app.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const { did } = createNumberedWallet(1)
const APP = 'https://app.example'
const REFUSAL = 'Cross-origin request refused'
const evil = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' }

const guardedApp = async (more: object = {}) =>
  testApp(
    { useCookies: true, trustedOrigins: [APP], ...more },
    {
      after: (app, requireDid) => {
        app.all('/thing', requireDid, (_req, res) => {
          res.send('done')
        })
        app.post('/open', (_req, res) => {
          res.send('open')
        })
      }
    }
  )

describe('every unsafe route in cookie mode', () => {
  it.each([
    ...['/request-auth', '/request-signup', '/auth', '/signup', '/refresh-token', '/logout'].map((path) => [
      'post',
      path
    ]),
    ...['post', 'put', 'patch', 'delete'].map((method) => [method, '/thing'])
  ] as ['post', string][])('is protected: %s %s', async (method, path) => {
    const { app, createSignedLogin, logInForCookies } = await guardedApp()
    const isLogin = path === '/auth' || path === '/signup'
    const body = isLogin ? await createSignedLogin() : { did }
    const cookies = isLogin ? {} : { Cookie: await logInForCookies() }
    const from = (origin: string) =>
      request(app)
        [method](path)
        .set({ Origin: origin, ...cookies })
        .send(body)
    const refused = await from('https://evil.example').expect(403, REFUSAL)
    expect(setCookies(refused)).toEqual([])
    // The refused request has consumed nothing.
    await from(APP).expect(200)
  })
})

describe('the guard against cross-site requests', () => {
  it('allows safe methods', async () => {
    const { app, get, logInForCookies } = await guardedApp()
    const Cookie = await logInForCookies()
    for (const method of ['get', 'head', 'options'] as const) {
      await request(app)
        [method]('/thing')
        .set({ Cookie, ...evil })
        .expect(200)
    }
    await get(`/request-auth/${did}`, evil).expect(200)
  })

  it('allows a request with its token in the header and no cookie, and refuses one with both', async () => {
    const { post, logInForCookies } = await guardedApp()
    const Cookie = await logInForCookies()
    const own = { Authorization: `DIDAuth ${readCookieTokens(Cookie).accessToken}`, ...evil }
    await post('/thing', undefined, { ...own, Cookie }).expect(403, REFUSAL)
    await post('/thing', undefined, own).expect(200)
    await post('/logout', undefined, own).expect(200)
  })

  it('allows the form of an own page whose Referrer-Policy makes its Origin null, and no sandbox', async () => {
    const { post, logInForCookies } = await guardedApp()
    const own = { Cookie: await logInForCookies(), Origin: 'null', 'Sec-Fetch-Site': 'same-origin' }
    for (const site of ['cross-site', 'same-site', 'none']) {
      await post('/thing', undefined, { ...own, 'Sec-Fetch-Site': site }).expect(403, REFUSAL)
    }
    await post('/thing', undefined, own).expect(200)
    await post('/logout', undefined, own).expect(200)
  })

  it("ignores the host's own open routes", async () => {
    const { post } = await guardedApp()
    await post('/open', undefined, evil).expect(200, 'open')
  })

  it('runs before the token check, which runs before the quota', async () => {
    const { post, logInForCookies } = await guardedApp({ maxRequestsPerTimeSlot: 1 })
    const good = { Cookie: await logInForCookies() }
    const bad = { Cookie: 'authorization=garbage' }
    const expected: [Record<string, string>, number][] = [
      [evil, 403],
      [{ ...evil, ...bad }, 403],
      [good, 200],
      [good, 429],
      [{ ...good, ...evil }, 403],
      [bad, 401],
      [{}, 401]
    ]
    for (const [headers, status] of expected) await post('/thing', undefined, headers).expect(status)
  })

  it('is off without cookies', async () => {
    const { post, createSignedLogin } = await testApp()
    await post('/auth', await createSignedLogin(), evil).expect(200)
  })
})

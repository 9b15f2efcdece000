import { describe, expect, it } from '@jest/globals'
import type { Express } from 'express'
import request from 'supertest'
import { logInForCookies, setCookies, signedLogin } from '../support/app-client.js'
import { testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const APP = 'https://app.example'
const config = { useCookies: true, trustedOrigins: [APP] }
const REFUSAL = 'Cross-origin request refused'

interface Unsafe {
  body?: object
  cookies?: string
}

/** Every unsafe route, each with what makes it answer 200. */
const routes: [string, (app: Express) => Promise<Unsafe>][] = [
  ['post /request-auth', async () => ({ body: { did: wallet.did } })],
  ['post /request-signup', async () => ({ body: { did: wallet.did } })],
  ['post /auth', async (app) => ({ body: await signedLogin(app, wallet) })],
  ['post /signup', async (app) => ({ body: await signedLogin(app, wallet) })],
  ['post /refresh-token', async (app) => ({ cookies: await logInForCookies(app, wallet) })],
  ['post /logout', async (app) => ({ cookies: await logInForCookies(app, wallet) })],
  ['post /thing', async (app) => ({ cookies: await logInForCookies(app, wallet) })],
  ['put /thing', async (app) => ({ cookies: await logInForCookies(app, wallet) })],
  ['patch /thing', async (app) => ({ cookies: await logInForCookies(app, wallet) })],
  ['delete /thing', async (app) => ({ cookies: await logInForCookies(app, wallet) })]
]

const guardedApp = async (more: object = {}) =>
  testApp(
    { ...config, ...more },
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

describe('in cookie mode, every unsafe route', () => {
  it.each(routes)('is guarded: %s', async (route, prepare) => {
    const { app } = await guardedApp()
    const { body, cookies } = await prepare(app)
    const [method, path] = route.split(' ') as ['post', string]
    const from = (origin: string) =>
      request(app)
        [method](path)
        .set({ Origin: origin, ...(cookies !== undefined && { Cookie: cookies }) })
        .send(body)
    const refused = await from('https://evil.example').expect(403, REFUSAL)
    expect(setCookies(refused)).toEqual([])
    await from(APP).expect(200)
  })
})

describe('the guard against cross-site requests', () => {
  const evil = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' }

  it('lets safe methods pass', async () => {
    const { app } = await guardedApp()
    const cookies = await logInForCookies(app, wallet)
    await request(app).get('/thing').set('Cookie', cookies).set(evil).expect(200)
    await request(app).head('/thing').set('Cookie', cookies).set(evil).expect(200)
    await request(app).options('/thing').set('Cookie', cookies).set(evil).expect(200)
    await request(app).get(`/request-auth/${wallet.did}`).set(evil).expect(200)
  })

  it('lets a request pass that carries its token in the header, and no cookie', async () => {
    const { app } = await guardedApp()
    const token = /authorization=([^;]+)/.exec(await logInForCookies(app, wallet))![1]!
    await request(app).post('/thing').set('Authorization', `DIDAuth ${token}`).set(evil).expect(200)
    await request(app).post('/logout').set('Authorization', `DIDAuth ${token}`).set(evil).expect(200)
  })

  it('refuses one that carries both', async () => {
    const { app } = await guardedApp()
    const cookies = await logInForCookies(app, wallet)
    const token = /authorization=([^;]+)/.exec(cookies)![1]!
    await request(app)
      .post('/thing')
      .set('Cookie', cookies)
      .set('Authorization', `DIDAuth ${token}`)
      .set(evil)
      .expect(403, REFUSAL)
  })

  it("leaves the host's own open routes alone", async () => {
    const { app } = await guardedApp()
    await request(app).post('/open').set(evil).expect(200, 'open')
  })

  it('decides before the token is looked at, and the token before the quota', async () => {
    const { app } = await guardedApp({ maxRequestsPerTimeSlot: 1 })
    const cookies = await logInForCookies(app, wallet)
    const post = () => request(app).post('/thing')
    await post().set(evil).expect(403)
    await post().set(evil).set('Cookie', 'authorization=garbage').expect(403)
    await post().set('Cookie', cookies).expect(200)
    await post().set('Cookie', cookies).expect(429)
    await post().set('Cookie', cookies).set(evil).expect(403)
    await post().set('Cookie', 'authorization=garbage').expect(401)
    await post().expect(401)
  })

  it('spends nothing when it refuses', async () => {
    const { app } = await guardedApp()
    const login = await signedLogin(app, wallet)
    await request(app).post('/auth').set(evil).send(login).expect(403)
    await request(app).post('/auth').send(login).expect(200)
  })

  it('is off where tokens do not travel in cookies', async () => {
    const { app } = await testApp()
    await request(app)
      .post('/auth')
      .set(evil)
      .send(await signedLogin(app, wallet))
      .expect(200)
  })
})

import { describe, it } from '@jest/globals'
import request from 'supertest'
import type { DidAuthConfig, RequireDid } from 'express-did-auth'
import { logIn, logInForCookies } from '../support/app-client.js'
import { START_SECONDS, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
type OptionalGuard = (requireDid: RequireDid) => RequireDid['optional']

const newsApp = (guard: OptionalGuard, config: Partial<DidAuthConfig> = {}) =>
  testApp(config, {
    after: (app, requireDid) =>
      app.all('/news', guard(requireDid), (req, res) => {
        res.json({ isGuest: req.user === undefined && req.auth === undefined, did: req.user?.did })
      })
  })
const GUEST = { isGuest: true }
const USER = { isGuest: false, did: wallet.did }

describe.each<[string, OptionalGuard]>([
  ['requireDid.optional', (requireDid) => requireDid.optional],
  ['requireDid.with({ optional: true })', (requireDid) => requireDid.with({ optional: true })]
])('%s', (_name, guard) => {
  it('lets a request without token pass, with req.user undefined', async () => {
    const { app } = await newsApp(guard)
    await request(app).get('/news').expect(200, GUEST)
    await request(app).post('/news').expect(200, GUEST)
  })

  it('sets req.user for a good token, and counts it against the quota', async () => {
    const { app } = await newsApp(guard, { maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn(app, wallet)
    const news = () => request(app).get('/news').set('Authorization', `DIDAuth ${accessToken}`)
    await news().expect(200, USER)
    await news().expect(429, 'Too many requests')
    await request(app).get('/news').expect(200, GUEST)
  })

  it('refuses an expired token: the client has to learn of it', async () => {
    const { app, clock } = await newsApp(guard)
    const { accessToken } = await logIn(app, wallet)
    clock.seconds = START_SECONDS + 600
    await request(app).get('/news').set('Authorization', `DIDAuth ${accessToken}`).expect(401, 'Expired access token')
  })

  it('in cookie mode reads the cookies, and passes without them', async () => {
    const { app } = await newsApp(guard, { useCookies: true })
    const cookies = await logInForCookies(app, wallet)
    await request(app).get('/news').set('Cookie', cookies).expect(200, USER)
    await request(app).get('/news').set('Cookie', 'theme=dark').expect(200, GUEST)
    await request(app).get('/news').set('Cookie', 'authorization=x').expect(401, 'Invalid access token')
  })

  it('in cookie mode refuses what a page of another site sends with cookies, and nothing is asked of a guest', async () => {
    const { app } = await newsApp(guard, { useCookies: true })
    const cookies = await logInForCookies(app, wallet)
    const foreign = { Origin: 'https://evil.example' }
    await request(app).post('/news').set('Cookie', cookies).set(foreign).expect(403)
    await request(app).post('/news').set(foreign).expect(200, GUEST)
  })
})

describe('requireDid.with({ optional: true, checkSession: true })', () => {
  it('lets a guest pass, and refuses a session that has ended', async () => {
    const { app, requireDid } = await newsApp((one) => one.with({ optional: true, checkSession: true }))
    const { accessToken } = await logIn(app, wallet)
    const news = () => request(app).get('/news').set('Authorization', `DIDAuth ${accessToken}`)
    await news().expect(200, USER)
    await requireDid.sessions.revokeAll(wallet.did)
    await news().expect(401, 'Session ended')
    await request(app).get('/news').expect(200, GUEST)
  })
})

import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { type DidAuthConfig } from 'express-did-auth'
import { logIn } from '../support/app-client.js'
import { breakableStore, testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)

/** An application with a guarded `POST /pay` that asks the store about the session. */
const payApp = (config: Partial<DidAuthConfig> = {}) =>
  testApp(config, {
    after: (app, requireDid) =>
      app.post('/pay', requireDid.with({ checkSession: true }), (req, res) => {
        res.json({ user: req.user, auth: req.auth })
      })
  })
const pay = ({ app }: TestApp, accessToken: string) =>
  request(app).post('/pay').set('Authorization', `DIDAuth ${accessToken}`)
const me = ({ app }: TestApp, accessToken: string) =>
  request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`)

describe('requireDid.with({ checkSession: true })', () => {
  it('lets an active session pass, with the same req.user and req.auth as requireDid', async () => {
    const test = await payApp()
    const { accessToken } = await logIn(test.app, wallet)
    expect((await pay(test, accessToken).expect(200)).body).toEqual((await me(test, accessToken).expect(200)).body)
  })

  it.each<[string, (test: TestApp, tokens: { accessToken: string; refreshToken: string }) => Promise<unknown>]>([
    [
      'was logged out',
      async ({ app }, { accessToken }) =>
        request(app).post('/logout').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    ],
    ['was revoked', async ({ requireDid }) => requireDid.sessions.revokeAll(wallet.did)],
    [
      'was revoked because a refresh token came twice',
      async ({ app, clock }, { refreshToken }) => {
        await request(app).post('/refresh-token').send({ refreshToken }).expect(200)
        clock.seconds += 11
        await request(app).post('/refresh-token').send({ refreshToken }).expect(401)
      }
    ]
  ])('refuses a session that %s at once: 401, where requireDid alone lets it pass', async (_name, happens) => {
    const test = await payApp()
    const tokens = await logIn(test.app, wallet)
    await pay(test, tokens.accessToken).expect(200)
    await happens(test, tokens)
    const refused = await pay(test, tokens.accessToken).set('Accept', 'application/problem+json').expect(401)
    expect(refused.body).toMatchObject({ title: 'Session ended', code: 'ERR_SESSION_ENDED' })
    await me(test, tokens.accessToken).expect(200)
  })

  it('is 503 when the store is out of reach: never a pass, never a 401', async () => {
    const { store, state } = breakableStore('findSession')
    const test = await payApp({ store })
    const { accessToken } = await logIn(test.app, wallet)
    state.isBroken = true
    const response = await pay(test, accessToken).expect(503, 'Store unavailable, try again')
    expect(response.headers['retry-after']).toBe('5')
    await me(test, accessToken).expect(200)
  })

  it('behind requireDid is charged once, and still asks', async () => {
    const test = await testApp(
      { maxRequestsPerTimeSlot: 2 },
      {
        after: (app, requireDid) => {
          app.use('/pay', requireDid)
          app.post('/pay', requireDid.with({ checkSession: true }), (_req, res) => {
            res.send('paid')
          })
        }
      }
    )
    const { accessToken } = await logIn(test.app, wallet)
    await pay(test, accessToken).expect(200, 'paid')
    await test.requireDid.sessions.revokeAll(wallet.did)
    await pay(test, accessToken).expect(401, 'Session ended')
    await pay(test, accessToken).expect(429)
  })

  it('does not charge the quota for a session that has ended', async () => {
    const test = await payApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn(test.app, wallet)
    await test.requireDid.sessions.revokeAll(wallet.did)
    for (let number = 0; number < 3; number += 1) await pay(test, accessToken).expect(401)
    await me(test, accessToken).expect(200)
  })
})

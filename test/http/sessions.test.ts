import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { memoryStore } from 'express-did-auth'
import { logIn, type TestTokens } from '../support/app-client.js'
import { START_SECONDS, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const WEEK_SECONDS = 168 * 3600

type App = Parameters<typeof request>[0]

const refresh = (app: App, refreshToken: unknown) => request(app).post('/refresh-token').send({ refreshToken })
const refreshed = async (app: App, refreshToken: string): Promise<TestTokens> =>
  (await refresh(app, refreshToken).expect(200)).body as TestTokens
const logOut = (app: App, accessToken: string) =>
  request(app).post('/logout').set('Authorization', `DIDAuth ${accessToken}`)

describe('POST /refresh-token', () => {
  it('answers a new access token with a new expiry and a new refresh token', async () => {
    const { app, clock } = await testApp()
    const first = await logIn(app, wallet)
    clock.seconds = START_SECONDS + 600
    const response = await refresh(app, first.refreshToken).expect(200)
    const second = response.body as TestTokens
    expect(Object.keys(second)).toEqual(['accessToken', 'refreshToken'])
    expect(response.headers['cache-control']).toBe('no-store')
    expect(second.refreshToken).not.toBe(first.refreshToken)
    const me = await request(app).get('/me').set('Authorization', `DIDAuth ${second.accessToken}`).expect(200)
    expect(me.body).toMatchObject({ user: { did: wallet.did }, auth: { claims: { exp: START_SECONDS + 1200 } } })
  })

  it.each([[undefined], [null], [7], [''], ['a'.repeat(43)], ['a'.repeat(44)], [['a'.repeat(43)]], [{}]])(
    'answers 401 to { refreshToken: %j }',
    async (refreshToken) => {
      const { app } = await testApp()
      await refresh(app, refreshToken).expect(401, 'Invalid refresh token')
    }
  )

  it('needs no access token, not even a good one', async () => {
    const { app } = await testApp()
    const { refreshToken } = await logIn(app, wallet)
    await refresh(app, refreshToken).set('Authorization', 'Bearer garbage').expect(200)
  })
})

describe('POST /logout', () => {
  it('answers 200 without content, and twice', async () => {
    const { app } = await testApp()
    const { accessToken, refreshToken } = await logIn(app, wallet)
    for (const _time of ['first', 'second']) {
      const response = await logOut(app, accessToken).expect(200, '')
      expect(response.headers['content-length']).toBe('0')
    }
    await refresh(app, refreshToken).expect(401, 'Invalid refresh token')
    await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
  })

  it('answers 401 without a token, and to an expired one', async () => {
    const { app, clock } = await testApp()
    const { accessToken } = await logIn(app, wallet)
    await request(app).post('/logout').expect(401, 'Missing access token')
    clock.seconds = START_SECONDS + 600
    await logOut(app, accessToken).expect(401, 'Expired access token')
  })

  it('costs nothing of the quota, as refresh does not', async () => {
    const { app } = await testApp({ maxRequestsPerTimeSlot: 1 })
    const first = await logIn(app, wallet)
    const { accessToken } = await refreshed(app, first.refreshToken)
    await logOut(app, accessToken).expect(200)
    await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    await logOut(app, accessToken).expect(200)
  })
})

describe('the sessions of a user', () => {
  it('are listed, the newest first, without anything secret', async () => {
    const { app, clock, requireDid } = await testApp()
    await logIn(app, wallet)
    clock.seconds = START_SECONDS + 1
    await logIn(app, wallet)
    const sessions = await requireDid.sessions.list(`did:ethr:rsk:${wallet.address}`)
    expect(sessions).toEqual(
      [1, 0].map((second) => ({
        sessionId: expect.any(String),
        did: wallet.did,
        state: 'active',
        tokenClaims: undefined,
        createdAtSeconds: START_SECONDS + second,
        rotatedAtSeconds: START_SECONDS + second,
        expiresAtSeconds: START_SECONDS + second + WEEK_SECONDS
      }))
    )
    expect(await requireDid.sessions.list(walletOf(2).did)).toEqual([])
  })

  // Cause: the list of the application ignored an absolute end that was configured after the login.
  it('are listed up to an absolute end that was configured after the login', async () => {
    const store = memoryStore()
    const before = await testApp({ store })
    await logIn(before.app, wallet)
    const { clock, requireDid } = await testApp({ store, absoluteSessionDurationInHours: 1 })
    clock.seconds = START_SECONDS + 3_599
    expect(await requireDid.sessions.list(wallet.did)).toMatchObject([{ expiresAtSeconds: START_SECONDS + 3_600 }])
    clock.seconds = START_SECONDS + 3_600
    expect(await requireDid.sessions.list(wallet.did)).toEqual([])
  })

  it('are revoked one by one: true when it was active', async () => {
    const { app, requireDid } = await testApp()
    const [phone, laptop] = [await logIn(app, wallet), await logIn(app, wallet)]
    const [newest] = await requireDid.sessions.list(wallet.did)
    expect(await requireDid.sessions.revoke(newest!.sessionId)).toBe(true)
    expect(await requireDid.sessions.revoke(newest!.sessionId)).toBe(false)
    expect(await requireDid.sessions.revoke('unknown')).toBe(false)
    await refresh(app, laptop.refreshToken).expect(401, 'Invalid refresh token')
    await refresh(app, phone.refreshToken).expect(200)
    await request(app).get('/me').set('Authorization', `DIDAuth ${laptop.accessToken}`).expect(200)
  })

  it("are revoked all at once, and no one else's", async () => {
    const { app, requireDid } = await testApp()
    const mine = [await logIn(app, wallet), await logIn(app, wallet)]
    const other = await logIn(app, walletOf(2))
    expect(await requireDid.sessions.revokeAll(`did:ethr:rsk:${wallet.address}`)).toBe(2)
    expect(await requireDid.sessions.revokeAll(wallet.did)).toBe(0)
    for (const { refreshToken } of mine) await refresh(app, refreshToken).expect(401)
    await refresh(app, other.refreshToken).expect(200)
  })
})

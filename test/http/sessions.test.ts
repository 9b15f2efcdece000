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

  it('answers 401 to a token used before, and leaves the newer one good within 10 s', async () => {
    const { app, clock } = await testApp()
    const first = await logIn(app, wallet)
    const second = await refreshed(app, first.refreshToken)
    clock.seconds = START_SECONDS + 10
    await refresh(app, first.refreshToken).expect(401, 'Invalid refresh token')
    await refresh(app, second.refreshToken).expect(200)
  })

  it('revokes the session, and no other, when a token used before comes back after 11 s', async () => {
    const { app, clock, requireDid, log } = await testApp()
    const first = await logIn(app, wallet)
    const other = await logIn(app, wallet)
    const second = await refreshed(app, first.refreshToken)
    clock.seconds = START_SECONDS + 11
    await refresh(app, first.refreshToken).expect(401, 'Refresh token used twice: session revoked')
    await refresh(app, second.refreshToken).expect(401, 'Invalid refresh token')
    await refresh(app, other.refreshToken).expect(200)
    expect(await requireDid.sessions.list(wallet.did)).toHaveLength(1)
    expect(log.filter(({ fields }) => fields.event === 'refresh-token-reused')).toHaveLength(1)
  })

  it('follows refreshReuseGraceSeconds, also 0', async () => {
    const { app, clock } = await testApp({ refreshReuseGraceSeconds: 0 })
    const { refreshToken } = await logIn(app, wallet)
    await refreshed(app, refreshToken)
    await refresh(app, refreshToken).expect(401, 'Invalid refresh token')
    clock.seconds = START_SECONDS + 1
    await refresh(app, refreshToken).expect(401, 'Refresh token used twice: session revoked')
  })

  it('remembers the last 16 tokens of a session', async () => {
    const { app, clock } = await testApp()
    const tokens = [(await logIn(app, wallet)).refreshToken]
    for (let use = 0; use < 17; use += 1) tokens.push((await refreshed(app, tokens.at(-1)!)).refreshToken)
    clock.seconds = START_SECONDS + 60
    await refresh(app, tokens[0]).expect(401, 'Invalid refresh token')
    await refresh(app, tokens[1]).expect(401, 'Refresh token used twice: session revoked')
  })

  it('accepts a token until the second before its 168 hours are over; each refresh restarts them', async () => {
    const { app, clock } = await testApp()
    const first = await logIn(app, wallet)
    clock.seconds = START_SECONDS + WEEK_SECONDS - 1
    const second = await refreshed(app, first.refreshToken)
    clock.seconds = START_SECONDS + 2 * WEEK_SECONDS - 1
    await refresh(app, second.refreshToken).expect(401, 'Invalid refresh token')
    clock.seconds = START_SECONDS + 2 * WEEK_SECONDS - 2
    await refresh(app, second.refreshToken).expect(200)
  })

  it('follows userSessionDurationInHours, also a fraction', async () => {
    const { app, clock } = await testApp({ userSessionDurationInHours: 0.5 })
    const { refreshToken } = await logIn(app, wallet)
    clock.seconds = START_SECONDS + 1800
    await refresh(app, refreshToken).expect(401, 'Invalid refresh token')
  })

  it.each([[undefined], [null], [7], [''], ['a'.repeat(43)], ['a'.repeat(44)], [['a'.repeat(43)]], [{}]])(
    'answers 401 to { refreshToken: %j }',
    async (refreshToken) => {
      const { app } = await testApp()
      await refresh(app, refreshToken).expect(401, 'Invalid refresh token')
    }
  )

  it('answers 401 to an access token, and to a refresh token of another service', async () => {
    const [first, second] = [await testApp(), await testApp({ serviceUrl: 'https://second.example' })]
    const { accessToken, refreshToken } = await logIn(first.app, wallet)
    await refresh(first.app, accessToken).expect(401, 'Invalid refresh token')
    await refresh(second.app, refreshToken).expect(401, 'Invalid refresh token')
  })

  it('needs no access token, not even a good one', async () => {
    const { app } = await testApp()
    const { refreshToken } = await logIn(app, wallet)
    await refresh(app, refreshToken).set('Authorization', 'Bearer garbage').expect(200)
  })

  it('keeps the old token good when the signer fails, so that a retry works', async () => {
    const { es256kSigner } = await import('express-did-auth')
    const { serviceWallet } = await import('../support/test-app.js')
    const sign = es256kSigner(serviceWallet.privateKey)
    let isDown = false
    const { app } = await testApp({
      serviceSigner: async (data) => {
        if (isDown) throw new Error('the key server is unavailable')
        return sign(data)
      }
    })
    const { refreshToken } = await logIn(app, wallet)
    isDown = true
    const response = await refresh(app, refreshToken).expect(503, 'Signer unavailable, try again')
    expect(response.headers['retry-after']).toBe('5')
    isDown = false
    await refresh(app, refreshToken).expect(200)
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

  it('ends the session of the token only', async () => {
    const { app } = await testApp()
    const [phone, laptop] = [await logIn(app, wallet), await logIn(app, wallet)]
    await logOut(app, phone.accessToken).expect(200)
    await refresh(app, phone.refreshToken).expect(401)
    await refresh(app, laptop.refreshToken).expect(200)
  })

  it('ends a session by the access token that it began with, also after a refresh', async () => {
    const { app } = await testApp()
    const first = await logIn(app, wallet)
    const second = await refreshed(app, first.refreshToken)
    await logOut(app, first.accessToken).expect(200)
    await refresh(app, second.refreshToken).expect(401, 'Invalid refresh token')
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
  it('are at most 50: the 51st login drops the oldest', async () => {
    const { app, requireDid } = await testApp()
    const first = await logIn(app, wallet)
    const second = await logIn(app, wallet)
    for (let login = 3; login <= 50; login += 1) await logIn(app, wallet)
    expect(await requireDid.sessions.list(wallet.did)).toHaveLength(50)
    const last = await logIn(app, wallet)
    expect(await requireDid.sessions.list(wallet.did)).toHaveLength(50)
    await refresh(app, first.refreshToken).expect(401, 'Invalid refresh token')
    await refresh(app, second.refreshToken).expect(200)
    await refresh(app, last.refreshToken).expect(200)
  })

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

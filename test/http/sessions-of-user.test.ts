import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import type { DidAuthConfig } from 'express-did-auth'
import { logIn, logInForCookies } from '../support/app-client.js'
import { type Host, START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { rawRequest } from '../support/server-client.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const WEEK_SECONDS = 604_800
const sessionsApp = (config: Partial<DidAuthConfig> = {}, host?: Host) =>
  testApp({ sessionsPath: '/sessions', ...config }, host)
const bearer = (accessToken: string) => ({ Authorization: `DIDAuth ${accessToken}` })
const list = ({ app }: TestApp, accessToken: string) => request(app).get('/sessions').set(bearer(accessToken))
const revoke = ({ app }: TestApp, accessToken: string, sessionId: string) =>
  request(app).delete(`/sessions/${sessionId}`).set(bearer(accessToken))
const refresh = ({ app }: TestApp, refreshToken: string) => request(app).post('/refresh-token').send({ refreshToken })
const idOf = (refreshToken: string): string => refreshToken.split('.')[0]!

describe('GET /sessions', () => {
  it('is no route of ours unless sessionsPath is set, nor is DELETE /sessions/:id', async () => {
    const test = await testApp()
    const { accessToken, refreshToken } = await logIn(test.app, wallet)
    await list(test, accessToken).expect(404)
    await revoke(test, accessToken, idOf(refreshToken)).expect(404)
    await refresh(test, refreshToken).expect(200)
  })

  it("lists the user's active sessions under every spelling of the DID, the newest first, and which is the caller's", async () => {
    const test = await sessionsApp()
    const phone = await logIn(test.app, wallet)
    test.clock.seconds = START_SECONDS + 10
    const laptop = await logIn(test.app, wallet, `did:ethr:rsk:${wallet.address}`)
    await logIn(test.app, walletOf(2))
    const ended = await logIn(test.app, wallet)
    await request(test.app).post('/logout').send({ refreshToken: ended.refreshToken }).expect(200)
    test.clock.seconds = START_SECONDS + 20
    await refresh(test, phone.refreshToken).expect(200)
    const response = await list(test, laptop.accessToken).expect(200)
    expect(response.body).toEqual([
      {
        sessionId: idOf(laptop.refreshToken),
        createdAt: START_SECONDS + 10,
        refreshedAt: START_SECONDS + 10,
        expiresAt: START_SECONDS + 10 + WEEK_SECONDS,
        isCurrent: true
      },
      {
        sessionId: idOf(phone.refreshToken),
        createdAt: START_SECONDS,
        refreshedAt: START_SECONDS + 20,
        expiresAt: START_SECONDS + 20 + WEEK_SECONDS,
        isCurrent: false
      }
    ])
    expect(response.headers['cache-control']).toBe('no-store')
  })

  it('is 401 without a good access token, also beside a refresh token', async () => {
    const test = await sessionsApp()
    const { accessToken, refreshToken } = await logIn(test.app, wallet)
    await request(test.app).get('/sessions').send({ refreshToken }).expect(401, 'Missing access token')
    test.clock.seconds = START_SECONDS + 600
    await list(test, accessToken).expect(401, 'Expired access token')
  })

  it('counts against the quota, as DELETE /sessions/:id does', async () => {
    const test = await sessionsApp({ maxRequestsPerTimeSlot: 2 })
    const { accessToken, refreshToken } = await logIn(test.app, wallet)
    await list(test, accessToken).expect(200)
    await revoke(test, accessToken, 'unknown').expect(404)
    await list(test, accessToken).expect(429, 'Too many requests')
    await revoke(test, accessToken, idOf(refreshToken)).expect(429)
  })
})

describe('DELETE /sessions/:id', () => {
  it('ends a session of the user, and is 200 without content twice', async () => {
    const test = await sessionsApp()
    const [phone, laptop] = [await logIn(test.app, wallet), await logIn(test.app, wallet)]
    for (const _time of ['first', 'second']) {
      const response = await revoke(test, laptop.accessToken, idOf(phone.refreshToken)).expect(200, '')
      expect(response.headers).toMatchObject({ 'content-length': '0', 'cache-control': 'no-store' })
    }
    await refresh(test, phone.refreshToken).expect(401, 'Invalid refresh token')
    expect((await list(test, laptop.accessToken).expect(200)).body).toHaveLength(1)
    await refresh(test, laptop.refreshToken).expect(200)
  })

  it("is 404 for another user's session, which goes on, and for one that no one has", async () => {
    const test = await sessionsApp()
    const { accessToken } = await logIn(test.app, wallet)
    const other = await logIn(test.app, walletOf(2))
    await revoke(test, accessToken, idOf(other.refreshToken)).expect(404, 'Session not found')
    await refresh(test, other.refreshToken).expect(200)
    const unknown = await revoke(test, accessToken, 'a'.repeat(24)).set('Accept', 'application/problem+json')
    expect(unknown.body).toEqual({
      type: 'about:blank',
      title: 'Session not found',
      status: 404,
      code: 'ERR_SESSION_NOT_FOUND'
    })
  })

  // Cause: it was answered 401 `Invalid DID`, and a client that sees 401 throws its token away.
  it.each(['%', '%zz', '%E0%A4%A', '%ff'])(
    'is 404 for the badly encoded id %s, and 401 without a token',
    async (id) => {
      const { app } = await sessionsApp()
      const { accessToken } = await logIn(app, wallet)
      expect(await rawRequest(app, 'DELETE', `/sessions/${id}`, bearer(accessToken))).toEqual({
        status: 404,
        text: 'Session not found'
      })
      expect(await rawRequest(app, 'DELETE', `/sessions/${id}`)).toEqual({ status: 401, text: 'Missing access token' })
    }
  )

  it.each([
    ['another case', '/SESSIONS/', ''],
    ['a slash at the end', '/sessions/', '/']
  ])('takes %s in its path, and decodes the id', async (_name, before, after) => {
    const test = await sessionsApp()
    const { accessToken, refreshToken } = await logIn(test.app, wallet)
    const encoded = `%${idOf(refreshToken).charCodeAt(0).toString(16)}${idOf(refreshToken).slice(1)}`
    await request(test.app).delete(`${before}${encoded}${after}`).set(bearer(accessToken)).expect(200)
    await refresh(test, refreshToken).expect(401)
  })

  it('is no route of ours without an id, nor with two', async () => {
    const { app } = await sessionsApp()
    const { accessToken } = await logIn(app, wallet)
    for (const path of ['/sessions', '/sessions/', '/sessions/a/b']) {
      await request(app)
        .delete(path)
        .set(bearer(accessToken))
        .expect(404, /Cannot DELETE/)
    }
    await request(app)
      .get('/sessions/a')
      .set(bearer(accessToken))
      .expect(404, /Cannot GET/)
  })

  it('in cookie mode is refused to a page of another site: 403 before 401, and nothing ends', async () => {
    const test = await sessionsApp({ useCookies: true })
    const cookies = await logInForCookies(test.app, wallet)
    const id = idOf(/refresh-token=([^;]+)/.exec(cookies)![1]!)
    const foreign = { Origin: 'https://evil.example' }
    await request(test.app).delete(`/sessions/${id}`).set(foreign).set('Cookie', cookies).expect(403)
    await request(test.app).delete(`/sessions/${id}`).set(foreign).expect(403)
    await request(test.app).get('/sessions').set(foreign).set('Cookie', cookies).expect(200)
    await request(test.app)
      .delete(`/sessions/${id}`)
      .set('Origin', 'https://service.example')
      .set('Cookie', cookies)
      .expect(200)
    await request(test.app).post('/refresh-token').set('Cookie', cookies).expect(401)
  })
})

import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import type { DidAuthConfig } from 'express-did-auth'
import { tokensOfCookies } from '../support/app-client.js'
import { START_SECONDS, testApp } from '../support/test-app.js'
import { rawRequest } from '../support/server-client.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const WEEK_SECONDS = 604_800
const bearer = (accessToken: string) => ({ Authorization: `DIDAuth ${accessToken}` })
const idOf = (refreshToken: string): string => refreshToken.split('.')[0]!

async function sessionsApp(config: Partial<DidAuthConfig> = {}) {
  const test = await testApp({ sessionsPath: '/sessions', ...config })
  return {
    ...test,
    list: (accessToken: string) => test.get('/sessions', accessToken),
    revoke: (accessToken: string, sessionId: string) =>
      request(test.app).delete(`/sessions/${sessionId}`).set(bearer(accessToken))
  }
}

it('GET /sessions and DELETE /sessions/:id are no routes of ours unless sessionsPath is set', async () => {
  const { logIn, list, revoke, refresh } = await sessionsApp({ sessionsPath: undefined })
  const { accessToken, refreshToken } = await logIn()
  await list(accessToken).expect(404)
  await revoke(accessToken, idOf(refreshToken)).expect(404)
  await refresh(refreshToken).expect(200)
})

describe('GET /sessions', () => {
  it("lists the user's active sessions under every spelling of the DID, the newest first, and which is the caller's", async () => {
    const { logIn, clock, post, refresh, list } = await sessionsApp()
    const phone = await logIn()
    clock.seconds = START_SECONDS + 10
    const laptop = await logIn(wallet, `did:ethr:rsk:${wallet.address}`)
    await logIn(walletOf(2))
    const { refreshToken } = await logIn()
    await post('/logout', { refreshToken }).expect(200)
    clock.seconds = START_SECONDS + 20
    await refresh(phone.refreshToken).expect(200)
    const response = await list(laptop.accessToken).expect(200)
    const session = (tokens: typeof phone, created: number, refreshed: number, isCurrent: boolean) => ({
      sessionId: idOf(tokens.refreshToken),
      createdAt: START_SECONDS + created,
      refreshedAt: START_SECONDS + refreshed,
      expiresAt: START_SECONDS + refreshed + WEEK_SECONDS,
      isCurrent
    })
    expect(response.body).toEqual([session(laptop, 10, 10, true), session(phone, 0, 20, false)])
    expect(response.headers['cache-control']).toBe('no-store')
  })

  it('is 401 without a good access token, also beside a refresh token', async () => {
    const { app, logIn, list, clock } = await sessionsApp()
    const { accessToken, refreshToken } = await logIn()
    await request(app).get('/sessions').send({ refreshToken }).expect(401, 'Missing access token')
    clock.seconds += 600
    await list(accessToken).expect(401, 'Expired access token')
  })

  it('counts against the quota, as DELETE /sessions/:id does', async () => {
    const { logIn, list, revoke } = await sessionsApp({ maxRequestsPerTimeSlot: 2 })
    const { accessToken, refreshToken } = await logIn()
    await list(accessToken).expect(200)
    await revoke(accessToken, 'unknown').expect(404)
    await list(accessToken).expect(429, 'Too many requests')
    await revoke(accessToken, idOf(refreshToken)).expect(429)
  })
})

describe('DELETE /sessions/:id', () => {
  it('ends a session of the user, and is 200 without content twice', async () => {
    const { logIn, list, revoke, refresh } = await sessionsApp()
    const [phone, laptop] = [await logIn(), await logIn()]
    for (const _time of ['first', 'second']) {
      const { headers } = await revoke(laptop.accessToken, idOf(phone.refreshToken)).expect(200, '')
      expect(headers).toMatchObject({ 'content-length': '0', 'cache-control': 'no-store' })
    }
    await refresh(phone.refreshToken).expect(401, 'Invalid refresh token')
    expect((await list(laptop.accessToken).expect(200)).body).toHaveLength(1)
    await refresh(laptop.refreshToken).expect(200)
  })

  it("is 404 for another user's session, which goes on, and for one that no one has", async () => {
    const { logIn, revoke, refresh } = await sessionsApp()
    const { accessToken } = await logIn()
    const other = await logIn(walletOf(2))
    await revoke(accessToken, idOf(other.refreshToken)).expect(404, 'Session not found')
    await refresh(other.refreshToken).expect(200)
    const unknown = await revoke(accessToken, 'a'.repeat(24)).set('Accept', 'application/problem+json').expect(404)
    expect(unknown.body).toMatchObject({ code: 'ERR_SESSION_NOT_FOUND' })
  })

  // Cause: it was answered 401 `Invalid DID`, and a client that sees 401 throws its token away.
  it.each(['%', '%zz', '%E0%A4%A', '%ff'])('is 404 for the badly encoded id %s, 401 without a token', async (id) => {
    const { app, logIn } = await sessionsApp()
    const { accessToken } = await logIn()
    const send = (headers = {}) => rawRequest(app, 'DELETE', `/sessions/${id}`, headers)
    expect(await send(bearer(accessToken))).toEqual({ status: 404, text: 'Session not found' })
    expect(await send()).toEqual({ status: 401, text: 'Missing access token' })
  })

  it('decodes the id, and is no route of ours without an id, or with two', async () => {
    const { app, logIn, get, revoke, refresh } = await sessionsApp()
    const { accessToken, refreshToken } = await logIn()
    for (const path of ['', 'a/b']) await revoke(accessToken, path).expect(404, /Cannot DELETE/)
    await request(app)
      .delete('/sessions')
      .set(bearer(accessToken))
      .expect(404, /Cannot DELETE/)
    await get('/sessions/a', accessToken).expect(404, /Cannot GET/)
    const id = idOf(refreshToken)
    await revoke(accessToken, `%${id.charCodeAt(0).toString(16)}${id.slice(1)}`).expect(200)
    await refresh(refreshToken).expect(401)
  })

  it('in cookie mode is refused to a page of another site: 403 before 401, and nothing ends', async () => {
    const { app, logInForCookies, get, post } = await sessionsApp({ useCookies: true })
    const cookies = { Cookie: await logInForCookies() }
    const foreign = { Origin: 'https://evil.example' }
    const id = idOf(tokensOfCookies(cookies.Cookie).refreshToken)
    const revoke = (headers: Record<string, string>) => request(app).delete(`/sessions/${id}`).set(headers)
    await revoke({ ...foreign, ...cookies }).expect(403)
    await revoke(foreign).expect(403)
    await get('/sessions', { ...foreign, ...cookies }).expect(200)
    await revoke({ Origin: 'https://service.example', ...cookies }).expect(200)
    await post('/refresh-token', undefined, cookies).expect(401)
  })
})

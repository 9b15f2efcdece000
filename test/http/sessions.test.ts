import { describe, expect, it, jest } from '@jest/globals'
import { describeUserAgent, type DidAuthConfig, memoryStore } from 'express-did-auth'
import assert from 'node:assert/strict'
import { breakableStore, testApp } from '../support/servers/test-app.js'
import request from 'supertest'
import { createCookieHeader, readCookieTokens } from '../support/servers/app-client.js'
import { rawRequest } from '../support/servers/server-client.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const spelled = `did:ethr:rsk:${wallet.address}`
const WEEK_SECONDS = 168 * 3600
const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36'
const readClaims = (accessToken: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(accessToken.split('.')[1]!, 'base64url').toString())

describe('POST /refresh-token and POST /logout', () => {
  it('return new tokens with any Authorization, and 200 without content, twice', async () => {
    const { logIn, refresh, logOut, me } = await testApp()
    const { refreshToken } = await logIn()
    const { body, headers } = await refresh(refreshToken, { Authorization: 'Bearer garbage' }).expect(200)
    expect(Object.keys(body)).toEqual(['accessToken', 'refreshToken'])
    expect(headers['cache-control']).toBe('no-store')
    for (const _time of ['first', 'second']) {
      expect((await logOut(body.accessToken).expect(200, '')).headers['content-length']).toBe('0')
    }
    await refresh(body.refreshToken).expect(401, 'Invalid refresh token')
    await me(body.accessToken).expect(200)
  })

  it('return 401 only for an expired access token', async () => {
    const { logIn, logOut, clock } = await testApp()
    const { accessToken } = await logIn()
    clock.seconds += 600
    await logOut(accessToken).expect(401, 'Expired access token')
  })

  it('do not use the quota', async () => {
    const { logIn, refresh, logOut, me } = await testApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = (await refresh((await logIn()).refreshToken).expect(200)).body
    await logOut(accessToken).expect(200)
    await me(accessToken).expect(200)
    await logOut(accessToken).expect(200)
  })
})

describe('requireDid.sessions', () => {
  it('lists sessions, newest first, without secrets', async () => {
    const { logIn, clock, requireDid } = await testApp()
    await logIn()
    clock.seconds += 1
    await logIn()
    expect(await requireDid.sessions.list(spelled)).toEqual(
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
    expect(await requireDid.sessions.list(createNumberedWallet(2).did)).toEqual([])
  })

  // Cause: the list of the application ignored an absolute end that was configured after the login.
  it('lists sessions up to an absolute end that was configured after the login', async () => {
    const store = memoryStore()
    await (await testApp({ store })).logIn()
    const { clock, requireDid } = await testApp({ store, absoluteSessionDurationInHours: 1 })
    clock.seconds = START_SECONDS + 3_599
    expect(await requireDid.sessions.list(wallet.did)).toMatchObject([{ expiresAtSeconds: START_SECONDS + 3_600 }])
    clock.seconds = START_SECONDS + 3_600
    expect(await requireDid.sessions.list(wallet.did)).toEqual([])
  })

  it('revokes one session (true if it was active) or all of a user, and none of other users', async () => {
    const { logIn, refresh, requireDid } = await testApp()
    const { list, revoke, revokeAll } = requireDid.sessions
    const [phone, tablet, laptop] = [await logIn(), await logIn(), await logIn()]
    const other = await logIn(createNumberedWallet(2))
    const newest = (await list(wallet.did))[0]!.sessionId
    expect([await revoke(newest), await revoke(newest), await revoke('unknown')]).toEqual([true, false, false])
    await refresh(laptop.refreshToken).expect(401, 'Invalid refresh token')
    const { refreshToken } = (await refresh(phone.refreshToken).expect(200)).body
    expect([await revokeAll(spelled), await revokeAll(wallet.did)]).toEqual([2, 0])
    for (const token of [refreshToken, tablet.refreshToken]) await refresh(token).expect(401)
    await refresh(other.refreshToken).expect(200)
  })
})

const bearer = (accessToken: string) => ({ Authorization: `DIDAuth ${accessToken}` })
const readId = (refreshToken: string): string => refreshToken.split('.')[0]!

async function sessionsApp(config: Partial<DidAuthConfig> = {}) {
  const test = await testApp({ sessionsPath: '/sessions', ...config })
  return {
    ...test,
    list: (accessToken: string) => test.get('/sessions', accessToken),
    revoke: (accessToken: string, sessionId: string) =>
      request(test.app).delete(`/sessions/${sessionId}`).set(bearer(accessToken))
  }
}

it('GET /sessions and DELETE /sessions/:id are no routes of this package unless sessionsPath is set', async () => {
  const { logIn, list, revoke, refresh } = await sessionsApp({ sessionsPath: undefined })
  const { accessToken, refreshToken } = await logIn()
  await list(accessToken).expect(404)
  await revoke(accessToken, readId(refreshToken)).expect(404)
  await refresh(refreshToken).expect(200)
})

describe('GET /sessions', () => {
  it("lists the user's active sessions for every spelling of the DID, newest first, marking the caller's", async () => {
    const { logIn, clock, post, refresh, list } = await sessionsApp()
    const phone = await logIn()
    clock.seconds = START_SECONDS + 10
    const laptop = await logIn(wallet, `did:ethr:rsk:${wallet.address}`)
    await logIn(createNumberedWallet(2))
    const { refreshToken } = await logIn()
    await post('/logout', { refreshToken }).expect(200)
    clock.seconds = START_SECONDS + 20
    await refresh(phone.refreshToken).expect(200)
    const response = await list(laptop.accessToken).expect(200)
    const session = (tokens: typeof phone, created: number, refreshed: number, isCurrent: boolean) => ({
      sessionId: readId(tokens.refreshToken),
      createdAt: START_SECONDS + created,
      refreshedAt: START_SECONDS + refreshed,
      expiresAt: START_SECONDS + refreshed + WEEK_SECONDS,
      isCurrent
    })
    expect(response.body).toEqual([session(laptop, 10, 10, true), session(phone, 0, 20, false)])
    expect(response.headers['cache-control']).toBe('no-store')
  })

  it('contains the description of the login, also after a refresh by another client', async () => {
    const { createSignedLogin, post, refresh, list, requireDid } = await sessionsApp({
      describeSession: ({ headers }) => `${describeUserAgent(headers['user-agent'])}\n${'x'.repeat(80)}`
    })
    const login = await post('/auth', await createSignedLogin(), { 'User-Agent': CHROME }).expect(200)
    const { body } = await refresh(login.body.refreshToken, { 'User-Agent': 'curl/8.5.0' }).expect(200)
    const description = `Chrome on Windows${'x'.repeat(63)}`
    expect((await list(body.accessToken).expect(200)).body).toMatchObject([{ description }])
    expect(await requireDid.sessions.list(wallet.did)).toMatchObject([{ description }])
    for (const { accessToken } of [login.body, body]) expect(readClaims(accessToken)).not.toHaveProperty('description')
  })

  it.each<[string, unknown]>([
    ['returns nothing', () => undefined],
    ['returns null', () => null],
    ['returns a text without a printable character', () => '\n'],
    ['throws', () => assert.fail('no browser')],
    ['is async', async () => assert.fail('no browser')],
    ['returns a number', () => 7]
  ])('has no description if describeSession %s, and the login succeeds', async (failure, describeSession) => {
    const { logIn, list, log } = await sessionsApp({ describeSession } as Partial<DidAuthConfig>)
    const [session] = (await list((await logIn()).accessToken).expect(200)).body
    expect(session).not.toHaveProperty('description')
    const logged = log.filter(({ fields }) => fields.event === 'session-description-failed')
    const line = { level: 'error', message: 'describeSession threw, or returned no text' }
    const isFailure = ['throws', 'is async', 'returns a number'].includes(failure)
    expect(logged).toEqual(isFailure ? [{ ...line, fields: { event: 'session-description-failed' } }] : [])
  })

  it('asks describeSession only after a valid proof', async () => {
    const describeSession = jest.fn<() => string>(() => 'curl')
    const { post, logIn } = await sessionsApp({ describeSession })
    await post('/auth', { did: wallet.did, sig: `0x${'1'.repeat(130)}` }).expect(401)
    expect(describeSession).not.toHaveBeenCalled()
    await logIn()
    expect(describeSession).toHaveBeenCalledTimes(1)
  })

  it('responds 401 without a valid access token, even with a refresh token', async () => {
    const { app, logIn, list, clock } = await sessionsApp()
    const { accessToken, refreshToken } = await logIn()
    await request(app).get('/sessions').send({ refreshToken }).expect(401, 'Missing access token')
    clock.seconds += 600
    await list(accessToken).expect(401, 'Expired access token')
  })

  it('counts against the quota, like DELETE /sessions/:id', async () => {
    const { logIn, list, revoke } = await sessionsApp({ maxRequestsPerTimeSlot: 2 })
    const { accessToken, refreshToken } = await logIn()
    await list(accessToken).expect(200)
    await revoke(accessToken, 'unknown').expect(404)
    await list(accessToken).expect(429, 'Too many requests')
    await revoke(accessToken, readId(refreshToken)).expect(429)
  })
})

describe('DELETE /sessions/:id', () => {
  it('ends a session of the user, and responds 200 without content twice', async () => {
    const { logIn, list, revoke, refresh } = await sessionsApp()
    const [phone, laptop] = [await logIn(), await logIn()]
    for (const _time of ['first', 'second']) {
      const { headers } = await revoke(laptop.accessToken, readId(phone.refreshToken)).expect(200, '')
      expect(headers).toMatchObject({ 'content-length': '0', 'cache-control': 'no-store' })
    }
    await refresh(phone.refreshToken).expect(401, 'Invalid refresh token')
    expect((await list(laptop.accessToken).expect(200)).body).toHaveLength(1)
    await refresh(laptop.refreshToken).expect(200)
  })

  it("responds 404 for another user's session, which continues, and for an unknown session", async () => {
    const { logIn, revoke, refresh } = await sessionsApp()
    const { accessToken } = await logIn()
    const other = await logIn(createNumberedWallet(2))
    await revoke(accessToken, readId(other.refreshToken)).expect(404, 'Session not found')
    await refresh(other.refreshToken).expect(200)
    const unknown = await revoke(accessToken, 'a'.repeat(24)).set('Accept', 'application/problem+json').expect(404)
    expect(unknown.body).toMatchObject({ code: 'ERR_SESSION_NOT_FOUND' })
  })

  // Cause: the response was 401 `Invalid DID`, and a client drops its token on 401.
  it.each(['%', '%zz', '%E0%A4%A', '%ff'])(
    'responds 404 for the wrongly encoded id %s, and 401 without a token',
    async (id) => {
      const { app, logIn } = await sessionsApp()
      const { accessToken } = await logIn()
      const send = (headers = {}) => rawRequest(app, 'DELETE', `/sessions/${id}`, headers)
      expect(await send(bearer(accessToken))).toEqual({ status: 404, text: 'Session not found' })
      expect(await send()).toEqual({ status: 401, text: 'Missing access token' })
    }
  )

  it('decodes the id, and is no route of this package without an id, or with two', async () => {
    const { app, logIn, get, revoke, refresh } = await sessionsApp()
    const { accessToken, refreshToken } = await logIn()
    for (const path of ['', 'a/b']) await revoke(accessToken, path).expect(404, /Cannot DELETE/)
    await request(app)
      .delete('/sessions')
      .set(bearer(accessToken))
      .expect(404, /Cannot DELETE/)
    await get('/sessions/a', accessToken).expect(404, /Cannot GET/)
    const id = readId(refreshToken)
    await revoke(accessToken, `%${id.charCodeAt(0).toString(16)}${id.slice(1)}`).expect(200)
    await refresh(refreshToken).expect(401)
  })

  it('refuses a page of another site in cookie mode: 403 before 401, and nothing ends', async () => {
    const { app, logInForCookies, get, post } = await sessionsApp({ useCookies: true })
    const cookies = { Cookie: await logInForCookies() }
    const foreign = { Origin: 'https://evil.example' }
    const id = readId(readCookieTokens(cookies.Cookie).refreshToken)
    const revoke = (headers: Record<string, string>) => request(app).delete(`/sessions/${id}`).set(headers)
    await revoke({ ...foreign, ...cookies }).expect(403)
    await revoke(foreign).expect(403)
    await get('/sessions', { ...foreign, ...cookies }).expect(200)
    await revoke({ Origin: 'https://service.example', ...cookies }).expect(200)
    await post('/refresh-token', undefined, cookies).expect(401)
  })
})

const readSid = (accessToken: string): unknown => readClaims(accessToken).sid

async function sessionApp(config: Partial<DidAuthConfig> = {}) {
  const test = await testApp({ sessionPath: '/session', ...config })
  return { ...test, own: (as?: string | Record<string, string>) => test.get('/session', as) }
}

/** Creates an application with cookies, and a logged-in user. */
async function cookieApp(config: Partial<DidAuthConfig> = {}) {
  const test = await sessionApp({ useCookies: true, ...config })
  const Cookie = await test.logInForCookies()
  const { accessToken, refreshToken } = readCookieTokens(Cookie)
  const refreshAs = (as: Record<string, string>) => test.post('/refresh-token', undefined, as)
  return { ...test, Cookie, accessToken, refreshToken, sessionId: readSid(accessToken), refreshAs }
}

describe('GET /session', () => {
  it('is no route of this package unless sessionPath is set', async () => {
    const { own, logIn } = await sessionApp({ sessionPath: undefined })
    await own((await logIn()).accessToken).expect(404)
  })

  it('returns the user of the access token and its remaining time, not cacheable', async () => {
    const { own, logIn, clock } = await sessionApp()
    const did = `did:ethr:rsk:${wallet.address}`
    const { accessToken } = await logIn(wallet, did)
    clock.seconds = START_SECONDS + 100
    const response = await own(accessToken).expect(200)
    const times = { expiresAt: START_SECONDS + 600, expiresInSeconds: 500 }
    expect(response.body).toEqual({ did, sessionId: readSid(accessToken), ...times })
    expect(response.headers).toMatchObject({
      'cache-control': 'no-store',
      'content-type': 'application/json; charset=utf-8'
    })
  })

  it.each([
    ['nothing', {}],
    ['a token of no meaning', { Authorization: 'DIDAuth a.b.c' }],
    ['another scheme', { Authorization: 'Bearer a.b.c' }],
    ['a cookie where cookies are off', { Cookie: 'authorization=a.b.c; refresh-token=d' }]
  ])('returns {} to %s, never 401: pages poll it', async (_name, headers) => {
    await (await sessionApp()).own(headers).expect(200, {})
  })

  it('reads cookies in cookie mode, like the header without them', async () => {
    const { own, Cookie, accessToken, sessionId } = await cookieApp()
    const expected = { did: wallet.did, sessionId, expiresAt: START_SECONDS + 600, expiresInSeconds: 600 }
    await own({ Cookie }).expect(200, expected)
    await own(accessToken).expect(200, expected)
  })

  it('returns the current time and 0 seconds if only the refresh cookie is valid', async () => {
    const { own, clock, Cookie, refreshToken, sessionId } = await cookieApp()
    clock.seconds = START_SECONDS + 5_000
    const expected = { did: wallet.did, sessionId, expiresAt: START_SECONDS + 5_000, expiresInSeconds: 0 }
    await own({ Cookie }).expect(200, expected)
    await own({ Cookie: `refresh-token=${refreshToken}` }).expect(200, expected)
  })

  it('returns {} if the refresh cookie has expired, or its session was logged out', async () => {
    const { own, clock, post, Cookie } = await cookieApp()
    clock.seconds = START_SECONDS + 604_800
    await own({ Cookie }).expect(200, {})
    clock.seconds = START_SECONDS
    await post('/logout', undefined, { Cookie }).expect(200)
    clock.seconds = START_SECONDS + 600
    await own({ Cookie }).expect(200, {})
  })

  it('consumes no refresh token, and reports no theft for a replaced one: it returns {}', async () => {
    const { own, clock, Cookie, refreshAs } = await cookieApp()
    const next = { Cookie: createCookieHeader(await refreshAs({ Cookie }).expect(200)) }
    clock.seconds = START_SECONDS + 3_600
    for (let poll = 0; poll < 3; poll += 1) {
      await own({ Cookie }).expect(200, {})
      expect((await own(next).expect(200)).body).toMatchObject({ expiresInSeconds: 0 })
    }
    await refreshAs(next).expect(200)
  })

  it('returns {} to duplicate cookies, which a sibling domain may have set', async () => {
    const { own, Cookie } = await cookieApp()
    await own({ Cookie: `authorization=x; refresh-token=y; ${Cookie}` }).expect(200, {})
  })

  it('does not use the quota, which is for the requests that follow', async () => {
    const { own, me, logIn } = await sessionApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn()
    for (let poll = 0; poll < 5; poll += 1) await own(accessToken).expect(200)
    await me(accessToken).expect(200)
  })

  it('responds 503 if the store is unavailable, and 200 while the access token suffices', async () => {
    const { store, state } = breakableStore('findSession')
    const { own, clock, Cookie } = await cookieApp({ store })
    state.isBroken = true
    await own({ Cookie }).expect(200)
    clock.seconds += 600
    const { headers } = await own({ Cookie }).expect(503, 'Store unavailable, try again')
    expect(headers['retry-after']).toBe('5')
  })

  it('ignores the refresh token of a header client, which no header contains', async () => {
    const { own, logIn } = await sessionApp()
    const { refreshToken } = await logIn()
    await own().send({ refreshToken }).expect(200, {})
  })

  it('responds to HEAD without a body, and to no other method', async () => {
    const { app, own, post } = await sessionApp()
    expect((await request(app).head('/session').expect(200)).text).toBeUndefined()
    await own().expect(200, {})
    await post('/session').expect(404)
  })
})

import { describe, expect, it, jest } from '@jest/globals'
import { type DidAuthConfig, type Logger, memoryStore, type SecurityEvent } from 'express-did-auth'
import { requestLoginChallenge } from '../support/servers/app-client.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'
import { createThrowing } from '../support/fixtures/refusal.js'
import { ES256KSigner, hexToBytes } from 'did-jwt'
import request from 'supertest'
import { createLoginText, createNumberedWallet, serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const { did } = wallet

/** Creates an application whose log at debug and warn the test reads. */
async function loggingApp(config: Partial<DidAuthConfig> = {}) {
  const [debug, warn] = [jest.fn<NonNullable<Logger['debug']>>(), jest.fn<Logger['warn']>()]
  const logger = { debug, info: () => undefined, warn, error: () => undefined }
  const test = await testApp({ ...config, logger })
  return { ...test, debug, warn, refusals: () => debug.mock.calls.map(([fields]) => fields) }
}

/** Sends a login that another account signed, and returns its challenge. */
async function sendForeignLogin({ app, post }: TestApp) {
  const challenge = await requestLoginChallenge(app, did)
  const sig = createNumberedWallet(2).personalSign(createLoginText('service.example', challenge))
  await post('/auth', { did, sig }).expect(401, 'Invalid challenge response')
  return { challenge, sig }
}

describe('the log of refused requests', () => {
  it('contains the code of each at debug, with the failed check', async () => {
    const { me, post, refresh, refusals } = await loggingApp()
    await me().expect(401)
    await me({ Authorization: 'Bearer secret' }).expect(401)
    await me('secret').expect(401)
    await post('/auth', { did: 'secret' }).expect(401)
    await post('/auth', { did, sig: 'secret' }).expect(401)
    await refresh(7).expect(401)
    const refused = (code: string, check: string, expected: string, got?: string) => ({
      event: 'request-refused',
      code,
      reason: { check, expected, ...(got !== undefined && { got }) }
    })
    expect(refusals()).toEqual([
      { event: 'request-refused', code: 'ERR_ACCESS_TOKEN_MISSING' },
      refused('ERR_ACCESS_TOKEN_MISSING', 'Authorization', 'DIDAuth <token>', 'Bearer'),
      refused('ERR_ACCESS_TOKEN', 'form', 'a compact JWT of at most 4096 bytes'),
      refused('ERR_DID', 'did', 'a DID of at most 128 characters', 'string'),
      refused('ERR_SIGNATURE', 'sig', '0x and 130 hexadecimal digits', 'string'),
      refused('ERR_REFRESH_TOKEN', 'form', 'the refresh token of an active session', 'number')
    ])
  })

  it('contains the accepted domains and the recovered address for a signature by another account', async () => {
    const test = await loggingApp({ loginDomains: ['other.example'] })
    const { challenge, sig } = await sendForeignLogin(test)
    const [refusal] = test.refusals()
    expect(refusal).toMatchObject({
      code: 'ERR_CHALLENGE',
      reason: {
        check: 'signer',
        acceptedDomains: ['service.example', 'https://service.example', 'other.example'],
        recoveredAddresses: [createNumberedWallet(2).address.toLowerCase(), expect.any(String), expect.any(String)]
      }
    })
    const line = JSON.stringify(refusal)
    expect([challenge, sig, did].filter((secret) => line.includes(secret))).toEqual([])
  })

  it('contains no signature, challenge or token of a used challenge or refresh token', async () => {
    const { post, createSignedLogin, refresh, refusals } = await loggingApp({ refreshReuseGraceSeconds: 0 })
    const login = await createSignedLogin()
    const { refreshToken } = (await post('/auth', login).expect(200)).body
    await post('/auth', login).expect(401)
    await refresh(refreshToken).expect(200)
    await refresh(refreshToken).expect(401)
    const reason = { check: 'session', expected: 'the refresh token of an active session', got: 'replaced' }
    expect(refusals()).toEqual([
      { event: 'request-refused', code: 'ERR_CHALLENGE_USED' },
      { event: 'request-refused', code: 'ERR_REFRESH_TOKEN', reason }
    ])
  })

  it("contains the fixed text of a code if the response has the application's text", async () => {
    const authenticationBusinessLogic = createThrowing(new Error('Jane is not on the list'))
    const { post, createSignedLogin, debug } = await loggingApp({ authenticationBusinessLogic })
    await post('/auth', await createSignedLogin()).expect(401, 'Jane is not on the list')
    expect(debug.mock.calls.map(([, message]) => message)).toEqual(['Refused'])
  })

  it('contains the option at warn with the first 429 of each budget, and at debug with each', async () => {
    const { me, post, logIn, warn, debug } = await loggingApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn()
    for (const status of [200, 429, 429]) await me(accessToken).expect(status)
    for (let number = 0; number < 12; number += 1) {
      await post('/request-auth', { did: createNumberedWallet(3).did }).expect(number < 10 ? 200 : 429)
    }
    const reason = { check: 'quota', option: 'maxRequestsPerTimeSlot' }
    const line = { event: 'first-refusal', code: 'ERR_TOO_MANY_REQUESTS' }
    expect(warn.mock.calls.map(([fields]) => fields)).toEqual([
      { ...line, reason: { ...reason, budget: 'requests', limit: 1 } },
      { ...line, reason: { ...reason, budget: 'didRequests', limit: 10 } }
    ])
    expect(warn.mock.calls[0]?.[1]).toBe(
      'first refusal by the budget of requests: the option maxRequestsPerTimeSlot decides; later ones are logged at debug'
    )
    const message = 'Too many requests: the option maxRequestsPerTimeSlot decides'
    expect(debug.mock.calls.map(([, text]) => text)).toEqual(Array(4).fill(message))
  })

  it('contains trustedOrigins at warn with the first 403, once, and the refused host', async () => {
    const config = { useCookies: true, trustedOrigins: ['https://app.example'] }
    const { logInForCookies, logOut, warn, refusals } = await loggingApp(config)
    const Cookie = await logInForCookies()
    const foreign = { Cookie, Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' }
    for (let number = 0; number < 2; number += 1) await logOut(foreign).expect(403)
    const reason = {
      check: 'origin',
      expected: ['https://service.example', 'https://app.example'],
      got: 'evil.example',
      secFetchSite: 'cross-site',
      option: 'trustedOrigins'
    }
    expect(warn.mock.calls).toEqual([
      [
        { event: 'first-refusal', code: 'ERR_CROSS_ORIGIN', reason },
        'first refusal of this code: the option trustedOrigins decides; later ones are logged at debug'
      ]
    ])
    expect(refusals()).toHaveLength(2)
  })

  // Cause: with the default logger, an operator could not find out why every proof or token was refused.
  it('contains the first refusal of each code at warn, with the check, without recovered addresses', async () => {
    const test = await testApp()
    for (let number = 0; number < 2; number += 1) {
      await test.me().expect(401)
      await test.me({ Authorization: 'DIDAuth' }).expect(401)
      await sendForeignLogin(test)
    }
    const message = 'first refusal of this code: pass a logger with debug for the reason'
    const line = (code: string, reason = {}) => ({
      level: 'warn',
      message,
      fields: { event: 'first-refusal', code, ...reason }
    })
    expect(test.log).toEqual([
      line('ERR_ACCESS_TOKEN_MISSING'),
      line('ERR_ACCESS_TOKEN', { reason: { check: 'Authorization' } }),
      line('ERR_CHALLENGE', { reason: { check: 'signer' } })
    ])
  })

  it('contains the issuer of a token of another service', async () => {
    const { me, refusals } = await loggingApp()
    const foreign = await testApp({ serviceDid: createNumberedWallet(9).did })
    await me((await foreign.logIn()).accessToken).expect(401)
    expect(refusals()).toMatchObject([{ reason: { check: 'iss', got: createNumberedWallet(9).did } }])
  })
})

const HERE = '192.0.2.1'
const AT_START = { atSeconds: START_SECONDS }

/** Creates an application that trusts its proxy, with a logged-in user, and records later events. */
async function watchedApp(config: Partial<DidAuthConfig> = {}) {
  const events: SecurityEvent[] = []
  const test = await testApp(
    { onSecurityEvent: (event) => void events.push(event), sessionsPath: '/sessions', ...config },
    { before: (app) => app.set('trust proxy', true) }
  )
  const tokens = await test.logIn()
  events.length = 0
  const post = (path: string, body: object) => test.post(path, body, { 'X-Forwarded-For': HERE })
  const refresh = () => post('/refresh-token', { refreshToken: tokens.refreshToken })
  return { ...test, ...tokens, events, post, refresh, sessionId: readId(tokens.refreshToken) }
}
const readId = (refreshToken: string): string => refreshToken.split('.')[0]!

describe('onSecurityEvent', () => {
  it('reports a login and a sign-up with user and session', async () => {
    const { post, createSignedLogin, logIn, events, clock } = await watchedApp()
    const spelled = `did:ethr:rsk:${wallet.address}`
    const first = await logIn(wallet, spelled)
    clock.seconds += 7
    const second = (await post('/signup', await createSignedLogin(createNumberedWallet(2))).expect(200)).body
    expect(events).toEqual([
      { type: 'login', did: spelled, sessionId: readId(first.refreshToken), ...AT_START },
      {
        type: 'signup',
        did: createNumberedWallet(2).did,
        sessionId: readId(second.refreshToken),
        atSeconds: START_SECONDS + 7
      }
    ])
  })

  it('reports a refused proof with DID, network and reason', async () => {
    const { post, createSignedLogin, events } = await watchedApp()
    const login = await createSignedLogin()
    await post('/auth', login).expect(200)
    events.length = 0
    await post('/auth', login).expect(401)
    await post('/signup', { did, sig: createNumberedWallet(2).personalSign('anything') }).expect(401)
    await post('/auth', { did, sig: '0x' }).expect(401)
    const codes = ['ERR_CHALLENGE_USED', 'ERR_CHALLENGE', 'ERR_SIGNATURE']
    expect(events).toEqual(
      codes.map((code) => ({ type: 'proof-refused', code, did, clientNetwork: HERE, ...AT_START }))
    )
  })

  it('reports a refresh token that was used twice', async () => {
    const { refresh, events, clock, sessionId } = await watchedApp()
    await refresh().expect(200)
    events.length = 0
    clock.seconds += 11
    await refresh().expect(401)
    await refresh().expect(401)
    expect(events).toEqual([{ type: 'refresh-token-reused', did, sessionId, atSeconds: START_SECONDS + 11 }])
  })

  it('reports each revoked session once, no matter who revoked it', async () => {
    const { app, logIn, requireDid, events, sessionId } = await watchedApp()
    const second = await logIn()
    await logIn()
    events.length = 0
    for (const _time of ['first', 'second']) {
      const ended = request(app).delete(`/sessions/${sessionId}`)
      await ended.set('Authorization', `DIDAuth ${second.accessToken}`).expect(200)
      await requireDid.sessions.revoke(readId(second.refreshToken))
      await requireDid.sessions.revokeAll(did)
    }
    const revoked = { type: 'session-revoked', ...AT_START }
    expect(events).toEqual([
      { ...revoked, did, sessionId },
      { ...revoked, sessionId: readId(second.refreshToken) },
      { ...revoked, did, count: 1 }
    ])
  })

  it("reports a refused cross-origin request, on this package's routes and on guarded ones", async () => {
    const events: SecurityEvent[] = []
    const onSecurityEvent = (event: SecurityEvent) => void events.push(event)
    const { app, post } = await testApp(
      { useCookies: true, sessionsPath: '/sessions', onSecurityEvent },
      { before: (host) => host.set('trust proxy', true) }
    )
    const foreign = { Origin: 'https://evil.example', 'X-Forwarded-For': '2001:db8::7' }
    await post('/refresh-token', undefined, foreign).expect(403)
    await request(app).delete('/sessions/a').set(foreign).expect(403)
    const clientNetwork = '2001:db8:0:0::/64'
    const refused = { type: 'cross-origin-refused', code: 'ERR_CROSS_ORIGIN', clientNetwork, ...AT_START }
    expect(events).toEqual([refused, refused])
  })

  it('reports a reached limit', async () => {
    const { get, accessToken, events } = await watchedApp({ maxRequestsPerTimeSlot: 1 })
    const headers = { 'X-Forwarded-For': HERE, Authorization: `DIDAuth ${accessToken}` }
    for (const status of [200, 429]) await get('/me', headers).expect(status)
    const reached = { type: 'too-many-requests', code: 'ERR_TOO_MANY_REQUESTS', clientNetwork: HERE, ...AT_START }
    expect(events).toEqual([reached])
  })

  it('reports sessions that a full store evicted, and the log contains them', async () => {
    const { logIn, events, log } = await watchedApp({ store: memoryStore({ maxSessions: 1 }) })
    const { refreshToken } = await logIn(createNumberedWallet(2))
    expect(events).toEqual([
      { type: 'sessions-evicted', count: 1, ...AT_START },
      { type: 'login', did: createNumberedWallet(2).did, sessionId: readId(refreshToken), ...AT_START }
    ])
    const fields = { event: 'sessions-evicted', count: 1 }
    expect(log).toEqual([{ level: 'warn', fields, message: 'the store is full: sessions were evicted' }])
  })

  it('reports a changed key of the service, and tokens of the previous key are invalid', async () => {
    let { privateKey } = serviceWallet
    const { post, me, createSignedLogin, logIn, accessToken, events } = await watchedApp({
      serviceSigner: (data) => ES256KSigner(hexToBytes(privateKey))(data)
    })
    await me(accessToken).expect(200)
    privateKey = createNumberedWallet(99).privateKey
    await post('/auth', await createSignedLogin()).expect(503, 'Signer unavailable, try again')
    await logIn()
    const address = createNumberedWallet(99).address.toLowerCase()
    expect(events.filter(({ type }) => type !== 'login')).toEqual([
      { type: 'signer-address-changed', address, ...AT_START }
    ])
    await me(accessToken).expect(401, 'Invalid access token')
  })

  it('reports each refresh and logout once, and no guarded request or invalid token', async () => {
    const { me, refresh, logOut, accessToken, events, sessionId } = await watchedApp()
    await me(accessToken).expect(200)
    await me('a.b.c').expect(401)
    await refresh().expect(200)
    await refresh().expect(401)
    await logOut(accessToken).expect(200)
    await logOut(accessToken).expect(200)
    const session = { did, sessionId, atSeconds: START_SECONDS }
    expect(events).toEqual([
      { type: 'refresh', ...session },
      { type: 'logout', ...session }
    ])
  })

  const fail = createThrowing(new Error('listener down'))
  it.each<[string, () => unknown]>([
    ['throws', fail],
    ['rejects', () => Promise.reject(new Error('listener down'))],
    ['returns what throws when it is awaited', () => ({ then: fail })]
  ])(
    'changes no response if it %s, and the failure is logged once per event, without its content',
    async (_name, listener) => {
      const onSecurityEvent = jest.fn(listener)
      const { post, log } = await watchedApp({ onSecurityEvent })
      await post('/auth', { did, sig: '0x' }).expect(401, 'Invalid signature')
      await new Promise((resolve) => setImmediate(resolve))
      expect(onSecurityEvent).toHaveBeenCalledTimes(2)
      const line = { level: 'error', fields: { event: 'security-listener-failed' }, message: 'onSecurityEvent threw' }
      expect(log.filter(({ fields }) => fields.event !== 'first-refusal')).toEqual([line, line])
    }
  )
})

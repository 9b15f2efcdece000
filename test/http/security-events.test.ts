import { describe, expect, it, jest } from '@jest/globals'
import { ES256KSigner, hexToBytes } from 'did-jwt'
import request from 'supertest'
import { memoryStore, type DidAuthConfig, type SecurityEvent } from 'express-did-auth'
import { logIn, logInForCookies, signedLogin, signUpChallenge } from '../support/app-client.js'
import { serviceWallet, START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { loginText, walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const HERE = '192.0.2.1'

/** An application that trusts its proxy, and the events that it was told of. */
async function watchedApp(config: Partial<DidAuthConfig> = {}) {
  const events: SecurityEvent[] = []
  const test = await testApp(
    { onSecurityEvent: (event) => void events.push(event), sessionsPath: '/sessions', ...config },
    { before: (app) => app.set('trust proxy', true) }
  )
  return { ...test, events }
}
const post = ({ app }: Pick<TestApp, 'app'>, path: string, body: object) =>
  request(app).post(path).set('X-Forwarded-For', HERE).send(body)
const idOf = (refreshToken: string): string => refreshToken.split('.')[0]!

describe('onSecurityEvent', () => {
  it('is told of a login and of a sign up: whose, and which session', async () => {
    const { app, events, clock } = await watchedApp()
    const did = `did:ethr:rsk:${wallet.address}`
    const { refreshToken } = await logIn(app, wallet, did)
    clock.seconds = START_SECONDS + 7
    const sig = wallet.personalSign(loginText('service.example', await signUpChallenge(app, wallet.did)))
    const { body } = await request(app).post('/signup').send({ did: wallet.did, sig }).expect(200)
    expect(events).toEqual([
      { type: 'login', did, sessionId: idOf(refreshToken), atSeconds: START_SECONDS },
      {
        type: 'signup',
        did: wallet.did,
        sessionId: idOf((body as { refreshToken: string }).refreshToken),
        atSeconds: START_SECONDS + 7
      }
    ])
  })

  it('is told of a refused proof: for which DID, from which network, and why', async () => {
    const test = await watchedApp()
    const login = await signedLogin(test.app, wallet)
    await post(test, '/auth', login).expect(200)
    test.events.length = 0
    await post(test, '/auth', login).expect(401)
    await post(test, '/signup', { did: wallet.did, sig: walletOf(2).personalSign('anything') }).expect(401)
    await post(test, '/auth', { did: wallet.did, sig: '0x' }).expect(401)
    const from = { did: wallet.did, clientNetwork: HERE, atSeconds: START_SECONDS }
    expect(test.events).toEqual([
      { type: 'proof-refused', code: 'ERR_CHALLENGE_USED', ...from },
      { type: 'proof-refused', code: 'ERR_CHALLENGE', ...from },
      { type: 'proof-refused', code: 'ERR_SIGNATURE', ...from }
    ])
  })

  it('is told of a refresh token that came twice', async () => {
    const test = await watchedApp()
    const { refreshToken } = await logIn(test.app, wallet)
    await post(test, '/refresh-token', { refreshToken }).expect(200)
    test.clock.seconds = START_SECONDS + 11
    test.events.length = 0
    await post(test, '/refresh-token', { refreshToken }).expect(401)
    await post(test, '/refresh-token', { refreshToken }).expect(401)
    expect(test.events).toEqual([
      {
        type: 'refresh-token-reused',
        did: wallet.did,
        sessionId: idOf(refreshToken),
        atSeconds: START_SECONDS + 11
      }
    ])
  })

  it('is told of each session that is revoked, by whomever, once', async () => {
    const test = await watchedApp()
    const [first, second] = [await logIn(test.app, wallet), await logIn(test.app, wallet)]
    await logIn(test.app, wallet)
    test.events.length = 0
    for (const _time of ['first', 'second']) {
      await request(test.app)
        .delete(`/sessions/${idOf(first.refreshToken)}`)
        .set('Authorization', `DIDAuth ${second.accessToken}`)
        .expect(200)
      await test.requireDid.sessions.revoke(idOf(second.refreshToken))
      await test.requireDid.sessions.revokeAll(wallet.did)
    }
    expect(test.events).toEqual([
      { type: 'session-revoked', did: wallet.did, sessionId: idOf(first.refreshToken), atSeconds: START_SECONDS },
      { type: 'session-revoked', sessionId: idOf(second.refreshToken), atSeconds: START_SECONDS },
      { type: 'session-revoked', did: wallet.did, count: 1, atSeconds: START_SECONDS }
    ])
  })

  it('is told of a session that business logic ends at a refresh', async () => {
    const test = await watchedApp({ refreshBusinessLogic: () => false })
    const { refreshToken } = await logIn(test.app, wallet)
    test.events.length = 0
    await post(test, '/refresh-token', { refreshToken }).expect(401, 'Refused')
    expect(test.events).toEqual([
      {
        type: 'session-revoked',
        did: wallet.did,
        sessionId: idOf(refreshToken),
        code: 'ERR_BUSINESS_LOGIC',
        atSeconds: START_SECONDS
      }
    ])
  })

  it('is told of a cross-origin request that was refused, on routes of ours and on guarded ones', async () => {
    const test = await watchedApp({ useCookies: true })
    const cookies = await logInForCookies(test.app, wallet)
    test.events.length = 0
    const foreign = { Origin: 'https://evil.example', 'X-Forwarded-For': '2001:db8::7' }
    await request(test.app).post('/refresh-token').set('Cookie', cookies).set(foreign).expect(403)
    await request(test.app).delete('/sessions/a').set('Cookie', cookies).set(foreign).expect(403)
    const refused = {
      type: 'cross-origin-refused',
      code: 'ERR_CROSS_ORIGIN',
      clientNetwork: '2001:db8:0:0::/64',
      atSeconds: START_SECONDS
    }
    expect(test.events).toEqual([refused, refused])
  })

  it('is told of a limit that was reached', async () => {
    const test = await watchedApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn(test.app, wallet)
    const me = () =>
      request(test.app).get('/me').set('X-Forwarded-For', HERE).set('Authorization', `DIDAuth ${accessToken}`)
    await me().expect(200)
    test.events.length = 0
    await me().expect(429)
    expect(test.events).toEqual([
      { type: 'too-many-requests', code: 'ERR_TOO_MANY_REQUESTS', clientNetwork: HERE, atSeconds: START_SECONDS }
    ])
  })

  it('is told of sessions that a full store evicted, and the log says so', async () => {
    const test = await watchedApp({ store: memoryStore({ maxSessions: 1 }) })
    await logIn(test.app, wallet)
    test.events.length = 0
    const { refreshToken } = await logIn(test.app, walletOf(2))
    expect(test.events).toEqual([
      { type: 'sessions-evicted', count: 1, atSeconds: START_SECONDS },
      { type: 'login', did: walletOf(2).did, sessionId: idOf(refreshToken), atSeconds: START_SECONDS }
    ])
    expect(test.log).toEqual([
      {
        level: 'warn',
        fields: { event: 'sessions-evicted', count: 1 },
        message: 'the store is full: sessions were evicted'
      }
    ])
  })

  it('is told of a key of the service that changed, and tokens of the one before are good no longer', async () => {
    let { privateKey } = serviceWallet
    const test = await watchedApp({
      serviceSigner: (data) => ES256KSigner(hexToBytes(privateKey))(data)
    })
    const { accessToken } = await logIn(test.app, wallet)
    const me = () => request(test.app).get('/me').set('Authorization', `DIDAuth ${accessToken}`)
    await me().expect(200)
    privateKey = walletOf(99).privateKey
    test.events.length = 0
    await post(test, '/auth', await signedLogin(test.app, wallet)).expect(503, 'Signer unavailable, try again')
    await logIn(test.app, wallet)
    expect(test.events.filter(({ type }) => type !== 'login')).toEqual([
      { type: 'signer-address-changed', address: walletOf(99).address.toLowerCase(), atSeconds: START_SECONDS }
    ])
    await me().expect(401, 'Invalid access token')
  })

  it('is told nothing of what is ordinary: refreshes, logouts, guarded requests, tokens that are no good', async () => {
    const test = await watchedApp()
    const { accessToken, refreshToken } = await logIn(test.app, wallet)
    test.events.length = 0
    await request(test.app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    await request(test.app).get('/me').set('Authorization', 'DIDAuth a.b.c').expect(401)
    await post(test, '/refresh-token', { refreshToken }).expect(200)
    await post(test, '/refresh-token', { refreshToken }).expect(401)
    await request(test.app).post('/logout').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    expect(test.events).toEqual([])
  })

  it.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('listener down')
      }
    ],
    ['rejects', () => Promise.reject(new Error('listener down'))],
    [
      'returns what throws when it is awaited',
      () => ({
        then: () => {
          throw new Error('listener down')
        }
      })
    ]
  ])('that %s changes no answer, and is logged once an event, without a word of the event', async (_name, fail) => {
    const onSecurityEvent = jest.fn(fail)
    const test = await watchedApp({ onSecurityEvent })
    await logIn(test.app, wallet)
    await post(test, '/auth', { did: wallet.did, sig: '0x' }).expect(401, 'Invalid signature')
    await new Promise((resolve) => setImmediate(resolve))
    expect(onSecurityEvent).toHaveBeenCalledTimes(2)
    const line = { level: 'error', fields: { event: 'security-listener-failed' }, message: 'onSecurityEvent threw' }
    expect(test.log.filter(({ fields }) => fields.event !== 'first-refusal')).toEqual([line, line])
  })
})

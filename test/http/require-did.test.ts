import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { breakableStore, testApp } from '../support/servers/test-app.js'
import type { DidAuthConfig, RequireDid } from 'express-did-auth'
import { decodePayload } from '../flows/flow-parts.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const address = wallet.address.toLowerCase()

describe('requireDid', () => {
  it('sets req.user to the DID and req.auth to session and claims, replacing other values', async () => {
    const { logIn, me, requireDid } = await testApp(
      {},
      {
        before: (host) =>
          host.use((req, _res, next) => {
            req.user = { did: 'did:web:forged' }
            req.auth = undefined
            next()
          })
      }
    )
    const { accessToken } = await logIn()
    const [session] = await requireDid.sessions.list(wallet.did)
    const { sessionId } = session!
    expect((await me(accessToken).expect(200)).body).toEqual({
      user: { did: wallet.did },
      auth: { sessionId, canonicalDid: wallet.did, address, claims: decodePayload(accessToken) }
    })
  })

  it('sets the DID as received, and its two comparable forms', async () => {
    const { logIn, me } = await testApp()
    const did = `did:ethr:RSK:${wallet.address}`
    const { accessToken } = await logIn(wallet, did)
    const expected = { user: { did }, auth: { canonicalDid: wallet.did, address } }
    expect((await me(accessToken).expect(200)).body).toMatchObject(expected)
  })

  it('guards a whole router, and routes of every method', async () => {
    const { app, logIn } = await testApp(
      {},
      {
        after: (host, requireDid) => {
          host.use('/api', requireDid)
          host.all('/api/thing', (req, res) => {
            res.json(req.user)
          })
        }
      }
    )
    const { accessToken } = await logIn()
    for (const method of ['get', 'post', 'put', 'patch', 'delete'] as const) {
      const send = () => request(app)[method]('/api/thing')
      await send().expect(401, 'Missing access token')
      await send().set('Authorization', `DIDAuth ${accessToken}`).expect(200, { did: wallet.did })
    }
  })

  it('accepts the scheme in any case, followed by any number of spaces', async () => {
    const { logIn, me } = await testApp()
    const { accessToken } = await logIn()
    for (const scheme of ['DIDAuth', 'didauth', 'DIDAUTH  ', 'DidAuth']) {
      await me({ Authorization: `${scheme} ${accessToken}` }).expect(200)
    }
  })

  it.each(['Bearer T', 'Basic T', 'T', 'DIDAuthT', 'Bearer', ''])(
    'is missing in Authorization: %s, which is the token of another service or none',
    async (form) => {
      const { logIn, me, get } = await testApp(
        {},
        { after: (app, { optional }) => app.get('/open', optional, (req, res) => res.json({ user: req.user ?? null })) }
      )
      const { accessToken } = await logIn()
      const headers = { Authorization: form.replaceAll('T', accessToken) }
      await me(headers).expect(401, 'Missing access token')
      await get('/open', headers).expect(200, { user: null })
    }
  )

  it.each(['DIDAuth', 'DIDAuth T T', 'DIDAuth "T"', 'DIDAuth,T', 'DIDAuth T,'])(
    'responds 401 to Authorization: %s',
    async (form) => {
      const { logIn, me, get } = await testApp(
        {},
        { after: (app, { optional }) => app.get('/open', optional, (_req, res) => res.send('open')) }
      )
      const { accessToken } = await logIn()
      const headers = { Authorization: form.replaceAll('T', accessToken) }
      await me(headers).expect(401, 'Invalid access token')
      await get('/open', headers).expect(401, 'Invalid access token')
    }
  )

  it('responds 401 without a token, to a cookie without cookie mode, and to a token in the query', async () => {
    const { logIn, me, get } = await testApp()
    const { accessToken } = await logIn()
    const { headers } = await me().expect(401, 'Missing access token')
    expect(headers['www-authenticate']).toBe('DIDAuth realm="https://service.example"')
    await me({ Cookie: `authorization=${accessToken}` }).expect(401, 'Missing access token')
    await get(`/me?access_token=${accessToken}`).expect(401, 'Missing access token')
  })
})

const { did } = createNumberedWallet(1)

/** Creates an application with a guarded `POST /pay` that checks the session in the store, and a logged-in user. */
async function payApp(config: Partial<DidAuthConfig> = {}, isGuardedTwice = false) {
  const test = await testApp(config, {
    after: (app, requireDid) => {
      if (isGuardedTwice) app.use('/pay', requireDid)
      app.post('/pay', requireDid.with({ checkSession: true }), (req, res) => {
        res.json({ user: req.user, auth: req.auth })
      })
    }
  })
  const { accessToken, refreshToken } = await test.logIn()
  const pay = () => test.post('/pay', undefined, accessToken)
  return { ...test, accessToken, refreshToken, pay, me: () => test.me(accessToken) }
}

describe('requireDid.with({ checkSession: true })', () => {
  it('accepts an active session, with the same req.user and req.auth as requireDid', async () => {
    const { pay, me } = await payApp()
    expect((await pay().expect(200)).body).toEqual((await me().expect(200)).body)
  })

  it('refuses a revoked session immediately: 401, where requireDid still accepts it', async () => {
    const { pay, me, requireDid } = await payApp()
    await requireDid.sessions.revokeAll(did)
    const { body } = await pay().set('Accept', 'application/problem+json').expect(401)
    expect(body).toMatchObject({ title: 'Session ended', code: 'ERR_SESSION_ENDED' })
    await me().expect(200)
  })

  it('responds 503 if the store is unavailable: never a pass, never a 401', async () => {
    const { store, state } = breakableStore('findSession')
    const { pay, me } = await payApp({ store })
    state.isBroken = true
    expect((await pay().expect(503, 'Store unavailable, try again')).headers['retry-after']).toBe('5')
    await me().expect(200)
  })

  it('charges once behind requireDid, and still checks the session', async () => {
    const { pay, requireDid } = await payApp({ maxRequestsPerTimeSlot: 2 }, true)
    await pay().expect(200)
    await requireDid.sessions.revokeAll(did)
    await pay().expect(401, 'Session ended')
    await pay().expect(429)
  })

  it('does not charge the quota for an ended session', async () => {
    const { pay, me, requireDid } = await payApp({ maxRequestsPerTimeSlot: 1 })
    await requireDid.sessions.revokeAll(did)
    for (let number = 0; number < 3; number += 1) await pay().expect(401)
    await me().expect(200)
  })
})

type OptionalGuard = (requireDid: RequireDid) => RequireDid['optional']

async function newsApp(guard: OptionalGuard, config: Partial<DidAuthConfig> = {}) {
  const test = await testApp(config, {
    after: (app, requireDid) =>
      app.all('/news', guard(requireDid), (req, res) => {
        res.json({ isGuest: req.user === undefined && req.auth === undefined, did: req.user?.did })
      })
  })
  return { ...test, news: (as?: string | Record<string, string>) => test.get('/news', as) }
}
const GUEST = { isGuest: true }
const USER = { isGuest: false, did }

describe.each<[string, OptionalGuard]>([
  ['requireDid.optional', (requireDid) => requireDid.optional],
  ['requireDid.with({ optional: true })', (requireDid) => requireDid.with({ optional: true })]
])('%s', (_name, guard) => {
  it('allows a request without a token, and sets req.user and charges the quota for a valid one', async () => {
    const { news, post, logIn } = await newsApp(guard, { maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn()
    await news(accessToken).expect(200, USER)
    await news(accessToken).expect(429, 'Too many requests')
    await news().expect(200, GUEST)
    await post('/news').expect(200, GUEST)
  })

  it('removes the user and the information of an earlier middleware from a request without a token', async () => {
    const { get } = await testApp(
      {},
      {
        before: (host) =>
          host.use((req, _res, next) => {
            Object.assign(req, { user: { did: 'did:web:forged' }, auth: { canonicalDid: 'did:web:forged' } })
            next()
          }),
        after: (host, requireDid) =>
          host.get('/news', guard(requireDid), (req, res) => {
            res.json({ isGuest: req.user === undefined && req.auth === undefined })
          })
      }
    )
    await get('/news').expect(200, GUEST)
  })

  it('refuses an expired token, so that the client notices', async () => {
    const { news, logIn, clock } = await newsApp(guard)
    const { accessToken } = await logIn()
    clock.seconds += 600
    await news(accessToken).expect(401, 'Expired access token')
  })

  it('reads cookies in cookie mode, allows none, and refuses requests of another site with them', async () => {
    const { news, post, logInForCookies } = await newsApp(guard, { useCookies: true })
    const Cookie = await logInForCookies()
    await news({ Cookie }).expect(200, USER)
    await news({ Cookie: 'theme=dark' }).expect(200, GUEST)
    await news({ Cookie: 'authorization=x' }).expect(401, 'Invalid access token')
    const foreign = { Origin: 'https://evil.example' }
    await post('/news', undefined, { Cookie, ...foreign }).expect(403)
    await post('/news', undefined, foreign).expect(200, GUEST)
  })
})

describe('requireDid.with({ optional: true, checkSession: true })', () =>
  it('allows a guest, and refuses an ended session', async () => {
    const { news, logIn, requireDid } = await newsApp((one) => one.with({ optional: true, checkSession: true }))
    const { accessToken } = await logIn()
    await news(accessToken).expect(200, USER)
    await requireDid.sessions.revokeAll(did)
    await news(accessToken).expect(401, 'Session ended')
    await news().expect(200, GUEST)
  }))

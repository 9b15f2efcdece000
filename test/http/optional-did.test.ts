import { describe, it } from '@jest/globals'
import type { DidAuthConfig, RequireDid } from 'express-did-auth'
import { testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const { did } = walletOf(1)
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
  it('lets a request without token pass, and sets req.user for a good one, which counts against the quota', async () => {
    const { news, post, logIn } = await newsApp(guard, { maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn()
    await news(accessToken).expect(200, USER)
    await news(accessToken).expect(429, 'Too many requests')
    await news().expect(200, GUEST)
    await post('/news').expect(200, GUEST)
  })

  it('refuses an expired token: the client has to learn of it', async () => {
    const { news, logIn, clock } = await newsApp(guard)
    const { accessToken } = await logIn()
    clock.seconds += 600
    await news(accessToken).expect(401, 'Expired access token')
  })

  it('in cookie mode reads the cookies, passes without them, and refuses what another site sends with them', async () => {
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

describe('requireDid.with({ optional: true, checkSession: true })', () => {
  it('lets a guest pass, and refuses a session that has ended', async () => {
    const { news, logIn, requireDid } = await newsApp((one) => one.with({ optional: true, checkSession: true }))
    const { accessToken } = await logIn()
    await news(accessToken).expect(200, USER)
    await requireDid.sessions.revokeAll(did)
    await news(accessToken).expect(401, 'Session ended')
    await news().expect(200, GUEST)
  })
})

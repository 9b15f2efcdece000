import { describe, expect, it } from '@jest/globals'
import type { DidAuthConfig } from 'express-did-auth'
import { breakableStore, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const { did } = walletOf(1)

/** An application with a guarded `POST /pay` that asks the store about the session, and a user who logged in. */
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
type PayApp = Awaited<ReturnType<typeof payApp>>

describe('requireDid.with({ checkSession: true })', () => {
  it('lets an active session pass, with the same req.user and req.auth as requireDid', async () => {
    const { pay, me } = await payApp()
    expect((await pay().expect(200)).body).toEqual((await me().expect(200)).body)
  })

  it.each<[string, (test: PayApp) => Promise<unknown>]>([
    ['was logged out', async ({ logOut, accessToken }) => logOut(accessToken).expect(200)],
    ['was revoked', async ({ requireDid }) => requireDid.sessions.revokeAll(did)],
    [
      'was revoked because a refresh token came twice',
      async ({ refresh, refreshToken, clock }) => {
        await refresh(refreshToken).expect(200)
        clock.seconds += 11
        await refresh(refreshToken).expect(401)
      }
    ]
  ])('refuses a session that %s at once: 401, where requireDid alone lets it pass', async (_name, happens) => {
    const test = await payApp()
    await happens(test)
    const { body } = await test.pay().set('Accept', 'application/problem+json').expect(401)
    expect(body).toMatchObject({ title: 'Session ended', code: 'ERR_SESSION_ENDED' })
    await test.me().expect(200)
  })

  it('is 503 when the store is out of reach: never a pass, never a 401', async () => {
    const { store, state } = breakableStore('findSession')
    const { pay, me } = await payApp({ store })
    state.isBroken = true
    expect((await pay().expect(503, 'Store unavailable, try again')).headers['retry-after']).toBe('5')
    await me().expect(200)
  })

  it('behind requireDid is charged once, and still asks', async () => {
    const { pay, requireDid } = await payApp({ maxRequestsPerTimeSlot: 2 }, true)
    await pay().expect(200)
    await requireDid.sessions.revokeAll(did)
    await pay().expect(401, 'Session ended')
    await pay().expect(429)
  })

  it('does not charge the quota for a session that has ended', async () => {
    const { pay, me, requireDid } = await payApp({ maxRequestsPerTimeSlot: 1 })
    await requireDid.sessions.revokeAll(did)
    for (let number = 0; number < 3; number += 1) await pay().expect(401)
    await me().expect(200)
  })
})

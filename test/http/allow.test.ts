import { describe, expect, it, jest } from '@jest/globals'
import { canonicalDid, DidAuthError, type AllowUser, type DidAuthConfig, type GuardOptions } from 'express-did-auth'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import { testApp } from '../support/servers/test-app.js'

const wallet = createNumberedWallet(1)
const spelled = `did:ethr:RSK:${wallet.address}`
const role: Partial<DidAuthConfig> = { authenticationBusinessLogic: () => ({ tokenClaims: { role: 'editor' } }) }

/** Creates an application with a route that `allow` restricts, and a logged-in editor. */
async function restrictedApp(allow: AllowUser, options: GuardOptions = {}, config: Partial<DidAuthConfig> = {}) {
  const test = await testApp(
    { ...role, ...config },
    {
      after: (app, requireDid) => {
        app.all('/notes', requireDid.with({ ...options, allow }), (req, res) => {
          res.json(req.user ?? 'guest')
        })
      }
    }
  )
  const { accessToken } = await test.logIn(wallet, spelled)
  return { ...test, accessToken, notes: (as?: Parameters<typeof test.get>[1]) => test.get('/notes', as) }
}

describe('requireDid.with({ allow })', () => {
  it('receives the claims of the token and the user, and lets the request pass by true', async () => {
    const allow = jest.fn<AllowUser>(({ claims }) => claims.role === 'editor')
    const { accessToken, notes } = await restrictedApp(allow)
    await notes(accessToken).expect(200, { did: spelled })
    const user = { did: spelled, canonicalDid: canonicalDid(spelled), address: wallet.address.toLowerCase() }
    expect(allow.mock.calls).toEqual([[{ user, claims: expect.objectContaining({ sub: spelled, role: 'editor' }) }]])
  })

  it('responds 403 ERR_FORBIDDEN to a refused user, and logs the check', async () => {
    const { accessToken, notes, log } = await restrictedApp(({ claims }) => claims.role === 'admin')
    const refused = await notes(accessToken).expect(403, 'Forbidden to this user')
    expect(refused.headers['www-authenticate']).toBeUndefined()
    const fields = { event: 'first-refusal', code: 'ERR_FORBIDDEN', reason: { check: 'allow' } }
    expect(log.map((line) => line.fields)).toContainEqual(fields)
    const { body } = await notes({ Authorization: `DIDAuth ${accessToken}`, Accept: 'application/problem+json' })
    expect(body).toEqual({ type: 'about:blank', title: 'Forbidden to this user', status: 403, code: 'ERR_FORBIDDEN' })
  })

  it.each<[string, unknown]>([
    ['undefined', () => undefined],
    ['a promise of false', async () => false],
    ['a text', () => 'admin'],
    ['1', () => 1],
    ['a DidAuthError', () => Promise.reject(new DidAuthError('ERR_FORBIDDEN'))]
  ])('refuses a user for %s', async (_value, allow) => {
    const { accessToken, notes } = await restrictedApp(allow as AllowUser)
    await notes(accessToken).expect(403, 'Forbidden to this user')
  })

  it('waits for a promise of true', async () => {
    const { accessToken, notes } = await restrictedApp(async () => true)
    await notes(accessToken).expect(200)
  })

  it('decides only on users whom every other check has accepted, and whose request was counted', async () => {
    const allow = jest.fn<AllowUser>(() => false)
    const { accessToken, notes, requireDid } = await restrictedApp(
      allow,
      { checkSession: true },
      { maxRequestsPerTimeSlot: 1 }
    )
    await notes().expect(401)
    await notes('x').expect(401)
    expect(allow).not.toHaveBeenCalled()
    await notes(accessToken).expect(403)
    await notes(accessToken).expect(429)
    await requireDid.sessions.revokeAll(wallet.did)
    await notes(accessToken).expect(401, 'Session ended')
    expect(allow).toHaveBeenCalledTimes(1)
  })

  it('is not called for a guest of an optional login', async () => {
    const { accessToken, notes } = await restrictedApp(() => false, { optional: true })
    await notes().expect(200, '"guest"')
    await notes(accessToken).expect(403)
  })

  it('decides again behind another guard, and the request counts once', async () => {
    const { logIn, get } = await testApp(
      { ...role, maxRequestsPerTimeSlot: 1 },
      {
        after: (app, requireDid) => {
          app.get('/notes', requireDid, requireDid.with({ allow: ({ claims }) => claims.role === 'admin' }))
        }
      }
    )
    await get('/notes', (await logIn()).accessToken).expect(403)
  })

  it('responds 500 if it throws an error of the application', async () => {
    jest.spyOn(console, 'error').mockImplementation(() => undefined)
    const { accessToken, notes } = await restrictedApp(() => {
      throw new Error('the database of roles is unavailable')
    })
    await notes(accessToken).expect(500)
    jest.restoreAllMocks()
  })
})

import { describe, expect, it } from '@jest/globals'
import { memoryStore } from 'express-did-auth'
import { START_SECONDS, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const spelled = `did:ethr:rsk:${wallet.address}`
const WEEK_SECONDS = 168 * 3600

describe('POST /refresh-token and POST /logout', () => {
  it('answer new tokens to whatever Authorization, and 200 without content, twice', async () => {
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

  it('answer 401 to an expired access token alone', async () => {
    const { logIn, logOut, clock } = await testApp()
    const { accessToken } = await logIn()
    clock.seconds += 600
    await logOut(accessToken).expect(401, 'Expired access token')
  })

  it('cost nothing of the quota', async () => {
    const { logIn, refresh, logOut, me } = await testApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = (await refresh((await logIn()).refreshToken).expect(200)).body
    await logOut(accessToken).expect(200)
    await me(accessToken).expect(200)
    await logOut(accessToken).expect(200)
  })
})

describe('the sessions of a user', () => {
  it('are listed, the newest first, without anything secret', async () => {
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
    expect(await requireDid.sessions.list(walletOf(2).did)).toEqual([])
  })

  // Cause: the list of the application ignored an absolute end that was configured after the login.
  it('are listed up to an absolute end that was configured after the login', async () => {
    const store = memoryStore()
    await (await testApp({ store })).logIn()
    const { clock, requireDid } = await testApp({ store, absoluteSessionDurationInHours: 1 })
    clock.seconds = START_SECONDS + 3_599
    expect(await requireDid.sessions.list(wallet.did)).toMatchObject([{ expiresAtSeconds: START_SECONDS + 3_600 }])
    clock.seconds = START_SECONDS + 3_600
    expect(await requireDid.sessions.list(wallet.did)).toEqual([])
  })

  it("are revoked one by one, true when it was active, or all at once, and no one else's", async () => {
    const { logIn, refresh, requireDid } = await testApp()
    const { list, revoke, revokeAll } = requireDid.sessions
    const [phone, tablet, laptop] = [await logIn(), await logIn(), await logIn()]
    const other = await logIn(walletOf(2))
    const newest = (await list(wallet.did))[0]!.sessionId
    expect([await revoke(newest), await revoke(newest), await revoke('unknown')]).toEqual([true, false, false])
    await refresh(laptop.refreshToken).expect(401, 'Invalid refresh token')
    const { refreshToken } = (await refresh(phone.refreshToken).expect(200)).body
    expect([await revokeAll(spelled), await revokeAll(wallet.did)]).toEqual([2, 0])
    for (const token of [refreshToken, tablet.refreshToken]) await refresh(token).expect(401)
    await refresh(other.refreshToken).expect(200)
  })
})

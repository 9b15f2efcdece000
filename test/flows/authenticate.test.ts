import { beforeEach, describe, expect, it } from '@jest/globals'
import { RecentEntries } from '../../src/caches.js'
import { DidAuthError } from '../../src/errors.js'
import { assertSessionActive, authenticate } from '../../src/flows/authenticate.js'
import { logIn } from '../../src/flows/log-in.js'
import { logOut } from '../../src/flows/manage-sessions.js'
import { refusal } from '../support/fixtures/refusal.js'
import { client, createFlowParts, signLogin, decodePayload, type FlowParts } from './flow-parts.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
let parts: FlowParts
let token: string

beforeEach(async () => {
  parts = await createFlowParts()
  token = (await logIn(parts, { client, did: wallet.did, sig: signLogin(parts, wallet) })).accessToken
  parts.steps.length = 0
})

/** Empties the token cache, as a restart does. */
function forgetTokens(): void {
  parts.verifiedTokens = new RecentEntries()
}

describe('authenticate', () => {
  it('accepts a token that it issued without calling the curve', async () => {
    expect((await authenticate(parts, token)).claims.sub).toBe(wallet.did)
    expect(parts.steps).toEqual([])
  })

  it('verifies an uncached token once', async () => {
    forgetTokens()
    const user = await authenticate(parts, token)
    expect(user).toEqual({ claims: decodePayload(token), canonicalDid: wallet.did, address: wallet.did.slice(-42) })
    expect(await authenticate(parts, token)).toBe(user)
    expect(parts.steps).toEqual(['publicKey', 'verify'])
  })

  it.each([
    ['seen before', false],
    ['not seen before', true]
  ])('accepts a token %s in its last second, and calls it expired a second later', async (_name, isForgotten) => {
    parts.clock.seconds = START_SECONDS + 599
    if (isForgotten) forgetTokens()
    await expect(authenticate(parts, token)).resolves.toHaveProperty('claims.sub')
    if (isForgotten) forgetTokens()
    parts.clock.seconds = START_SECONDS + 600
    await expect(authenticate(parts, token)).rejects.toMatchObject({
      code: 'ERR_ACCESS_TOKEN_EXPIRED',
      message: 'Expired access token'
    })
  })

  it('refuses a future token, cached or not: the clock went back by 6 s', async () => {
    parts.clock.seconds = START_SECONDS - 5
    await expect(authenticate(parts, token)).resolves.toHaveProperty('claims.sub')
    parts.clock.seconds = START_SECONDS - 6
    await expect(authenticate(parts, token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
    forgetTokens()
    await expect(authenticate(parts, token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
  })

  it('does not cache a refused token', async () => {
    const spoilt = `${token.slice(0, -2)}AA`
    await expect(authenticate(parts, spoilt)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
    expect(parts.verifiedTokens.get(spoilt)).toBeUndefined()
  })

  it('does not cache a token that was expired on first use', async () => {
    forgetTokens()
    parts.clock.seconds = START_SECONDS + 600
    await expect(authenticate(parts, token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN_EXPIRED'))
    expect(parts.verifiedTokens.get(token)).toBeUndefined()
  })

  it('distinguishes a missing token from an empty one, which is invalid', async () => {
    await expect(authenticate(parts, undefined)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN_MISSING'))
    await expect(authenticate(parts, '')).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
  })

  it('accepts a token until exp after logout, as specified, also after a restart', async () => {
    await logOut(parts, decodePayload(token).sid as string, wallet.did)
    await expect(authenticate(parts, token)).resolves.toHaveProperty('claims.sub')
    forgetTokens()
    await expect(authenticate(parts, token)).resolves.toHaveProperty('claims.sub')
  })

  it('refuses the token of another service with the same key', async () => {
    const other = await createFlowParts({ serviceUrl: 'https://other.example' })
    await expect(authenticate(other, token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
  })

  it('refuses nothing as invalid while the public key is unavailable', async () => {
    forgetTokens()
    parts.serviceKey.publicKey = () => Promise.reject(new DidAuthError('ERR_SIGNER'))
    await expect(authenticate(parts, token)).rejects.toEqual(refusal('ERR_SIGNER'))
  })
})

describe('assertSessionActive', () => {
  const sessionId = (): string => decodePayload(token).sid as string

  it('accepts an active session in its last second', async () => {
    parts.clock.seconds = START_SECONDS + 604_799
    await expect(assertSessionActive(parts, sessionId())).resolves.toBeUndefined()
  })

  it('refuses a session that is logged out, revoked, unknown or expired', async () => {
    await expect(assertSessionActive(parts, 'unknown')).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
    parts.clock.seconds = START_SECONDS + 604_800
    await expect(assertSessionActive(parts, sessionId())).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
    parts.clock.seconds = START_SECONDS
    await logOut(parts, sessionId(), wallet.did)
    await expect(assertSessionActive(parts, sessionId())).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
  })

  it('refuses a session older than absoluteSessionDurationInHours, even if that was set later', async () => {
    const { settings } = await createFlowParts({ absoluteSessionDurationInHours: 1 })
    parts.settings = settings
    parts.clock.seconds = START_SECONDS + 3_599
    await expect(assertSessionActive(parts, sessionId())).resolves.toBeUndefined()
    parts.clock.seconds = START_SECONDS + 3_600
    await expect(assertSessionActive(parts, sessionId())).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
  })

  it('refuses a token without a session', () =>
    expect(assertSessionActive(parts, undefined)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN')))
})

import { describe, expect, it } from '@jest/globals'
import { DidAuthError } from '../../src/errors.js'
import { refusal } from '../support/refusal.js'
import { walletOf } from '../support/wallet.js'
import { flowParts, loggedIn, payloadOf, START_SECONDS } from './flow-parts.js'

const { did } = walletOf(1)
const KEY = 'k'.repeat(22)

describe('refreshBusinessLogic', () => {
  it('receives the DID and the session, without hashes of tokens', async () => {
    const asked: unknown[] = []
    const { tokens, refresh } = await loggedIn({
      authenticationBusinessLogic: () => ({ tokenClaims: { role: 'user' } }),
      refreshBusinessLogic: (...args) => {
        asked.push(args)
      }
    })
    await refresh(tokens.refreshToken)
    const session = {
      sessionId: payloadOf(tokens.accessToken).sid,
      did,
      state: 'active',
      tokenClaims: { role: 'user' },
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS,
      expiresAtSeconds: START_SECONDS + 604_800,
      canonicalDid: did,
      address: did.slice(-42)
    }
    expect(asked).toEqual([[did, session]])
  })

  it('replaces the claims of the session, from this access token on; what gives none keeps them', async () => {
    let answer: unknown = { tokenClaims: { role: 'admin' } }
    const { tokens, refresh } = await loggedIn({
      authenticationBusinessLogic: () => ({ tokenClaims: { role: 'user', team: 1 } }),
      refreshBusinessLogic: () => answer
    })
    const second = await refresh(tokens.refreshToken)
    expect(payloadOf(second.accessToken)).toMatchObject({ role: 'admin' })
    expect(payloadOf(second.accessToken)).not.toHaveProperty('team')
    answer = undefined
    const third = await refresh(second.refreshToken)
    expect(payloadOf(third.accessToken)).toMatchObject({ role: 'admin' })
    answer = { tokenClaims: {} }
    expect(payloadOf((await refresh(third.refreshToken)).accessToken)).not.toHaveProperty('role')
  })

  it.each(['ERR_SESSION_ENDED', 'ERR_DID', 'ERR_ACCESS_TOKEN', 'ERR_BUSINESS_LOGIC'] as const)(
    // Cause: only ERR_BUSINESS_LOGIC revoked, so that a refusal by an error of this package left the session alive.
    'revokes the session when it refuses with a DidAuthError of code %s',
    async (code) => {
      const { parts, tokens, refresh } = await loggedIn({
        refreshBusinessLogic: () => Promise.reject(new DidAuthError(code))
      })
      const { sid } = payloadOf(tokens.accessToken)
      await expect(refresh(tokens.refreshToken)).rejects.toMatchObject({ code })
      await expect(refresh(tokens.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
      expect(parts.events.at(-1)).toEqual({ type: 'session-revoked', did, sessionId: sid, code })
    }
  )

  it.each([
    ['throws', () => Promise.reject(new Error('Your account is closed')), 'Your account is closed'],
    ['returns false', () => false, 'Refused']
  ])('revokes the session when it %s, and reports it', async (_name, logic, message) => {
    const { parts, tokens, refresh } = await loggedIn({ refreshBusinessLogic: logic })
    const { sid } = payloadOf(tokens.accessToken)
    const refused = refresh(tokens.refreshToken)
    await expect(refused).rejects.toMatchObject({ code: 'ERR_BUSINESS_LOGIC', message })
    await expect(refresh(tokens.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    expect(parts.events.at(-1)).toEqual({ type: 'session-revoked', did, sessionId: sid, code: 'ERR_BUSINESS_LOGIC' })
  })

  it.each([
    ['fails', () => Promise.reject(new TypeError('x is undefined')), 'ERR_INTERNAL'],
    ['answers 503 by an error of this package', () => Promise.reject(new DidAuthError('ERR_STORE')), 'ERR_STORE']
  ] as const)('leaves the refresh token good when it %s', async (_name, logic, code) => {
    let isBroken = true
    const { tokens, refresh } = await loggedIn({ refreshBusinessLogic: () => (isBroken ? logic() : undefined) })
    await expect(refresh(tokens.refreshToken)).rejects.toMatchObject({ code })
    isBroken = false
    await expect(refresh(tokens.refreshToken)).resolves.toHaveProperty('accessToken')
  })

  it('is asked for a current token and for a repeat, whose claims are not stored, and for no other', async () => {
    let asked = 0
    const { parts, tokens, refresh } = await loggedIn({
      refreshBusinessLogic: () => ({ tokenClaims: { asked: (asked += 1) } })
    })
    const second = await refresh(tokens.refreshToken, KEY)
    const repeated = await refresh(tokens.refreshToken, KEY)
    expect([second, repeated].map(({ accessToken }) => payloadOf(accessToken).asked)).toEqual([1, 2])
    const sessionId = String(payloadOf(second.accessToken).sid)
    expect((await parts.store.findSession('https://service.example', sessionId))?.tokenClaims).toEqual({ asked: 1 })
    await expect(refresh(tokens.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    parts.clock.seconds += 11
    await expect(refresh(tokens.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN_REUSED'))
    await expect(refresh(second.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    expect(asked).toBe(2)
  })
})

describe('absoluteSessionDurationInHours', () => {
  it('ends a session that long after its login, however often it was refreshed', async () => {
    const { parts, tokens, refresh } = await loggedIn({ absoluteSessionDurationInHours: 200 })
    expect(tokens.refreshTokenSeconds).toBe(604_800)
    parts.clock.seconds = START_SECONDS + 600_000
    const second = await refresh(tokens.refreshToken)
    // 200 h are 720,000 s.
    expect(second.refreshTokenSeconds).toBe(120_000)
    parts.clock.seconds = START_SECONDS + 719_999
    const third = await refresh(second.refreshToken)
    expect(third.refreshTokenSeconds).toBe(1)
    parts.clock.seconds = START_SECONDS + 720_000
    await expect(refresh(third.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
  })

  it('bounds the first refresh token as well', async () => {
    const { tokens } = await loggedIn({ absoluteSessionDurationInHours: 0.5 })
    expect(tokens.refreshTokenSeconds).toBe(1_800)
  })

  it('ends older sessions as well where it was set later', async () => {
    const { parts, tokens, refresh } = await loggedIn()
    const { settings } = await flowParts({ absoluteSessionDurationInHours: 1 })
    parts.settings = settings
    parts.clock.seconds = START_SECONDS + 3_600
    await expect(refresh(tokens.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
  })
})

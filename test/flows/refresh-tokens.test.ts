import { beforeEach, describe, expect, it } from '@jest/globals'
import { DidAuthError } from '../../src/errors.js'
import { logIn } from '../../src/flows/log-in.js'
import { logOut } from '../../src/flows/manage-sessions.js'
import type { BoundSession } from '../../src/flows/device-binding.js'
import { hashRefreshToken, refreshTokens, type Tokens } from '../../src/flows/tokens.js'
import type { JsonObject } from '../../src/protocol/json.js'
import { refusal } from '../support/fixtures/refusal.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'
import { client, createFlowParts, type FlowParts, createLoggedIn, signLogin, decodePayload } from './flow-parts.js'

const wallet = createNumberedWallet(1)

describe('hashRefreshToken', () => {
  it('returns SHA-256 as base64url', () => {
    // FIPS 180-4: SHA-256 of "abc".
    expect(hashRefreshToken('abc')).toBe('ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0')
  })
})

let parts: FlowParts
let first: Tokens

let refresh: (refreshToken: unknown) => ReturnType<typeof refreshTokens>

async function begin(config: Parameters<typeof createFlowParts>[0] = {}): Promise<void> {
  ;({ parts, tokens: first, refresh } = await createLoggedIn(config))
}

beforeEach(() => begin())

describe('refreshTokens', () => {
  it('refuses the token of a bound session, which stays active, if nothing checks the binding', async () => {
    const { did } = wallet
    const sig = signLogin(parts, wallet, { useCount: 1 })
    const bindSession = (): JsonObject => ({ cnf: { jkt: 'thumbprint' } })
    const { refreshToken } = await logIn(parts, { did, sig, client, bindSession })
    await expect(refresh(refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    const checked: unknown[] = []
    const assertBound = async ({ claims }: BoundSession): Promise<void> => void checked.push(claims)
    const request = { refreshToken, idempotencyKey: undefined, client, assertBound }
    expect((await refreshTokens(parts, request)).isRepeated).toBe(false)
    expect(checked).toEqual([{ cnf: { jkt: 'thumbprint' } }])
  })

  it('returns new tokens of the same session and user, with new times', async () => {
    parts.clock.seconds = START_SECONDS + 1_000
    const second = await refresh(first.refreshToken)
    const before = decodePayload(first.accessToken)
    const after = decodePayload(second.accessToken)
    expect(after).toEqual({
      ...before,
      iat: START_SECONDS + 1_000,
      nbf: START_SECONDS + 1_000,
      exp: START_SECONDS + 1_600,
      jti: after.jti
    })
    expect(after.jti).not.toBe(before.jti)
    expect(second.refreshToken).toMatch(/^[A-Za-z0-9_-]{24}[.][A-Za-z0-9_-]{43}$/)
    expect(second.refreshToken.slice(0, 24)).toBe(before.sid)
    expect(second.refreshToken).not.toBe(first.refreshToken)
  })

  it('repeats the claims that business logic added at login', async () => {
    await begin({ authenticationBusinessLogic: () => ({ tokenClaims: { role: 'admin' } }) })
    const second = await refresh(first.refreshToken)
    const third = await refresh(second.refreshToken)
    expect(decodePayload(third.accessToken).role).toBe('admin')
  })

  it('keeps the DID as received at login in the token', async () => {
    const spelled = `did:ethr:rsk:${wallet.address}`
    const { refreshToken } = await logIn(parts, {
      client,
      did: spelled,
      sig: signLogin(parts, wallet, { did: spelled, useCount: 1 })
    })
    expect(decodePayload((await refresh(refreshToken)).accessToken).sub).toBe(spelled)
  })

  it('signs before it writes to the store', async () => {
    await refresh(first.refreshToken)
    expect(parts.steps).toEqual(['findSession', 'sign', 'rotateRefreshToken'])
  })

  it('leaves the old refresh token valid when signing fails', async () => {
    const { issueJwt } = parts.serviceKey
    parts.serviceKey.issueJwt = () => Promise.reject(new DidAuthError('ERR_SIGNER'))
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_SIGNER'))
    parts.serviceKey.issueJwt = issueJwt
    await expect(refresh(first.refreshToken)).resolves.toHaveProperty('accessToken')
  })

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a number', 5],
    ['an array', ['A'.repeat(43)]],
    ['an object', { refreshToken: 'A'.repeat(43) }],
    ['the empty string', ''],
    ['42 characters', 'A'.repeat(42)],
    ['44 characters', 'A'.repeat(44)],
    ['another alphabet', `${'A'.repeat(42)}+`],
    ['a line feed at the end', `${'A'.repeat(43)}\n`]
  ])('does not call the store for an invalid refresh token: %s', async (_name, value) => {
    await expect(refresh(value)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    expect(parts.steps).toEqual([])
  })

  it('signs nothing for an unknown token, with or without a known session', async () => {
    const [sessionId = ''] = first.refreshToken.split('.')
    for (const token of [`unknown.${'A'.repeat(43)}`, `${sessionId}.${'A'.repeat(43)}`]) {
      parts.steps.length = 0
      await expect(refresh(token)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
      expect(parts.steps).toEqual(['findSession'])
    }
  })

  it('refreshes in the last second of 168 hours, which restart with each refresh, and not later', async () => {
    parts.clock.seconds = START_SECONDS + 604_799
    const second = await refresh(first.refreshToken)
    parts.clock.seconds += 604_800
    await expect(refresh(second.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    parts.clock.seconds -= 1
    await expect(refresh(second.refreshToken)).resolves.toHaveProperty('accessToken')
  })
})

describe('a replaced refresh token that is presented again', () => {
  it('is only refused up to 10 s later, and the session continues', async () => {
    const second = await refresh(first.refreshToken)
    parts.clock.seconds += 10
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    await expect(refresh(second.refreshToken)).resolves.toHaveProperty('accessToken')
    expect(parts.warnings).toEqual([])
  })

  it('revokes the session 11 s later, with a warning that names the session', async () => {
    const second = await refresh(first.refreshToken)
    parts.clock.seconds += 11
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN_REUSED'))
    await expect(refresh(second.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    expect(parts.warnings).toEqual([{ event: 'refresh-token-reused', sessionId: decodePayload(first.accessToken).sid }])
  })

  it('revokes a second later with refreshReuseGraceSeconds 0', async () => {
    await begin({ refreshReuseGraceSeconds: 0 })
    await refresh(first.refreshToken)
    parts.clock.seconds += 1
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN_REUSED'))
  })
})

describe('logOut', () => {
  const readSessionId = ({ accessToken }: Tokens): string => decodePayload(accessToken).sid as string

  it('ends the session: its refresh token is invalid immediately, before a new token is signed', async () => {
    await logOut(parts, readSessionId(first), wallet.did)
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    expect(parts.steps).not.toContain('sign')
  })

  it('does not call the store for a token without sid', async () => {
    await logOut(parts, undefined, wallet.did)
    expect(parts.steps).toEqual([])
  })

  it('wins against a concurrent refresh', async () => {
    const { issueJwt } = parts.serviceKey
    parts.serviceKey.issueJwt = async (...args) => {
      await logOut(parts, readSessionId(first), wallet.did)
      return issueJwt(...args)
    }
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
  })
})

const { did } = createNumberedWallet(1)
const KEY = 'k'.repeat(22)

describe('refreshBusinessLogic', () => {
  it('receives the DID and the session, without hashes of tokens', async () => {
    const asked: unknown[] = []
    const { tokens, refresh } = await createLoggedIn({
      authenticationBusinessLogic: () => ({ tokenClaims: { role: 'user' } }),
      refreshBusinessLogic: (...args) => {
        asked.push(args)
      }
    })
    await refresh(tokens.refreshToken)
    const session = {
      sessionId: decodePayload(tokens.accessToken).sid,
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

  it('replaces the claims of the session from this access token on; undefined keeps them', async () => {
    let answer: unknown = { tokenClaims: { role: 'admin' } }
    const { tokens, refresh } = await createLoggedIn({
      authenticationBusinessLogic: () => ({ tokenClaims: { role: 'user', team: 1 } }),
      refreshBusinessLogic: () => answer
    })
    const second = await refresh(tokens.refreshToken)
    expect(decodePayload(second.accessToken)).toMatchObject({ role: 'admin' })
    expect(decodePayload(second.accessToken)).not.toHaveProperty('team')
    answer = undefined
    const third = await refresh(second.refreshToken)
    expect(decodePayload(third.accessToken)).toMatchObject({ role: 'admin' })
    answer = { tokenClaims: {} }
    expect(decodePayload((await refresh(third.refreshToken)).accessToken)).not.toHaveProperty('role')
  })

  it.each(['ERR_SESSION_ENDED', 'ERR_DID', 'ERR_ACCESS_TOKEN', 'ERR_BUSINESS_LOGIC'] as const)(
    // Cause: only ERR_BUSINESS_LOGIC revoked, so that a refusal with another error of this package kept the session.
    'revokes the session if it refuses with a DidAuthError of code %s',
    async (code) => {
      const { parts, tokens, refresh } = await createLoggedIn({
        refreshBusinessLogic: () => Promise.reject(new DidAuthError(code))
      })
      const { sid } = decodePayload(tokens.accessToken)
      await expect(refresh(tokens.refreshToken)).rejects.toMatchObject({ code })
      await expect(refresh(tokens.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
      expect(parts.events.at(-1)).toEqual({ type: 'session-revoked', did, sessionId: sid, code })
    }
  )

  it('revokes the session if it returns false, and reports that', async () => {
    const { parts, tokens, refresh } = await createLoggedIn({ refreshBusinessLogic: () => false })
    const { sid } = decodePayload(tokens.accessToken)
    const refused = refresh(tokens.refreshToken)
    await expect(refused).rejects.toMatchObject({ code: 'ERR_BUSINESS_LOGIC', message: 'Refused' })
    await expect(refresh(tokens.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    expect(parts.events.at(-1)).toEqual({ type: 'session-revoked', did, sessionId: sid, code: 'ERR_BUSINESS_LOGIC' })
  })

  it.each([
    ['fails', () => Promise.reject(new TypeError('x is undefined')), 'ERR_INTERNAL'],
    // Drivers throw plain errors when their database is unavailable.
    ['throws a plain error', () => Promise.reject(new Error('Connection terminated unexpectedly')), 'ERR_INTERNAL'],
    ['answers 503 by an error of this package', () => Promise.reject(new DidAuthError('ERR_STORE')), 'ERR_STORE']
  ] as const)('leaves the refresh token valid if it %s', async (_name, logic, code) => {
    let isBroken = true
    const { tokens, refresh } = await createLoggedIn({ refreshBusinessLogic: () => (isBroken ? logic() : undefined) })
    await expect(refresh(tokens.refreshToken)).rejects.toMatchObject({ code })
    isBroken = false
    await expect(refresh(tokens.refreshToken)).resolves.toHaveProperty('accessToken')
  })

  it('is called for a current token and a repeat, whose claims are not stored, and for no other', async () => {
    let asked = 0
    const { parts, tokens, refresh } = await createLoggedIn({
      refreshBusinessLogic: () => ({ tokenClaims: { asked: (asked += 1) } })
    })
    const second = await refresh(tokens.refreshToken, KEY)
    const repeated = await refresh(tokens.refreshToken, KEY)
    expect([second, repeated].map(({ accessToken }) => decodePayload(accessToken).asked)).toEqual([1, 2])
    const sessionId = String(decodePayload(second.accessToken).sid)
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
    const { parts, tokens, refresh } = await createLoggedIn({ absoluteSessionDurationInHours: 200 })
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

  it('also limits the first refresh token', async () => {
    const { tokens } = await createLoggedIn({ absoluteSessionDurationInHours: 0.5 })
    expect(tokens.refreshTokenSeconds).toBe(1_800)
  })

  it('also ends older sessions if it was set later', async () => {
    const { parts, tokens, refresh } = await createLoggedIn()
    const { settings } = await createFlowParts({ absoluteSessionDurationInHours: 1 })
    parts.settings = settings
    parts.clock.seconds = START_SECONDS + 3_600
    await expect(refresh(tokens.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
  })
})

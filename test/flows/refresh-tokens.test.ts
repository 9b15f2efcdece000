import { beforeEach, describe, expect, it } from '@jest/globals'
import { DidAuthError } from '../../src/errors.js'
import type { Tokens } from '../../src/flows/issue-tokens.js'
import { logIn } from '../../src/flows/log-in.js'
import { logOut } from '../../src/flows/manage-sessions.js'
import type { refreshTokens } from '../../src/flows/refresh-tokens.js'
import { refusal } from '../support/refusal.js'
import { walletOf } from '../support/wallet.js'
import { client, type flowParts, loggedIn, loginSig, payloadOf, START_SECONDS, type FlowParts } from './flow-parts.js'

const wallet = walletOf(1)

let parts: FlowParts
let first: Tokens

let refresh: (refreshToken: unknown) => ReturnType<typeof refreshTokens>

async function begin(config: Parameters<typeof flowParts>[0] = {}): Promise<void> {
  ;({ parts, tokens: first, refresh } = await loggedIn(config))
}

beforeEach(() => begin())

describe('refreshTokens', () => {
  it('gives new tokens of the same session and user, with new times', async () => {
    parts.clock.seconds = START_SECONDS + 1_000
    const second = await refresh(first.refreshToken)
    const before = payloadOf(first.accessToken)
    const after = payloadOf(second.accessToken)
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
    expect(payloadOf(third.accessToken).role).toBe('admin')
  })

  it('keeps the DID as received at login in the token', async () => {
    const spelled = `did:ethr:rsk:${wallet.address}`
    const { refreshToken } = await logIn(parts, {
      client,
      did: spelled,
      sig: loginSig(parts, wallet, { did: spelled, useCount: 1 })
    })
    expect(payloadOf((await refresh(refreshToken)).accessToken).sub).toBe(spelled)
  })

  it('signs before it changes the store', async () => {
    await refresh(first.refreshToken)
    expect(parts.steps).toEqual(['findSession', 'sign', 'rotateRefreshToken'])
  })

  it('leaves the old refresh token good when signing fails', async () => {
    const { sign } = parts.serviceKey
    parts.serviceKey.sign = () => Promise.reject(new DidAuthError('ERR_SIGNER'))
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_SIGNER'))
    parts.serviceKey.sign = sign
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
  ])('asks the store nothing for what is no refresh token: %s', async (_name, value) => {
    await expect(refresh(value)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    expect(parts.steps).toEqual([])
  })

  it('signs nothing for an unknown token, of an unknown session or of a known one', async () => {
    const [sessionId = ''] = first.refreshToken.split('.')
    for (const token of [`unknown.${'A'.repeat(43)}`, `${sessionId}.${'A'.repeat(43)}`]) {
      parts.steps.length = 0
      await expect(refresh(token)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
      expect(parts.steps).toEqual(['findSession'])
    }
  })

  it('refreshes in the last second of 168 hours, which each refresh restarts, and not a second later', async () => {
    parts.clock.seconds = START_SECONDS + 604_799
    const second = await refresh(first.refreshToken)
    parts.clock.seconds += 604_800
    await expect(refresh(second.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    parts.clock.seconds -= 1
    await expect(refresh(second.refreshToken)).resolves.toHaveProperty('accessToken')
  })
})

describe('a refresh token used many times at once', () => {
  it('has exactly one winner of 50, whose tokens work', async () => {
    const results = await Promise.allSettled(Array.from({ length: 50 }, () => refresh(first.refreshToken)))
    const won = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    const lost = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
    expect(won).toHaveLength(1)
    expect(lost).toEqual(Array.from({ length: 49 }, () => refusal('ERR_REFRESH_TOKEN')))
    await expect(refresh(won[0]!.refreshToken)).resolves.toHaveProperty('accessToken')
  })
})

describe('a replaced refresh token that comes back', () => {
  it('is only refused up to 10 s later, and the session lives on', async () => {
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
    expect(parts.warnings).toEqual([{ event: 'refresh-token-reused', sessionId: payloadOf(first.accessToken).sid }])
  })

  it('revokes a second later with refreshReuseGraceSeconds 0', async () => {
    await begin({ refreshReuseGraceSeconds: 0 })
    await refresh(first.refreshToken)
    parts.clock.seconds += 1
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN_REUSED'))
  })
})

describe('logOut', () => {
  const sessionOf = ({ accessToken }: Tokens): string => payloadOf(accessToken).sid as string

  it('ends the session: its refresh token is dead at once, before anything is signed', async () => {
    await logOut(parts, sessionOf(first))
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
    expect(parts.steps).not.toContain('sign')
  })

  it('asks the store nothing for a token without sid', async () => {
    await logOut(parts, undefined)
    expect(parts.steps).toEqual([])
  })

  it('wins against a refresh that is under way', async () => {
    const { sign } = parts.serviceKey
    parts.serviceKey.sign = async (data) => {
      await logOut(parts, sessionOf(first))
      return sign(data)
    }
    await expect(refresh(first.refreshToken)).rejects.toEqual(refusal('ERR_REFRESH_TOKEN'))
  })
})

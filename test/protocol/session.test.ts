import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { loadCurve } from '../../src/adapters/curve.js'
import {
  hashRefreshToken,
  judgeRefresh,
  MAX_REPLACED_TOKENS,
  MAX_SESSIONS_PER_DID,
  type RefreshVerdict,
  type Session
} from '../../src/protocol/session.js'

const curve = await loadCurve()

describe('hashRefreshToken', () => {
  it('is SHA-256 as base64url', () => {
    // FIPS 180-4: SHA-256 of "abc".
    expect(hashRefreshToken(curve, 'abc')).toBe('ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0')
  })
})

describe('the bounds of sessions', () => {
  it('are 50 sessions a user and 16 replaced tokens a session', () => {
    expect([MAX_SESSIONS_PER_DID, MAX_REPLACED_TOKENS]).toEqual([50, 16])
  })
})

const END = 1_000
const GRACE = 10

describe('judgeRefresh', () => {
  it.each<[string, Session['state'], number | undefined, number, RefreshVerdict]>([
    ['the current token, in the first second', 'active', undefined, 0, 'rotate'],
    ['the current token, in its last second', 'active', undefined, END - 1, 'rotate'],
    ['the current token, in the second of its expiry', 'active', undefined, END, 'ended'],
    ['the current token of a session logged out', 'loggedOut', undefined, 5, 'ended'],
    ['the current token of a session revoked', 'revoked', undefined, 5, 'ended'],
    ['a token replaced in this second', 'active', 100, 100, 'replaced'],
    ['a token replaced 10 s ago, with a grace of 10 s', 'active', 100, 110, 'replaced'],
    ['a token replaced 11 s ago, with a grace of 10 s', 'active', 100, 111, 'reused'],
    ['a token replaced in the future, by a clock that runs ahead', 'active', 100, 99, 'replaced'],
    ['a replaced token of a session logged out', 'loggedOut', 100, 500, 'ended'],
    ['a replaced token of a session revoked', 'revoked', 100, 500, 'ended'],
    ['a replaced token of a session that is over', 'active', 100, END, 'ended']
  ])('%s', (_name, state, replacedAtSeconds, nowSeconds, verdict) => {
    expect(judgeRefresh({ state, replacedAtSeconds, expiresAtSeconds: END }, nowSeconds, GRACE)).toBe(verdict)
  })

  it('knows no grace when it is 0: a token that comes back a second later is reused', () => {
    const token = { state: 'active', replacedAtSeconds: 100, expiresAtSeconds: END } as const
    expect(judgeRefresh(token, 100, 0)).toBe('replaced')
    expect(judgeRefresh(token, 101, 0)).toBe('reused')
  })

  it('rotates nothing but the current token of an active session in time, and revokes nothing but for a replaced one', () => {
    const seconds = fc.integer({ min: 0, max: 200 })
    fc.assert(
      fc.property(
        fc.constantFrom<Session['state']>('active', 'loggedOut', 'revoked'),
        fc.option(seconds, { nil: undefined }),
        seconds,
        seconds,
        fc.integer({ min: 0, max: 20 }),
        (state, replacedAtSeconds, expiresAtSeconds, nowSeconds, grace) => {
          const verdict = judgeRefresh({ state, replacedAtSeconds, expiresAtSeconds }, nowSeconds, grace)
          const isAlive = state === 'active' && nowSeconds < expiresAtSeconds
          expect(verdict === 'ended').toBe(!isAlive)
          if (verdict === 'rotate') expect(replacedAtSeconds).toBeUndefined()
          if (verdict === 'reused') expect(nowSeconds).toBeGreaterThan(replacedAtSeconds! + grace)
          if (verdict === 'replaced') expect(nowSeconds).toBeLessThanOrEqual(replacedAtSeconds! + grace)
        }
      ),
      { numRuns: 2_000 }
    )
  })

  it('never comes back to life: once ended, a later second and a further replacement change nothing', () => {
    fc.assert(
      fc.property(fc.nat(300), fc.nat(300), fc.option(fc.nat(300), { nil: undefined }), (now, later, replaced) => {
        const token = { state: 'active', replacedAtSeconds: undefined, expiresAtSeconds: 150 } as const
        fc.pre(judgeRefresh(token, now, GRACE) === 'ended')
        expect(judgeRefresh({ ...token, replacedAtSeconds: replaced }, now + later, GRACE)).toBe('ended')
      })
    )
  })
})

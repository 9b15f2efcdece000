import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import {
  judgeRefresh,
  MAX_REPLACED_TOKENS,
  MAX_SESSIONS_PER_DID,
  toSessionDescription,
  type RefreshVerdict,
  type StoredSession
} from '../../src/protocol/session.js'
import { sampled } from '../support/fixtures/time-factor.js'

describe('the limits of sessions', () =>
  it('are 50 sessions per user and 16 replaced tokens per session', () =>
    expect([MAX_SESSIONS_PER_DID, MAX_REPLACED_TOKENS]).toEqual([50, 16])))

/** Replaces token `a` at 100 s and token `b` at 200 s; `c` is the current one, up to 1,000 s. */
const session: Pick<StoredSession, 'state' | 'expiresAtSeconds' | 'refreshTokenHash' | 'replacedTokens'> = {
  state: 'active',
  expiresAtSeconds: 1_000,
  refreshTokenHash: 'c',
  replacedTokens: [
    { hash: 'b', replacedAtSeconds: 200 },
    { hash: 'a', replacedAtSeconds: 100 }
  ]
}
const GRACE = 10
const judge = (presentedHash: string, nextHash: string, nowSeconds: number, details: Partial<StoredSession> = {}) =>
  judgeRefresh({ ...session, ...details }, { presentedHash, nextHash, nowSeconds, graceSeconds: GRACE })

describe('judgeRefresh', () => {
  it.each<[string, presented: string, next: string, nowSeconds: number, RefreshVerdict]>([
    ['the current token, in the second of its issue', 'c', 'new', 200, 'rotate'],
    ['the current token, in the last second of the session', 'c', 'new', 999, 'rotate'],
    ['the current token, in the second in which the session expires', 'c', 'new', 1_000, 'ended'],
    ['the token before it with the next one as then, in the same second', 'b', 'c', 200, 'repeated'],
    ['the token before it with the next one as then, when the grace is over', 'b', 'c', 211, 'repeated'],
    ['the token before it with the next one as then, in the last second of the session', 'b', 'c', 999, 'repeated'],
    ['the token before it with the next one as then, when the session expires', 'b', 'c', 1_000, 'ended'],
    ['an older token with the next one as then, which was used, within the grace', 'a', 'b', 110, 'replaced'],
    ['an older token with the next one as then, which was used, after the grace', 'a', 'b', 111, 'replaced'],
    ['an older token with the next one as then, which was used, in the last second', 'a', 'b', 999, 'replaced'],
    ['an older token with the next one as then, when the session expires', 'a', 'b', 1_000, 'ended'],
    ['a token replaced in this second, with another next one', 'b', 'new', 200, 'replaced'],
    ['a token replaced 10 s ago, with another next one', 'b', 'new', 210, 'replaced'],
    ['a token replaced 11 s ago, with another next one', 'b', 'new', 211, 'reused'],
    ['a token replaced 111 s ago, with another next one, while a later one has its grace', 'a', 'new', 205, 'reused'],
    ['a token replaced in the future, by a clock that runs ahead', 'b', 'new', 199, 'replaced'],
    ['a replaced token, with another next one, when the session expires', 'b', 'new', 1_000, 'ended'],
    ['a token that it never had', 'x', 'new', 200, 'unknown'],
    ['a token that it never had, with the current one as the next', 'x', 'c', 200, 'unknown'],
    ['a token that it never had, with a replaced one as the next', 'x', 'a', 200, 'unknown'],
    ['a token that it never had, when the session expires', 'x', 'new', 1_000, 'unknown']
  ])('%s', (_name, presented, next, nowSeconds, verdict) => expect(judge(presented, next, nowSeconds)).toBe(verdict))

  it.each(['loggedOut', 'revoked'] as const)('returns ended for each token of a session that is %s', (state) => {
    const verdicts = ['a', 'b', 'c'].flatMap((presented) =>
      ['b', 'c', 'new'].map((next) => judge(presented, next, 300, { state }))
    )
    expect(new Set(verdicts)).toEqual(new Set(['ended']))
    expect(judge('x', 'new', 300, { state })).toBe('unknown')
  })

  it('has no grace period of 0: a token that is used again a second later is reused', () => {
    const rotation = { presentedHash: 'b', nextHash: 'new', graceSeconds: 0 }
    expect(judgeRefresh(session, { ...rotation, nowSeconds: 200 })).toBe('replaced')
    expect(judgeRefresh(session, { ...rotation, nowSeconds: 201 })).toBe('reused')
  })

  it('matches a replaced token by the first 24 characters of its hash, and the current one by all', () => {
    const replacedTokens = [{ hash: 'ungWv48Bz-pBQUDeXa4iI7AD', replacedAtSeconds: 200 }]
    const hash = 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0'
    expect(judge(hash, 'new', 205, { replacedTokens })).toBe('replaced')
    expect(judge('ungWv48Bz-pBQUDeXa4iI7AEYaOWF3qctBD_YfIAFa0', 'new', 205, { replacedTokens })).toBe('unknown')
    expect(judge(`${hash.slice(0, 42)}1`, 'new', 205, { refreshTokenHash: hash, replacedTokens: [] })).toBe('unknown')
  })

  it('rotates only the current token, and revokes only for a replaced one after its grace period', () => {
    const tokens = ['a', 'b', 'c', 'x']
    fc.assert(
      fc.property(
        fc.constantFrom<StoredSession['state']>('active', 'loggedOut', 'revoked'),
        fc.constantFrom(...tokens),
        fc.constantFrom(...tokens, 'new'),
        fc.integer({ min: 0, max: 1_100 }),
        (state, presented, next, nowSeconds) => {
          const verdict = judge(presented, next, nowSeconds, { state })
          const isOver = state !== 'active' || nowSeconds >= 1_000
          expect(verdict === 'unknown').toBe(presented === 'x')
          expect(verdict === 'ended').toBe(presented !== 'x' && isOver)
          expect(verdict === 'rotate').toBe(presented === 'c' && !isOver)
          expect(verdict === 'repeated').toBe(['a', 'b'].includes(presented) && next === 'c' && !isOver)
          if (verdict !== 'reused') return
          expect(['a', 'b', 'c']).not.toContain(next)
          expect(nowSeconds).toBeGreaterThan((presented === 'a' ? 100 : 200) + GRACE)
        }
      ),
      { numRuns: sampled(300, 2_000) }
    )
  })
})

describe('toSessionDescription', () => {
  it.each<[string, text: string, description: string | undefined]>([
    ['keeps a printable text', 'Chrome on Größe 💶', 'Chrome on Größe 💶'],
    [
      'removes control characters and line breaks',
      'Chrome\r\n\u0000\u001b[31m on\u2028 Mac\u0085',
      'Chrome[31m on Mac'
    ],
    ['removes changes of the direction of text', '\u202eemorhC\u2066', 'emorhC'],
    ['removes unpaired surrogates', 'a\ud83d b\udcb6', 'a b'],
    ['cuts after 80 characters', 'x'.repeat(81), 'x'.repeat(80)],
    ['cuts no character of two code units in half', '💶'.repeat(81), '💶'.repeat(80)],
    ['removes space at both ends, also where it cuts', ` ${'x'.repeat(79)} y`, 'x'.repeat(79)],
    ['returns nothing for an empty text', '', undefined],
    ['returns nothing for a text that cannot be printed', ' \u0000\n\ud83d ', undefined]
  ])('%s', (_behaviour, text, description) => expect(toSessionDescription(text)).toBe(description))
})

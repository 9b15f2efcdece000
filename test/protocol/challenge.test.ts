import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { loadCurve } from '../../src/adapters/curve.js'
import { DidAuthError } from '../../src/errors.js'
import {
  challengeSecondsLeft,
  challengeWindow,
  computeChallenge,
  explainRefusal,
  findSignedMessage,
  type ChallengeInput,
  type ChallengeResponse
} from '../../src/protocol/challenge.js'
import type { Curve } from '../../src/protocol/curve.js'
import { parseSignature } from '../../src/protocol/personal-sign.js'
import { refusal } from '../support/fixtures/refusal.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

interface ChallengeVector extends ChallengeInput {
  name: string
  text: string
  challenge: string
}

const { vectors } = JSON.parse(readFileSync(new URL('../vectors/challenge.json', import.meta.url), 'utf8')) as {
  vectors: ChallengeVector[]
}
const curve = await loadCurve()

describe('computeChallenge', () => {
  it.each(vectors)(
    'returns Keccak-256 of DID, secret and window, joined by hyphens: $name',
    ({ challenge, ...input }) => expect(computeChallenge(curve, input)).toBe(challenge)
  )

  it('hashes exactly the text of the specification, and appends the use count from 1 on', () => {
    const hashed: unknown[] = []
    const keccak256Hex = (data: unknown): string => {
      hashed.push(data)
      return ''
    }
    computeChallenge({ keccak256Hex }, { did: 'did:a:b', secret: 'c', window: 4, useCount: 0 })
    computeChallenge({ keccak256Hex }, { did: 'did:a:b', secret: 'c', window: 4, useCount: 1 })
    expect(hashed).toEqual(['did:a:b-c-4', 'did:a:b-c-4-1'])
  })

  it('returns 64 lower-case hexadecimal characters without 0x', () => {
    const challenge = computeChallenge(curve, { did: 'did:a:b', secret: 'c', window: 4, useCount: 0 })
    expect(challenge).toMatch(/^[0-9a-f]{64}$/)
  })
})

describe('challengeWindow', () =>
  it.each([
    [0, 300, 0],
    [299, 300, 0],
    [300, 300, 1],
    [1_800_000_000, 300, 6_000_000],
    [1_800_000_299, 300, 6_000_000],
    [1_800_000_300, 300, 6_000_001],
    [7, 1, 7],
    [2, 1.5, 1]
  ])('maps second %d with windows of %d s to %d', (nowSeconds, windowSeconds, window) =>
    expect(challengeWindow(nowSeconds, windowSeconds)).toBe(window)
  ))

describe('challengeSecondsLeft', () =>
  it.each([
    ['the whole window at its first second', 1_800_000_000, 300, 300],
    ['one less a second later', 1_800_000_001, 300, 299],
    ['1 at the last second', 1_800_000_299, 300, 1],
    ['1 in windows of 1 s', 1_800_000_299, 1, 1],
    ['a whole number in windows of 1.5 s, in which second 1 is the last of the first', 1, 1.5, 1]
  ])('returns %s', (_name, nowSeconds, windowSeconds, left) =>
    expect(challengeSecondsLeft(nowSeconds, windowSeconds)).toBe(left)
  ))

const wallet = createNumberedWallet(1)
const expected = {
  did: wallet.did,
  secret: 'a secret of the tests, longer than 32 bytes',
  window: 6_000_000,
  useCount: 0
}

// test/vectors/challenge.json
const CURRENT = '3df1bf410e5287cc1f9de8cdeba68f2ee28f564fa4102e352773a9e45f84e722'

function createChallenge(window: number, useCount: number): string {
  const text = `${wallet.did}-${expected.secret}-${window}${useCount === 0 ? '' : `-${useCount}`}`
  return curve.keccak256Hex(text)
}

function responseOver(signedText: string, messagesOver: ChallengeResponse['messagesOver']): ChallengeResponse {
  return {
    controllers: new Set([wallet.address.toLowerCase()]),
    signature: parseSignature(wallet.personalSign(signedText)),
    messagesOver
  }
}

function spyCurve(): Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover'> & { recoveries: number } {
  const spy = {
    ...curve,
    recoveries: 0,
    recover(...args: Parameters<Curve['recover']>) {
      spy.recoveries += 1
      return curve.recover(...args)
    }
  }
  return spy
}

const twoForms = (challenge: string): string[] => [`a ${challenge}`, `b ${challenge}`]

/** Returns the signed message, or throws the refusal, in the two steps of the flows. */
function verifyResponse(
  curve: Curve | ReturnType<typeof spyCurve>,
  response: ChallengeResponse,
  input: ChallengeInput
): string {
  const { message } = findSignedMessage(curve, response, input)
  if (message === undefined) throw new DidAuthError(explainRefusal(curve, response, input))
  return message
}

describe('findSignedMessage and explainRefusal', () => {
  it('return the signed message, with one recovery if it is the most likely one', () => {
    const spy = spyCurve()
    expect(verifyResponse(spy, responseOver(`a ${CURRENT}`, twoForms), expected)).toBe(`a ${CURRENT}`)
    expect(spy.recoveries).toBe(1)
  })

  it('return the signed message if it is another accepted one', () =>
    expect(verifyResponse(curve, responseOver(`b ${CURRENT}`, twoForms), expected)).toBe(`b ${CURRENT}`))

  it('refuse the signature of another wallet', () => {
    const response = {
      ...responseOver(`a ${CURRENT}`, twoForms),
      controllers: new Set([createNumberedWallet(2).address.toLowerCase()])
    }
    expect(() => verifyResponse(curve, response, expected)).toThrow(refusal('ERR_CHALLENGE'))
  })

  it('refuse a signature that no key can have made', () => {
    const response = responseOver(`a ${CURRENT}`, twoForms)
    const unrecoverable = { ...curve, recover: () => undefined }
    expect(() => verifyResponse(unrecoverable, response, expected)).toThrow(refusal('ERR_CHALLENGE'))
  })

  it.each([
    ['the first challenge of the window just ended: expired', -1, 0, 0, 'ERR_CHALLENGE_EXPIRED'],
    ['the same after uses in this window: expired', -1, 0, 3, 'ERR_CHALLENGE_EXPIRED'],
    ['the second challenge of the window just ended: no reason', -1, 1, 0, 'ERR_CHALLENGE'],
    ['a challenge of the window before that: no reason', -2, 0, 0, 'ERR_CHALLENGE'],
    ['a challenge of the next window: no reason', 1, 0, 0, 'ERR_CHALLENGE'],
    ['the first challenge after one use: used', 0, 0, 1, 'ERR_CHALLENGE_USED'],
    ['the third challenge after three uses: used', 0, 2, 3, 'ERR_CHALLENGE_USED'],
    ['the second challenge after three uses: used', 0, 1, 3, 'ERR_CHALLENGE_USED'],
    // Two messages each: the current challenge, the ended window and ten used ones are 24 recoveries.
    ['the tenth challenge before the current one: used', 0, 10, 20, 'ERR_CHALLENGE_USED'],
    ['the eleventh challenge before the current one: no reason', 0, 9, 20, 'ERR_CHALLENGE'],
    ['a challenge that is still to come: no reason', 0, 1, 0, 'ERR_CHALLENGE']
  ] as const)('refuse %s', (_name, windowOffset, signedCount, useCount, code) => {
    const challenge = createChallenge(6_000_000 + windowOffset, signedCount)
    const response = responseOver(`a ${challenge}`, twoForms)
    expect(() => verifyResponse(curve, response, { ...expected, useCount })).toThrow(refusal(code))
  })

  it.each([
    ['the challenge after them: expired', 2, 'ERR_CHALLENGE_EXPIRED'],
    ['the first challenge: expired', 0, 'ERR_CHALLENGE_EXPIRED'],
    ['one between them, which was used then: no reason', 1, 'ERR_CHALLENGE']
  ] as const)('refuse after two uses in the previous window %s', (_name, signedCount, code) => {
    const response = responseOver(`a ${createChallenge(5_999_999, signedCount)}`, twoForms)
    expect(explainRefusal(curve, response, { ...expected, useCount: 1 }, 2)).toBe(code)
  })

  it('accept the challenge of the expected use count, here 3', () => {
    const signed = `a ${createChallenge(6_000_000, 3)}`
    expect(verifyResponse(curve, responseOver(signed, twoForms), { ...expected, useCount: 3 })).toBe(signed)
  })

  it.each([
    [0, 4],
    [1, 6],
    [2, 8],
    [20, 24]
  ])('check two messages per candidate challenge: after %d uses %d recoveries', (useCount, recoveries) => {
    const spy = spyCurve()
    const response = responseOver('something else', twoForms)
    expect(() => verifyResponse(spy, response, { ...expected, useCount })).toThrow(refusal('ERR_CHALLENGE'))
    expect(spy.recoveries).toBe(recoveries)
  })

  it('need at most 24 recoveries, with 4 forms for 6 domains: none is left for the reasons', () => {
    const spy = spyCurve()
    const messagesOver = (challenge: string): string[] => Array.from({ length: 24 }, (_, i) => `${i} ${challenge}`)
    const response = responseOver('something else', messagesOver)
    expect(() => verifyResponse(spy, response, { ...expected, useCount: 1 })).toThrow(refusal('ERR_CHALLENGE'))
    expect(spy.recoveries).toBe(24)
  })

  // A sign-up without credentials has 3 domains with 4 forms each. Cause: `used` took all of the other 12.
  it('share the rest of 24 recoveries equally between the reasons: 6 each after 12', () => {
    const messagesOver = (challenge: string): string[] => Array.from({ length: 12 }, (_, i) => `${i} ${challenge}`)
    const used = createChallenge(6_000_000, 0)
    const previous = createChallenge(5_999_999, 0)
    const verdictOn = (signed: string): [number, unknown] => {
      const spy = spyCurve()
      let thrown: unknown
      try {
        verifyResponse(spy, responseOver(signed, messagesOver), { ...expected, useCount: 1 })
      } catch (error) {
        thrown = error
      }
      return [spy.recoveries, thrown]
    }
    expect(verdictOn(`5 ${used}`)).toEqual([18, refusal('ERR_CHALLENGE_USED')])
    expect(verdictOn(`6 ${used}`)).toEqual([24, refusal('ERR_CHALLENGE')])
    expect(verdictOn(`5 ${previous}`)).toEqual([24, refusal('ERR_CHALLENGE_EXPIRED')])
    expect(verdictOn(`6 ${previous}`)).toEqual([24, refusal('ERR_CHALLENGE')])
  })

  it('accept the 24th message and not the 25th', () => {
    const messagesOver = (challenge: string): string[] => Array.from({ length: 25 }, (_, i) => `${i} ${challenge}`)
    const verify = (signed: string) => verifyResponse(curve, responseOver(signed, messagesOver), expected)
    expect(verify(`23 ${CURRENT}`)).toBe(`23 ${CURRENT}`)
    expect(() => verify(`24 ${CURRENT}`)).toThrow(refusal('ERR_CHALLENGE'))
  })
})

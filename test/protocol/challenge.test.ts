import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { loadCurve } from '../../src/adapters/curve.js'
import {
  challengeSecondsLeft,
  challengeWindow,
  computeChallenge,
  type ChallengeInput
} from '../../src/protocol/challenge.js'

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
  it.each(vectors)('is Keccak-256 of DID, secret and window, joined by hyphens: $name', ({ challenge, ...input }) => {
    expect(computeChallenge(curve, input)).toBe(challenge)
  })

  it('hashes exactly the text of the specification, and adds the count of uses only from 1 on', () => {
    const hashed: unknown[] = []
    const keccak256Hex = (data: unknown): string => {
      hashed.push(data)
      return ''
    }
    computeChallenge({ keccak256Hex }, { did: 'did:a:b', secret: 'c', window: 4, useCount: 0 })
    computeChallenge({ keccak256Hex }, { did: 'did:a:b', secret: 'c', window: 4, useCount: 1 })
    expect(hashed).toEqual(['did:a:b-c-4', 'did:a:b-c-4-1'])
  })

  it('is 64 lower-case hexadecimal characters without 0x', () => {
    const challenge = computeChallenge(curve, { did: 'did:a:b', secret: 'c', window: 4, useCount: 0 })
    expect(challenge).toMatch(/^[0-9a-f]{64}$/)
  })
})

describe('challengeWindow', () => {
  it.each([
    [0, 300, 0],
    [299, 300, 0],
    [300, 300, 1],
    [1_800_000_000, 300, 6_000_000],
    [1_800_000_299, 300, 6_000_000],
    [1_800_000_300, 300, 6_000_001],
    [7, 1, 7],
    [2, 1.5, 1]
  ])('of second %d with windows of %d s is %d', (nowSeconds, windowSeconds, window) => {
    expect(challengeWindow(nowSeconds, windowSeconds)).toBe(window)
  })
})

describe('challengeSecondsLeft', () => {
  it.each([
    ['the whole window at its first second', 1_800_000_000, 300, 300],
    ['one less a second later', 1_800_000_001, 300, 299],
    ['1 at the last second', 1_800_000_299, 300, 1],
    ['1 in windows of 1 s', 1_800_000_299, 1, 1],
    ['a whole number in windows of 1.5 s, in which second 1 is the last of the first', 1, 1.5, 1]
  ])('is %s', (_name, nowSeconds, windowSeconds, left) => {
    expect(challengeSecondsLeft(nowSeconds, windowSeconds)).toBe(left)
  })
})

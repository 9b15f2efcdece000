import { describe, expect, it } from '@jest/globals'
import { MemoryVerifiedTokens } from '../../src/adapters/memory-verified-tokens.js'
import type { AccessTokenClaims } from '../../src/protocol/access-token.js'

const claims: AccessTokenClaims = {
  iss: 'did:ethr:rsk:0xf05e5b34c44e07795a67d3554c38b752388d9186',
  aud: 'https://service.example',
  sub: 'did:ethr:rsk:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf',
  exp: 1_800_000_600,
  nbf: 1_800_000_000,
  iat: 1_800_000_000,
  jti: 'a',
  sid: 'b',
  use: 'access'
}

function addTokens(tokens: MemoryVerifiedTokens, from: number, to: number): void {
  for (let number = from; number <= to; number += 1) tokens.add(`token ${number}`, { ...claims, jti: String(number) })
}

describe('verified tokens in memory', () => {
  it('are known with their own claims, and a token never added is not', () => {
    const tokens = new MemoryVerifiedTokens()
    addTokens(tokens, 1, 2)
    expect(tokens.get('token 2')).toEqual({ ...claims, jti: '2' })
    expect(tokens.get('token 3')).toBeUndefined()
    expect(tokens.get('__proto__')).toBeUndefined()
  })

  // A look at a token moves it to the younger generation, so that each look needs tokens of its own.
  it.each([
    [1, true, false],
    [5_000, true, false],
    [5_001, true, true],
    [10_000, true, true],
    [10_001, false, true]
  ])(
    'are two generations of 5,000: number %d of 10,000 is known: %j, of 10,001: %j',
    (number, knownOf10000, knownOf10001) => {
      const knows = [10_000, 10_001].map((count) => {
        const tokens = new MemoryVerifiedTokens()
        addTokens(tokens, 1, count)
        return tokens.get(`token ${number}`) !== undefined
      })
      expect(knows).toEqual([knownOf10000, knownOf10001])
    }
  )

  it('stay known while they are used, however many come', () => {
    const tokens = new MemoryVerifiedTokens()
    addTokens(tokens, 1, 1)
    for (let generation = 0; generation < 5; generation += 1) {
      addTokens(tokens, 10 + generation * 4_000, 10 + generation * 4_000 + 3_999)
      expect(tokens.get('token 1')).toBeDefined()
    }
  })
})

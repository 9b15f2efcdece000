import { describe, expect, it } from '@jest/globals'
import { packReplacedToken, parseReplacedTokens } from '../../src/stores/replaced-tokens.js'

describe('packReplacedToken and parseReplacedTokens', () => {
  // FIPS 180-4: SHA-256 of "abc".
  const hash = 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0'

  it('packs a token in 24 bytes: 18 of its hash, 6 of the time', () => {
    const packed = packReplacedToken(hash, 1_800_000_000)
    expect(packed.toString('hex')).toBe('ba7816bf8f01cfea414140de5dae2223b00300006b49d200')
    expect(parseReplacedTokens(packed)).toEqual([
      { hash: 'ungWv48Bz-pBQUDeXa4iI7AD', replacedAtSeconds: 1_800_000_000 }
    ])
  })

  it('stores times of 48 bits', () => {
    const packed = packReplacedToken(hash, 281_474_976_710_655)
    expect(parseReplacedTokens(packed)[0]?.replacedAtSeconds).toBe(281_474_976_710_655)
  })

  it('parses records in order, and none from zero bytes', () => {
    const packed = Buffer.concat([packReplacedToken(hash, 5), packReplacedToken(hash, 4)])
    expect(parseReplacedTokens(packed).map(({ replacedAtSeconds }) => replacedAtSeconds)).toEqual([5, 4])
    expect(parseReplacedTokens(Buffer.alloc(0))).toEqual([])
  })
})

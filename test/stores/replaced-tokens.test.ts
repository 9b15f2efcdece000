import { describe, expect, it } from '@jest/globals'
import { addReplacedToken, parseReplacedTokens } from '../../src/stores/replaced-tokens.js'
import { hashOf } from '../../src/testing/store-case.js'

describe('addReplacedToken and parseReplacedTokens', () => {
  // FIPS 180-4: SHA-256 of "abc".
  const hash = 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0'

  it('packs a token in 24 bytes: 18 of its hash, 6 of the time', () => {
    const packed = addReplacedToken(new Uint8Array(0), hash, 1_800_000_000)
    expect(packed.toString('hex')).toBe('ba7816bf8f01cfea414140de5dae2223b00300006b49d200')
    expect(parseReplacedTokens(packed)).toEqual([
      { hash: 'ungWv48Bz-pBQUDeXa4iI7AD', replacedAtSeconds: 1_800_000_000 }
    ])
  })

  it('keeps the newest 16, the newest first', () => {
    let packed: Buffer = Buffer.alloc(0)
    for (let token = 0; token < 20; token += 1) packed = addReplacedToken(packed, hashOf('a', token), token)
    expect(packed).toHaveLength(16 * 24)
    const tokens = parseReplacedTokens(packed)
    expect(tokens).toHaveLength(16)
    expect(tokens.at(0)).toEqual({ hash: hashOf('a', 19).slice(0, 24), replacedAtSeconds: 19 })
    expect(tokens.at(-1)).toEqual({ hash: hashOf('a', 4).slice(0, 24), replacedAtSeconds: 4 })
  })

  it('keeps times of 48 bits', () => {
    const packed = addReplacedToken(new Uint8Array(0), hash, 281_474_976_710_655)
    expect(parseReplacedTokens(packed)[0]?.replacedAtSeconds).toBe(281_474_976_710_655)
  })

  it('reads bytes that lie amid others, as a database gives them', () => {
    const packed = addReplacedToken(new Uint8Array(0), hash, 5)
    const amid = Buffer.concat([Buffer.from([1, 2, 3]), packed, Buffer.from([4])])
    expect(parseReplacedTokens(amid.subarray(3, 27))).toEqual([{ hash: hash.slice(0, 24), replacedAtSeconds: 5 }])
  })

  it('reads none from no bytes', () => {
    expect(parseReplacedTokens(new Uint8Array(0))).toEqual([])
  })
})

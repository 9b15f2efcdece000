import { describe, expect, it } from '@jest/globals'
import { Buffer } from 'node:buffer'
import { isInRange, isLowS, toLowS } from '../../src/protocol/ecdsa-signature.js'

// SEC 2 version 2, section 2.4.1.
const N = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'
const N_LESS_1 = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140'
// EIP-2: s greater than n / 2 is invalid.
const HALF = '7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0'
const HALF_PLUS_1 = '7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1'
const ONE = '1'.padStart(64, '0')
const ZERO = '0'.repeat(64)

const signature = (r: string, s: string): Uint8Array => Buffer.from(r + s, 'hex')

describe('isInRange', () =>
  it.each([
    ['1 and 1', ONE, ONE, true],
    ['n - 1 and n - 1', N_LESS_1, N_LESS_1, true],
    ['r = 0', ZERO, ONE, false],
    ['s = 0', ONE, ZERO, false],
    ['r = n', N, ONE, false],
    ['s = n', ONE, N, false],
    ['r = 2^256 - 1', 'f'.repeat(64), ONE, false]
  ])('checks %s', (_name, r, s, verdict) => expect(isInRange(signature(r, s))).toBe(verdict)))

describe('isLowS', () =>
  it.each([
    ['1', ONE, true],
    ['n / 2', HALF, true],
    ['n / 2 + 1', HALF_PLUS_1, false],
    ['n - 1', N_LESS_1, false]
  ])('checks s = %s', (_name, s, verdict) => expect(isLowS(signature(ONE, s))).toBe(verdict)))

describe('toLowS', () => {
  it('does not change a low s', () => {
    const low = signature(ONE, HALF)
    expect(toLowS(low)).toBe(low)
  })

  it.each([
    [HALF_PLUS_1, HALF],
    [N_LESS_1, ONE]
  ])('replaces s = %s with n - s', (s, low) =>
    expect(Buffer.from(toLowS(signature(ONE, s))).toString('hex')).toBe(ONE + low)
  )
})

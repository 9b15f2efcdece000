import { describe, expect, it } from '@jest/globals'
import { Buffer } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { loadCurve, loadWasm, addHashes } from '../../src/adapters/curve.js'
import { addressOfPublicKey, hashPersonalMessage, recoverPersonalSigner } from '../../src/protocol/curve.js'
import { parseSignature } from '../../src/protocol/personal-sign.js'
import { refusal } from '../support/fixtures/refusal.js'
import { rounds } from '../support/fixtures/time-factor.js'
import { countAcceptedFlips } from './mutations.js'

interface SignVector {
  address: string
  message: string
  hash: string
  sig: string
}

const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`../vectors/${name}`, import.meta.url), 'utf8'))
const { vectors } = read('personal-sign.json') as { vectors: [SignVector, ...SignVector[]] }
const malformed = read('malformed-signatures.json') as { ERR_SIGNATURE: { name: string; sig: string }[] }
const curve = await loadCurve()
const { sig: good } = vectors[0]
const withV = (v: number): string => good.slice(0, 130) + v.toString(16).padStart(2, '0')

describe('hashPersonalMessage', () =>
  it.each(vectors)('returns the hash of ethers for $message', ({ message, hash }) =>
    expect(Buffer.from(hashPersonalMessage(curve, message)).toString('hex')).toBe(hash)
  ))

describe('recoverPersonalSigner', () => {
  it.each(vectors)('returns the address of the key that signed $message', ({ message, sig, address }) =>
    expect(recoverPersonalSigner(curve, message, parseSignature(sig))).toBe(address)
  )

  it('returns another address for another message', () => {
    const { message, sig, address } = vectors[0]
    expect(recoverPersonalSigner(curve, `${message} `, parseSignature(sig))).not.toBe(address)
  })

  it.each(['native or WASM', 'WASM'])('returns undefined if r is not on the curve (%s)', async (kind) => {
    // 5 is the smallest x without a point on y² = x³ + 7.
    const bytes = Buffer.from('5'.padStart(64, '0') + '1'.padStart(64, '0'), 'hex')
    const arithmetic = kind === 'WASM' ? await addHashes(await loadWasm()) : curve
    expect(recoverPersonalSigner(arithmetic, 'a', { bytes, recovery: 0 })).toBeUndefined()
  })
})

describe('addressOfPublicKey', () =>
  it('returns the address of private key 1', () => {
    const generator =
      '0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8'
    expect(addressOfPublicKey(curve, Buffer.from(generator, 'hex'))).toBe('0x7e5f4552091a69125d5dfcb7b8c2659029395bdf')
  }))

describe('parseSignature', () => {
  it('returns r, s and the recovery', () => {
    const { bytes, recovery } = parseSignature(good)
    expect(Buffer.from(bytes).toString('hex')).toBe(good.slice(2, 130))
    expect(recovery).toBe(good.endsWith('1b') ? 0 : 1)
  })

  it('accepts upper-case digits', () =>
    expect(parseSignature(`0x${good.slice(2).toUpperCase()}`)).toEqual(parseSignature(good)))

  it.each([
    [0, 0],
    [1, 1],
    [27, 0],
    [28, 1],
    [37, 0],
    [38, 1],
    [95, 0],
    [96, 1],
    [97, 0],
    [98, 1]
  ])('maps v = %d to recovery %d, independent of the chain', (v, recovery) => {
    expect(parseSignature(withV(v)).recovery).toBe(recovery)
    expect(parseSignature(withV(v), 5).recovery).toBe(recovery)
  })

  it('accepts no other v if the chain is unknown', () => {
    const accepted = Array.from({ length: 256 }, (_, v) => v).filter((v) => {
      try {
        return parseSignature(withV(v))
      } catch {
        return false
      }
    })
    expect(accepted).toEqual([0, 1, 27, 28, 37, 38, 95, 96, 97, 98])
  })

  it('accepts EIP-155 for the chain of the DID, here 5: 45 and 46, not 44 and 47', () => {
    expect(parseSignature(withV(45), 5).recovery).toBe(0)
    expect(parseSignature(withV(46), 5).recovery).toBe(1)
    expect(() => parseSignature(withV(44), 5)).toThrow(refusal('ERR_SIGNATURE'))
    expect(() => parseSignature(withV(47), 5)).toThrow(refusal('ERR_SIGNATURE'))
  })

  it.each(malformed.ERR_SIGNATURE)('refuses $name', ({ sig }) =>
    expect(() => parseSignature(sig, 30)).toThrow(refusal('ERR_SIGNATURE'))
  )

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['true', true],
    ['a number', 27],
    ['a bigint', 27n],
    ['an array with one in it', [good]],
    ['an array of bytes', [...Buffer.from(good.slice(2), 'hex')]],
    ['bytes', Buffer.from(good.slice(2), 'hex')],
    ['{ r, s, v }', { r: good.slice(0, 66), s: `0x${good.slice(66, 130)}`, v: 27 }],
    ['an object that reads like one', { toString: () => good, length: 132 }],
    ['a String object', Object(good)]
  ])('refuses a value that is not a string: %s', (_name, value) =>
    expect(() => parseSignature(value)).toThrow(refusal('ERR_SIGNATURE'))
  )
})

describe('signatures with one bit flipped (F9)', () =>
  it('are never accepted: 2,000 flips, or 10,000', () => {
    const flips = rounds(2_000, 10_000)
    expect(countAcceptedFlips(curve, vectors, flips)).toEqual({ flips, accepted: 0 })
  }))

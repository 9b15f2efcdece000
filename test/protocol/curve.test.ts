import { describe, expect, it } from '@jest/globals'
import { Buffer } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { loadCurve, loadWasm, addHashes } from '../../src/adapters/curve.js'
import { addressOfPublicKey, hashPersonalMessage, recoverPersonalSigner } from '../../src/protocol/curve.js'
import { parseSignature } from '../../src/protocol/personal-sign.js'
import { rounds } from '../support/fixtures/time-factor.js'
import { countAcceptedFlips } from './mutations.js'

interface SignVector {
  address: string
  message: string
  hash: string
  sig: string
}

const path = new URL('../vectors/personal-sign.json', import.meta.url)
const { vectors } = JSON.parse(readFileSync(path, 'utf8')) as { vectors: [SignVector, ...SignVector[]] }
const curve = await loadCurve()

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

describe('signatures with one bit flipped (F9)', () =>
  it('are never accepted: 2,000 flips, or 10,000', () => {
    const flips = rounds(2_000, 10_000)
    expect(countAcceptedFlips(curve, vectors, flips)).toEqual({ flips, accepted: 0 })
  }))

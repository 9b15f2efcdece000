import { beforeAll, describe, expect, it } from '@jest/globals'
import { createHash, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { keccak256, SigningKey } from 'ethers/crypto'
import { toUtf8Bytes } from 'ethers/utils'
import { pureCurve } from '../../src/adapters/curve-pure.js'
import { loadCurve, loadNative, loadWasm, addHashes } from '../../src/adapters/curve.js'
import type { Curve } from '../../src/protocol/curve.js'
import { isBytes } from '../../src/protocol/is-bytes.js'
import { sampled } from '../support/fixtures/time-factor.js'

const ORDER = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'
const toBytes = (text: string): Buffer => Buffer.from(text, 'hex')
const zero = Buffer.alloc(32)
const one = toBytes('1'.padStart(64, '0'))
const order = toBytes(ORDER)
const orderLess1 = toBytes(`${ORDER.slice(0, -1)}0`)
const orderPlus1 = toBytes(`${ORDER.slice(0, -1)}2`)
const halfOrder = toBytes('7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0')
const halfOrderPlus1 = toBytes('7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1')
const ones = Buffer.alloc(32, 0xff)

/** The build in pure JavaScript, which exists once and names no kind. */
const pure: Curve = { kind: 'wasm', ...pureCurve }
let native: Curve
let wasm: Curve

beforeAll(async () => {
  native = await addHashes(await loadNative())
  wasm = await addHashes(await loadWasm())
})

/** Returns the outcome of a call in a comparable form: its result, or that it throws. */
function readOutcome(call: () => unknown): unknown {
  try {
    const result = call()
    return isBytes(result) ? Buffer.from(result).toString('hex') : result
  } catch {
    return 'throws'
  }
}

const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 })
const scalar = fc.oneof(
  { weight: 3, arbitrary: bytes32 },
  fc.constantFrom<Uint8Array>(zero, one, order, orderLess1, orderPlus1, halfOrder, halfOrderPlus1, ones)
)
/** Private keys, which are valid except for one in 2^128. */
const privateKey = bytes32.filter((key) => Buffer.compare(key, order) < 0 && key.some((byte) => byte !== 0))
const ofAnyLength = fc.oneof(
  fc.uint8Array({ maxLength: 130 }),
  fc.constantFrom(0, 1, 31, 32, 33, 63, 64, 65, 66, 1000).map((length) => new Uint8Array(length).fill(3))
)

describe('the native, WASM and pure JavaScript builds of the curve', () => {
  it('state their kind', () => expect([native.kind, wasm.kind]).toEqual(['native', 'wasm']))

  it('agree with ethers on signatures, and on uncompressed and compressed public keys', () =>
    fc.assert(
      fc.property(bytes32, privateKey, (hash, key) => {
        const { r, s, yParity } = new SigningKey(key).sign(hash)
        const publicKey = SigningKey.computePublicKey(key, false).slice(2)
        const compressed = toBytes(SigningKey.computePublicKey(key, true).slice(2))
        for (const curve of [native, wasm, pure]) {
          const { signature, recovery } = curve.sign(hash, key)
          expect([Buffer.from(signature).toString('hex'), recovery]).toEqual([r.slice(2) + s.slice(2), yParity])
          expect([curve.publicKeyOf(key), curve.decompress(compressed)].map((one) => readOutcome(() => one))).toEqual([
            publicKey,
            publicKey
          ])
        }
      }),
      { numRuns: sampled(6, 60) }
    ))

  it('agree on whether 33 bytes are a public key', () => {
    const counts = { point: 0, none: 0 }
    fc.assert(
      fc.property(fc.constantFrom(0, 2, 3, 4, 6, 7), scalar, (first, x) => {
        const compressed = Buffer.concat([Buffer.of(first), x])
        const point = readOutcome(() => native.decompress(compressed))
        counts[point === undefined ? 'none' : 'point'] += 1
        for (const curve of [wasm, pure]) expect(readOutcome(() => curve.decompress(compressed))).toEqual(point)
      }),
      { numRuns: sampled(100, 300) }
    )
    expect(Math.min(counts.point, counts.none)).toBeGreaterThan(sampled(0, 20))
  })

  it('recover the signing key, verify its signature, and refuse any signature with one changed bit', () =>
    fc.assert(
      fc.property(bytes32, privateKey, fc.nat(511), fc.nat(255), (hash, key, signatureBit, hashBit) => {
        const { signature, recovery } = native.sign(hash, key)
        const publicKey = native.publicKeyOf(key)!
        const wrongSignature = flipBit(signature, signatureBit)
        const wrongHash = flipBit(hash, hashBit)
        for (const curve of [native, wasm, pure]) {
          expect(curve.verify(hash, signature, publicKey)).toBe(true)
          expect(readOutcome(() => curve.recover(hash, signature, recovery))).toBe(
            Buffer.from(publicKey).toString('hex')
          )
          expect(curve.verify(hash, wrongSignature, publicKey)).toBe(false)
          expect(curve.verify(wrongHash, signature, publicKey)).toBe(false)
          expect(readOutcome(() => curve.recover(wrongHash, signature, recovery))).not.toBe(
            Buffer.from(publicKey).toString('hex')
          )
        }
      }),
      { numRuns: sampled(6, 60) }
    ))

  it('agree on every r, s, hash and recovery, valid or not', () => {
    fc.assert(
      fc.property(scalar, scalar, scalar, fc.integer({ min: -1, max: 4 }), privateKey, (r, s, hash, recovery, key) => {
        const signature = Buffer.concat([r, s])
        const publicKey = native.publicKeyOf(key)!
        for (const curve of [wasm, pure]) {
          const { recover, verify, publicKeyOf, sign } = native
          expect(readOutcome(() => curve.recover(hash, signature, recovery))).toEqual(
            readOutcome(() => recover(hash, signature, recovery))
          )
          expect(curve.verify(hash, signature, publicKey)).toBe(verify(hash, signature, publicKey))
          expect(readOutcome(() => curve.publicKeyOf(r))).toEqual(readOutcome(() => publicKeyOf(r)))
          // A hash above n, one in 2^128, is reduced by RFC 6979 and by noble, and not by libsecp256k1.
          if (curve === pure && Buffer.compare(hash, order) >= 0) continue
          expect(readOutcome(() => curve.sign(hash, r).signature)).toEqual(readOutcome(() => sign(hash, r).signature))
        }
      }),
      { numRuns: sampled(30, 300) }
    )
  })

  it('refuse bytes of any other length without throwing, in all four functions', () =>
    fc.assert(
      fc.property(ofAnyLength, ofAnyLength, ofAnyLength, fc.integer(), (hash, signature, publicKey, recovery) => {
        for (const curve of [native, wasm, pure]) {
          expect(curve.verify(hash, signature, publicKey)).toBe(false)
          if (hash.length !== 32 || signature.length !== 64) {
            expect(curve.recover(hash, signature, recovery)).toBeUndefined()
          }
          if (hash.length !== 32) expect(curve.publicKeyOf(hash)).toBeUndefined()
          if (hash.length !== 33) expect(curve.decompress(hash)).toBeUndefined()
        }
      }),
      { numRuns: sampled(30, 300) }
    ))
})

describe.each(['native', 'wasm', 'pure'] as const)('the %s build of the curve', (kind) => {
  const curve = (): Curve => ({ native, wasm, pure })[kind]
  const hash = createHash('sha256').update('hello').digest()
  const key = Buffer.alloc(32, 7)

  it.each([
    ['r of 0', zero, one],
    ['s of 0', one, zero],
    ['r of n', order, one],
    ['s of n', one, order],
    ['r above n', orderPlus1, one],
    ['s above n', one, orderPlus1],
    ['all bits set', ones, ones]
  ])('recovers nothing and verifies nothing with %s', (_name, r, s) => {
    const signature = Buffer.concat([r, s])
    const publicKey = curve().publicKeyOf(key)!
    expect([0, 1].map((recovery) => curve().recover(hash, signature, recovery))).toEqual([undefined, undefined])
    expect(curve().verify(hash, signature, publicKey)).toBe(false)
  })

  it.each([-1, 2, 3, 27, 28, 0.5, Number.NaN, Number.POSITIVE_INFINITY])(
    'recovers nothing with recovery %d',
    (recovery) => expect(curve().recover(hash, curve().sign(hash, key).signature, recovery)).toBeUndefined()
  )

  it('verifies low s only, and recovers from both', () => {
    const { signature, recovery } = curve().sign(hash, key)
    const s = BigInt(`0x${ORDER}`) - BigInt(`0x${Buffer.from(signature.subarray(32)).toString('hex')}`)
    const high = Buffer.concat([signature.subarray(0, 32), toBytes(s.toString(16).padStart(64, '0'))])
    const publicKey = curve().publicKeyOf(key)!
    expect(curve().verify(hash, high, publicKey)).toBe(false)
    expect(curve().recover(hash, high, 1 - recovery)).toEqual(new Uint8Array(publicKey))
  })

  it.each([
    ['compressed', (publicKey: Uint8Array) => toBytes(`02${Buffer.from(publicKey.subarray(1, 33)).toString('hex')}`)],
    ['hybrid', (publicKey: Uint8Array) => toBytes(`06${Buffer.from(publicKey.subarray(1)).toString('hex')}`)],
    ['off the curve', (publicKey: Uint8Array) => flipBit(publicKey, 519)],
    ['zero', () => Buffer.alloc(65)]
  ])('verifies nothing with an invalid public key: %s', (_name, spoiled) => {
    const { signature } = curve().sign(hash, key)
    expect(curve().verify(hash, signature, spoiled(curve().publicKeyOf(key)!))).toBe(false)
  })

  it.each([
    ['zero', zero],
    ['n', order],
    ['above n', ones],
    ['too short', Buffer.alloc(31, 1)],
    ['too long', Buffer.alloc(33, 1)]
  ])('returns no public key for an invalid private key (%s), and does not sign with it', (_name, privateKey) => {
    expect(curve().publicKeyOf(privateKey)).toBeUndefined()
    expect(() => curve().sign(hash, privateKey)).toThrow()
  })

  it('does not pad a short hash with bytes of an earlier call', () => {
    const { signature } = curve().sign(hash, key)
    const publicKey = curve().publicKeyOf(key)!
    expect(curve().verify(hash, signature, publicKey)).toBe(true)
    expect(curve().verify(hash.subarray(0, 31), signature, publicKey)).toBe(false)
    expect(curve().verify(Buffer.alloc(0), signature, publicKey)).toBe(false)
  })

  it('hashes text as UTF-8, like node:crypto and ethers', () => {
    const text = 'Grüße, 世界 🦀'
    expect(Buffer.from(curve().sha256(text)).toString('hex')).toBe(createHash('sha256').update(text).digest('hex'))
    expect(curve().keccak256Hex(text)).toBe(keccak256(toUtf8Bytes(text)).slice(2))
    const random = randomBytes(100)
    expect(Buffer.from(curve().keccak256(random)).toString('hex')).toBe(keccak256(random).slice(2))
  })
})

describe('loadCurve', () =>
  it('prefers the native build if it is installed, and loads once', async () => {
    const [first, second] = await Promise.all([loadCurve(), loadCurve()])
    expect(first.kind).toBe('native')
    expect(second).toBe(first)
  }))

function flipBit(bytes: Uint8Array, bit: number): Uint8Array {
  const copy = Uint8Array.from(bytes)
  copy[bit >> 3]! ^= 1 << (bit & 7)
  return copy
}

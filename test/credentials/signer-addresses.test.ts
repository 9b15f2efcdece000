import { beforeAll, describe, expect, it } from '@jest/globals'
import { loadCurve } from '../../src/adapters/curve.js'
import type { Curve } from '../../src/protocol/curve.js'
import { signerAddresses } from '../../src/protocol/credential.js'
import { parseJwt } from '../../src/protocol/jwt.js'
import { es256kBy, es256kRecoverableBy, jwtByHand, type SignPart } from '../support/credentials.js'
import { walletOf } from '../support/wallet.js'

const { privateKey, address } = walletOf(9100)

let curve: Curve

beforeAll(async () => {
  curve = await loadCurve()
})

const addressesOf = (alg: string, sign: SignPart): string[] =>
  signerAddresses(curve, parseJwt(jwtByHand({ alg }, { hello: 'world' }, sign), 1_000)!)

describe('signerAddresses', () => {
  it('finds two for ES256K, one of them the signer’s', () => {
    const found = addressesOf('ES256K', es256kBy(privateKey))
    expect(found).toHaveLength(2)
    expect(found).toContain(address.toLowerCase())
  })

  it('finds the signer’s alone for ES256K-R', () => {
    expect(addressesOf('ES256K-R', es256kRecoverableBy(privateKey))).toEqual([address.toLowerCase()])
  })

  it.each([
    ['another algorithm', 'EdDSA', es256kBy(privateKey)],
    ['ES256K over 65 bytes', 'ES256K', es256kRecoverableBy(privateKey)],
    ['ES256K-R over 64 bytes', 'ES256K-R', es256kBy(privateKey)],
    [
      'ES256K-R that ends on 2',
      'ES256K-R',
      (input: string) => Buffer.concat([es256kBy(privateKey)(input), Buffer.of(2)])
    ],
    [
      'ES256K-R that ends on 27',
      'ES256K-R',
      (input: string) => Buffer.concat([es256kBy(privateKey)(input), Buffer.of(27)])
    ],
    ['zeros', 'ES256K', () => Buffer.alloc(64)],
    ['r and s above the order', 'ES256K', () => Buffer.alloc(64, 0xff)]
  ])('finds none for %s', (_name, alg, sign) => {
    expect(addressesOf(alg, sign)).toEqual([])
  })
})

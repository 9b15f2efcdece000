import { describe, expect, it } from '@jest/globals'
import { SigningKey } from 'ethers/crypto'
import { encodeBase58 } from 'ethers/utils'
import { parseIssuerKey, type IssuerKey } from '../../src/adapters/did-document.js'
import { isSignedByIssuerKey } from '../../src/adapters/credential-verifier.js'
import { parseJwt, type ParsedJwt } from '../../src/protocol/jwt.js'
import { ed25519Key, jwtByHand, p256Key, type SignPart } from '../support/fixtures/credentials.js'
import { refusal } from '../support/fixtures/refusal.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const { privateKey, address } = createNumberedWallet(6301)
const whole = Buffer.from(SigningKey.computePublicKey(privateKey).slice(2), 'hex')
const compressed = Buffer.from(SigningKey.computePublicKey(privateKey, true).slice(2), 'hex')
const p256 = p256Key()
const p256Whole = Buffer.concat([
  Buffer.of(4),
  Buffer.from(String(p256.publicKeyJwk.x), 'base64url'),
  Buffer.from(String(p256.publicKeyJwk.y), 'base64url')
])
const p256Compressed = Buffer.concat([Buffer.of(2 + (p256Whole[64]! % 2)), p256Whole.subarray(1, 33)])
const ed25519 = ed25519Key()
const ed25519Bytes = Buffer.from(String(ed25519.publicKeyJwk.x), 'base64url')

const encodeMultikey = (codec: string, bytes: Buffer): Buffer => Buffer.concat([Buffer.from(codec, 'hex'), bytes])
const z = (bytes: Buffer): string => `z${encodeBase58(bytes)}`
const x = whole.subarray(1, 33).toString('base64url')
const y = whole.subarray(33).toString('base64url')

/** Returns test cases: verification methods by name, with the kind and bytes of the key that each contains. */
const readMethod = (kind: IssuerKey['kind'], bytes: Buffer, methods: Record<string, Record<string, unknown>>) =>
  Object.entries(methods).map(([name, method]) => [name, method, kind, bytes] as const)

const account = `eip155:30:${address}`
const readable = [
  ...readMethod('secp256k1', whole, {
    'secp256k1 as JWK': { publicKeyJwk: { kty: 'EC', crv: 'secp256k1', x, y } },
    '0x in upper case': {
      type: 'Secp256k1VerificationKey2018',
      publicKeyHex: `0x${whole.toString('hex').toUpperCase()}`
    }
  }),
  ...readMethod('secp256k1', compressed, {
    'secp256k1 as Multikey': { publicKeyMultibase: z(encodeMultikey('e701', compressed)) },
    'hexadecimal by the type': { type: 'EcdsaSecp256k1VerificationKey2019', publicKeyHex: compressed.toString('hex') }
  }),
  ...readMethod('P-256', p256Whole, { 'P-256 as JWK': { publicKeyJwk: p256.publicKeyJwk } }),
  ...readMethod('P-256', p256Compressed, {
    'P-256 as Multikey': { publicKeyMultibase: z(encodeMultikey('8024', p256Compressed)) },
    'P-256 by the type': { type: 'EcdsaSecp256r1VerificationKey2019', publicKeyBase58: encodeBase58(p256Compressed) }
  }),
  ...readMethod('Ed25519', ed25519Bytes, {
    'Ed25519 as JWK': { publicKeyJwk: ed25519.publicKeyJwk },
    'Ed25519 as Multikey': { publicKeyMultibase: z(encodeMultikey('ed01', ed25519Bytes)) },
    'multibase in base64url': { publicKeyMultibase: `u${encodeMultikey('ed01', ed25519Bytes).toString('base64url')}` },
    'multibase in hexadecimal': { publicKeyMultibase: `f${encodeMultikey('ed01', ed25519Bytes).toString('hex')}` },
    'multibase without a codec': { type: 'Ed25519VerificationKey2020', publicKeyMultibase: z(ed25519Bytes) },
    'Base58 by the type': { type: 'Ed25519VerificationKey2018', publicKeyBase58: encodeBase58(ed25519Bytes) },
    'Base64 by the type': { type: 'Ed25519VerificationKey2018', publicKeyBase64: ed25519Bytes.toString('base64') }
  }),
  ...readMethod('ecdsa', whole, {
    'a point of a type that tells no curve': { type: 'Other', publicKeyHex: whole.toString('hex') }
  }),
  ...readMethod('address', Buffer.from(address.slice(2), 'hex'), {
    'an address': { ethereumAddress: address },
    'an account in the older order': { blockchainAccountId: `${address}@eip155:30` },
    'an account next to a key': { blockchainAccountId: account, publicKeyHex: compressed.toString('hex') }
  })
]

describe('parseIssuerKey', () => {
  it.each(readable)('reads %s', (_name, method, kind, bytes) =>
    expect(parseIssuerKey(method)).toEqual({ kind, hex: bytes.toString('hex') })
  )

  it('reads coordinates without their leading zeros', () => {
    const short = { kty: 'EC', crv: 'secp256k1', x: Buffer.of(1, 2).toString('base64url'), y }
    expect(parseIssuerKey({ publicKeyJwk: short })?.hex).toBe(
      `04${'0102'.padStart(64, '0')}${whole.toString('hex', 33)}`
    )
  })

  it('reads Base58 with leading zeros', () => {
    const bytes = Buffer.concat([Buffer.alloc(2), ed25519Bytes.subarray(2)])
    // encodeBase58 of ethers accepts a number and drops leading zeros, so they are written here.
    const method = { type: 'Ed25519', publicKeyBase58: `11${encodeBase58(bytes)}`.replace(/^1+/, '11') }
    expect(parseIssuerKey(method)?.hex).toBe(bytes.toString('hex'))
  })

  it.each([
    ['nothing', {}],
    ['a JWK that is text', { publicKeyJwk: 'x' }],
    ['a JWK without its point', { publicKeyJwk: { kty: 'EC', crv: 'P-256', x } }],
    ['a JWK of another curve', { publicKeyJwk: { kty: 'OKP', crv: 'X25519', x } }],
    ['an RSA key', { publicKeyJwk: { kty: 'RSA', n: 'AQAB', e: 'AQAB' } }],
    ['coordinates that are too long', { publicKeyJwk: { kty: 'EC', crv: 'P-256', x: x.repeat(2), y } }],
    ['coordinates that are numbers', { publicKeyJwk: { kty: 'EC', crv: 'P-256', x: 5, y: 5 } }],
    ['an unknown codec', { publicKeyMultibase: z(encodeMultikey('ec01', ed25519Bytes)) }],
    ['an unknown multibase', { publicKeyMultibase: `M${ed25519Bytes.toString('base64')}` }],
    ['an empty multibase', { publicKeyMultibase: '' }],
    ['Base58 with a letter that is none', { publicKeyBase58: '0OIl' }],
    ['empty Base58', { publicKeyBase58: '' }],
    ['Base58 of 129 characters', { publicKeyBase58: '2'.repeat(129) }],
    ['hexadecimal that is none', { publicKeyHex: 'xyz' }],
    ['a hybrid point', { publicKeyHex: `06${whole.toString('hex', 1)}` }],
    ['31 bytes of Ed25519', { type: 'Ed25519', publicKeyHex: 'ab'.repeat(31) }],
    ['Ed25519 of small order', { type: 'Ed25519', publicKeyHex: `01${'00'.repeat(31)}` }],
    ['Ed25519 of small order as JWK', { publicKeyJwk: { kty: 'OKP', crv: 'Ed25519', x: 'A'.repeat(43) } }],
    ['Ed25519 in a second spelling', { publicKeyMultibase: z(encodeMultikey('ed01', Buffer.alloc(32, 0xff))) }],
    ['an X25519 type', { type: 'X25519KeyAgreementKey2020', publicKeyHex: 'ab'.repeat(32) }],
    ['an address that is a number', { ethereumAddress: 5, blockchainAccountId: 5 }],
    ['an address of 41 digits', { ethereumAddress: `${address}0` }],
    ['an account of another kind', { blockchainAccountId: 'bip122:a:b' }]
  ])('returns undefined for %s', (_name, method) => expect(parseIssuerKey(method)).toBeUndefined())

  it.each(['publicKeyHex', 'publicKeyBase58', 'publicKeyBase64', 'publicKeyMultibase', 'ethereumAddress', 'type'])(
    'refuses 1025 characters of %s, and accepts 1024',
    (name) => {
      expect(parseIssuerKey({ [name]: 'z'.repeat(1024) })).toBeUndefined()
      const publicKeyHex = name === 'type' ? { publicKeyHex: whole.toString('hex') } : {}
      expect(() => parseIssuerKey({ ...publicKeyHex, [name]: 'z'.repeat(1025) })).toThrow(
        refusal('ERR_CREDENTIAL_ISSUER')
      )
    }
  )

  it('refuses a JWK of 1025 characters', () => {
    const publicKeyJwk = { kty: 'EC', crv: 'P-256', x: 'A'.repeat(1025), y }
    expect(() => parseIssuerKey({ publicKeyJwk })).toThrow(refusal('ERR_CREDENTIAL_ISSUER'))
  })
})

describe('isSignedByIssuerKey', () => {
  const parseKey = (alg: string, sign: SignPart): ParsedJwt =>
    parseJwt(jwtByHand({ alg }, { hello: 'world' }, sign), 1_000)!
  const byP256 = parseKey('ES256', p256.sign)
  const byEd25519 = parseKey('EdDSA', ed25519.sign)

  it('verifies ES256 with an uncompressed and a compressed point, and both names of the curve', () => {
    for (const bytes of [p256Whole, p256Compressed]) {
      for (const kind of ['P-256', 'ecdsa'] as const) {
        expect(isSignedByIssuerKey({ kind, hex: bytes.toString('hex') }, byP256)).toBe(true)
      }
    }
    expect(isSignedByIssuerKey(parseIssuerKey({ publicKeyJwk: p256Key().publicKeyJwk })!, byP256)).toBe(false)
  })

  it('verifies EdDSA', () => {
    expect(isSignedByIssuerKey({ kind: 'Ed25519', hex: ed25519Bytes.toString('hex') }, byEd25519)).toBe(true)
    expect(isSignedByIssuerKey(parseIssuerKey({ publicKeyJwk: ed25519Key().publicKeyJwk })!, byEd25519)).toBe(false)
  })

  it('refuses a signature over other bytes, and one of the wrong length', () => {
    for (const [key, parsed] of [
      [parseIssuerKey({ publicKeyJwk: p256.publicKeyJwk })!, byP256],
      [parseIssuerKey({ publicKeyJwk: ed25519.publicKeyJwk })!, byEd25519]
    ] as const) {
      expect(isSignedByIssuerKey(key, { ...parsed, signingInput: `${parsed.signingInput}x` })).toBe(false)
      expect(isSignedByIssuerKey(key, { ...parsed, signature: parsed.signature.subarray(0, 63) })).toBe(false)
      expect(isSignedByIssuerKey(key, { ...parsed, signature: Buffer.concat([parsed.signature, Buffer.of(0)]) })).toBe(
        false
      )
      expect(isSignedByIssuerKey(key, { ...parsed, signature: Buffer.alloc(64) })).toBe(false)
    }
  })

  it.each([
    ['off the curve', 'P-256', `04${'11'.repeat(64)}`],
    ['an x that no point has', 'P-256', `02${'f'.repeat(64)}`],
    ['zero', 'P-256', `04${'00'.repeat(64)}`],
    ['of another curve', 'ecdsa', whole.toString('hex')],
    ['of another length', 'P-256', 'ab'],
    ['Ed25519 of all ones', 'Ed25519', 'ff'.repeat(32)]
  ] as const)('returns false and does not throw for an invalid key: %s', (_name, kind, hex) =>
    expect(isSignedByIssuerKey({ kind, hex }, kind === 'Ed25519' ? byEd25519 : byP256)).toBe(false)
  )
})

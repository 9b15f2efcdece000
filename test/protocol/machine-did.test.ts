import { describe, expect, it } from '@jest/globals'
import { ED25519_TORSION_SUBGROUP } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { base58btc } from 'multiformats/bases/base58'
import { canonicalDid, isDid, isMachineDid } from '../../src/protocol/did.js'
import { decodeBase58 } from '../../src/protocol/encoding.js'
import { parseMachineKey } from '../../src/protocol/machine-did.js'
import { compress, createMachine, toDidJwk, toDidKey, type MachineKind } from '../support/fixtures/machines.js'
import { refusal } from '../support/fixtures/refusal.js'

const kinds: MachineKind[] = ['P-256', 'Ed25519', 'secp256k1']
const { jwk, didKey } = createMachine(1)
const refuses = (did: string): void => expect(() => parseMachineKey(did)).toThrow(refusal('ERR_DID_UNSUPPORTED'))

describe('the key of a did:key', () => {
  it.each(kinds)('is read for %s', (kind) => {
    const machine = createMachine(1, kind)
    expect(parseMachineKey(machine.didKey)).toEqual({ kind, bytes: new Uint8Array(compress(machine.jwk)) })
  })

  it.each([
    // Test vectors of the did:key method specification.
    ['did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp', 'Ed25519'],
    ['did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme', 'secp256k1'],
    ['did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169', 'P-256']
  ])('is that of the published vector %s', (did, kind) => {
    expect(parseMachineKey(did).kind).toBe(kind)
  })

  const bytes = compress(jwk)
  it.each([
    ['P-384', toDidKey('8124', Buffer.concat([bytes, Buffer.alloc(16)]))],
    ['X25519', toDidKey('ec01', bytes.subarray(1))],
    ['a private key of Ed25519', toDidKey('8026', bytes.subarray(1))],
    ['the codec of P-256 with an unneeded byte', toDidKey('80a400', bytes)],
    ['a byte too few', toDidKey('P-256', bytes.subarray(0, 32))],
    ['a byte too many', toDidKey('P-256', Buffer.concat([bytes, Buffer.alloc(1)]))],
    ['an Ed25519 key of 33 bytes', toDidKey('Ed25519', bytes)],
    ['a point with another first byte', toDidKey('P-256', Buffer.concat([Buffer.from([4]), bytes.subarray(1)]))],
    ['a zero before the codec', `did:key:z1${didKey.slice(9)}`],
    ['a letter that Base58 lacks', didKey.replace(/.$/, '0')],
    ['padding', `${didKey}.`],
    ['another multibase', `did:key:f8024${Buffer.from(bytes).toString('hex')}`],
    ['an upper-case method', didKey.replace('key', 'KEY')],
    ['no key', 'did:key:z'],
    ['129 characters', `did:key:z${'2'.repeat(129)}`]
  ])('is refused with %s', (_what, did) => refuses(did))

  it('has one spelling: no two texts of Base58 have the same bytes', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{1,128}$/), (text) => {
        expect(base58btc.encode(decodeBase58(text)!)).toBe(`z${text}`)
      })
    )
  })
})

describe('the key of a did:jwk', () => {
  it.each(kinds)('is read for %s', (kind) => {
    const machine = createMachine(1, kind)
    const { x = '', y } = machine.jwk
    const [xBytes, yBytes] = [x, y ?? ''].map((text) => Buffer.from(text, 'base64url'))
    const bytes = y === undefined ? xBytes : Buffer.concat([Buffer.from([4]), xBytes!, yBytes!])
    expect(parseMachineKey(machine.didJwk)).toEqual({ kind, bytes: Uint8Array.from(bytes!) })
  })

  it('is that of the published vector', () => {
    // Example of the did:jwk method specification.
    const did =
      'did:jwk:eyJjcnYiOiJQLTI1NiIsImt0eSI6IkVDIiwieCI6ImFjYklRaXVNczNpOF91c3pFakoydHBUdFJNNEVVM3l6OTFQSDZDZEgyVjAiLCJ5IjoiX0tjeUxqOXZXTXB0bm1LdG00NkdxRHo4d2Y3NEk1TEtncmwyR3pIM25TRSJ9'
    expect(parseMachineKey(did).kind).toBe('P-256')
  })

  it.each([
    ['further members', { ...jwk, kid: '1', alg: 'ES256', use: 'sig', key_ops: ['verify'], 'x-note': 5 }],
    ['spaces, as Python writes it', JSON.stringify(jwk).replaceAll('":', '": ').replaceAll(',', ', ')]
  ])('is read with %s', (_what, key) => {
    expect(parseMachineKey(toDidJwk(key)).kind).toBe('P-256')
  })

  const json = JSON.stringify(jwk)
  const { x = '', y: _y, ...withoutY } = jwk
  it.each<[string, object | string]>([
    ['the private member', { ...jwk, d: 'AA' }],
    ['the private member, empty', { ...jwk, d: null }],
    ['a private member of RSA', { ...jwk, qi: 'AA' }],
    ['a symmetric key', { ...jwk, k: 'AA' }],
    ['x twice', json.replace('{', `{"x":"${'A'.repeat(43)}",`)],
    ['x twice, once escaped', json.replace('{', String.raw`{"\u0078":"AA",`)],
    ['the private member, escaped', json.replace('{', String.raw`{"\u0064":"AA",`)],
    ['a name twice that only a string contains', json.replace('{', String.raw`{"a":"\",\"b\":","a":"c",`)],
    ['no y', withoutY],
    ['y of another type', { ...jwk, y: 5 }],
    ['x with padding', { ...jwk, x: `${x}=` }],
    ['x of 31 bytes', { ...jwk, x: 'A'.repeat(42) }],
    ['x in base64', { ...jwk, x: `+${x.slice(1)}` }],
    ['x with unused bits', { ...jwk, x: `${'A'.repeat(42)}B` }],
    ['another curve', { ...jwk, crv: 'P-384' }],
    ['curve in lower case', { ...jwk, crv: 'p-256' }],
    ['another type', { ...jwk, kty: 'RSA' }],
    ['an array as type', { ...jwk, kty: ['EC'] }],
    ['a curve that does not fit the type', { ...jwk, kty: 'OKP' }],
    ['y at an Ed25519 key', { ...createMachine(1, 'Ed25519').jwk, y: x }],
    ['use enc', { ...jwk, use: 'enc' }],
    ['no verify in key_ops', { ...jwk, key_ops: ['sign'] }],
    ['alg of another key', { ...jwk, alg: 'ES256K' }],
    ['alg of encryption', { ...jwk, alg: 'ECDH-ES' }],
    ['a prototype', `{"__proto__":${json}}`],
    ['an array', [jwk]],
    ['a string', JSON.stringify('x')],
    ['text after the JSON', `${json}x`]
  ])('is refused with %s', (_what, key) => refuses(toDidJwk(key)))

  it.each(['did:jwk:', `${toDidJwk(jwk)}==`, `${toDidJwk(jwk)}#0`, `did:jwk:${'_w'.repeat(8)}`])(
    'is refused for %s',
    (did) => refuses(did)
  )

  it.each(['did:web:service.example', `did:jwk2:${toDidJwk(jwk).slice(8)}`, 'did:keys:z6Mk'])(
    'is not looked for in %s',
    (did) => refuses(did)
  )
})

describe('an Ed25519 key', () => {
  const ff = 'ff'.repeat(30)
  it.each([
    // The eight points of small order, as another library lists them.
    ...ED25519_TORSION_SUBGROUP,
    // Further spellings: x = 0 with a sign, then each y of less than 19 plus the prime, with both signs.
    `01${'00'.repeat(30)}80`,
    `ec${ff}ff`,
    ...Array.from({ length: 19 }, (_, y) => (0xed + y).toString(16)).flatMap((y) => [`${y}${ff}7f`, `${y}${ff}ff`])
  ])('is refused if its point has small order or a second spelling: %s', (hex) => {
    const bytes = Buffer.from(hex, 'hex')
    refuses(toDidKey('Ed25519', bytes))
    refuses(toDidJwk({ kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }))
  })

  it.each(['02', 'eb'])('is read if its y is next to a refused one: %s', (first) => {
    const bytes = Buffer.from(first + (first === '02' ? '00'.repeat(31) : `${ff}7f`), 'hex')
    expect(parseMachineKey(toDidKey('Ed25519', bytes)).bytes).toEqual(Uint8Array.from(bytes))
  })
})

describe('the DID of a machine', () => {
  it('has at most 512 characters, and that of a user 128', () => {
    const createDid = (length: number): string => `did:web:${'a'.repeat(length - 8)}`
    expect([128, 129].map((length) => isDid(createDid(length)))).toEqual([true, false])
    expect([512, 513].map((length) => isMachineDid(createDid(length)))).toEqual([true, false])
  })

  it('keeps its letter case, unless it is a did:ethr', () => {
    const dids = [didKey, 'did:web:Service.example', 'did:ethr:RSK:0xAbC']
    expect(dids.map(canonicalDid)).toEqual([didKey, 'did:web:Service.example', 'did:ethr:rsk:0xabc'])
  })
})

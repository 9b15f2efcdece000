import { describe, expect, it } from '@jest/globals'
import { loadCurve } from '../../src/adapters/curve.js'
import { findEs256kSigner, isEs256kSignature, parseClientAssertion } from '../../src/protocol/client-assertion.js'
import { P_256_ORDER } from '../../src/protocol/ecdsa-signature.js'
import { parseMachineKey } from '../../src/protocol/machine-did.js'
import { START_SECONDS } from '../support/fixtures/fixtures.js'
import { createLongDid, createMachine } from '../support/fixtures/machines.js'
import { refusal } from '../support/fixtures/refusal.js'

const machine = createMachine(1)
const [issuer, endpoint] = ['https://service.example', 'https://service.example/token']
const expected = { audiences: [issuer, endpoint], nowSeconds: START_SECONDS }
const parse = (jwt: unknown) => parseClientAssertion(jwt, expected)
const refuses = (jwt: unknown): void => expect(() => parse(jwt)).toThrow(refusal('ERR_CLIENT_ASSERTION'))
const at = (seconds: number): number => START_SECONDS + seconds

describe('the assertion of a machine', () => {
  it('is parsed into its parts', () => {
    const jwt = machine.assert({ jti: '8 to 128' })
    const [header = '', payload = '', signature = ''] = jwt.split('.')
    expect(parse(jwt)).toEqual({
      did: machine.didKey,
      alg: 'ES256',
      jti: '8 to 128',
      exp: at(60),
      signingInput: `${header}.${payload}`,
      signature: Uint8Array.from(Buffer.from(signature, 'base64url'))
    })
  })

  it.each<[string, Record<string, unknown>, Record<string, unknown>]>([
    ['the token endpoint as aud', { aud: endpoint }, {}],
    ['an array of one aud', { aud: [issuer] }, {}],
    ['an array of both names of this service', { aud: [endpoint, issuer] }, {}],
    ['one aud twice', { aud: [issuer, issuer] }, {}],
    ['aud with a slash', { aud: `${issuer}/` }, {}],
    ['aud in another spelling', { aud: 'HTTPS://Service.example:443' }, {}],
    ['exp in 360 s', { exp: at(360) }, {}],
    ['exp with a fraction', { exp: at(0.5) }, {}],
    ['nbf and iat of a clock 60 s ahead', { nbf: at(60), iat: at(60) }, {}],
    ['an old iat', { iat: 0 }, {}],
    ['jti of 8 characters', { jti: '12345678' }, {}],
    ['jti of 128 characters', { jti: 'x'.repeat(128) }, {}],
    ['further claims', { scope: 'x', client_id: 'x' }, {}],
    ['typ JWT', {}, { typ: 'JWT' }],
    ['typ of the draft', {}, { typ: 'client-authentication+jwt' }],
    [
      'a key id and keys, which it does not use',
      {},
      { kid: 'x', jwk: createMachine(2).jwk, jku: 'https://evil.example' }
    ]
  ])('may have %s', (_what, claims, header) => {
    expect(parse(machine.assert(claims, header)).did).toBe(machine.didKey)
  })

  it.each<[string, Record<string, unknown>]>([
    ['no iss', { iss: undefined, sub: machine.didKey }],
    ['iss that is no DID', { iss: 'client', sub: 'client' }],
    ['iss in an array', { iss: [machine.didKey], sub: [machine.didKey] }],
    ['iss of 513 characters', { iss: `did:web:${'a'.repeat(505)}` }],
    ['no sub', { sub: undefined }],
    ['another sub', { sub: createMachine(2).didKey }],
    ['sub in other letter case', { sub: machine.didKey.toLowerCase() }],
    ['sub of another type', { sub: [machine.didKey] }],
    ['no aud', { aud: undefined }],
    ['no aud in the array', { aud: [] }],
    ['another aud', { aud: 'https://other.example' }],
    ['aud with a slash after a path', { aud: `${endpoint}/` }],
    ['aud of another service next to ours', { aud: [issuer, 'https://other.example'] }],
    ['no text next to ours', { aud: [issuer, null] }],
    ['aud of another type', { aud: { 0: issuer } }],
    ['no exp', { exp: undefined }],
    ['exp now', { exp: START_SECONDS }],
    ['exp in 361 s', { exp: at(361) }],
    ['exp as text', { exp: String(at(60)) }],
    ['exp null', { exp: null }],
    ['nbf in 61 s', { nbf: at(61) }],
    ['nbf as text', { nbf: '1' }],
    ['iat in 61 s', { iat: at(61) }],
    ['iat null', { iat: null }],
    ['no jti', { jti: undefined }],
    ['jti of 7 characters', { jti: '1234567' }],
    ['jti of 129 characters', { jti: 'x'.repeat(129) }],
    ['jti as number', { jti: 123456789 }],
    ['use, as an access token', { use: 'access' }],
    ['sid, as an access token', { sid: 'x' }],
    ['vc, as a credential', { vc: {} }],
    ['type, as a disclosure request', { type: 'sdr' }]
  ])('is refused with %s', (_what, claims) => refuses(machine.assert(claims)))

  it('names the audience that it refuses in the reason', () => {
    const aud = ['https://other.example/api', `https://user:password@other.example/${'a'.repeat(40)}`, 5]
    const reason = { check: 'aud', got: ['https://other.example/api', 'https://other.example/[cut]', 'number'] }
    expect(() => parse(machine.assert({ aud }))).toThrow(
      expect.objectContaining({ reason: expect.objectContaining(reason) })
    )
  })

  it.each<[string, Record<string, unknown>]>([
    ['no alg', { alg: undefined }],
    ['alg in an array', { alg: ['ES256'] }],
    ['typ of a resource token', { typ: 'at+jwt' }],
    ['typ of a device proof', { typ: 'dpop+jwt' }],
    ['typ null', { typ: null }],
    ['crit', { crit: ['exp'], exp: 1 }],
    ['an empty crit', { crit: [] }],
    ['an unencoded payload', { b64: false }],
    ['b64', { b64: true }]
  ])('is refused with %s in its header', (_what, header) => refuses(machine.assert({}, header)))

  it('counts the last of two members of one name, as RFC 7519 allows', () => {
    const payload = JSON.stringify({
      ...{ iss: machine.didKey, sub: machine.didKey, jti: 'twice-named', exp: at(60), aud: issuer }
    })
    const doubled = (member: string) => machine.jwt({ alg: 'ES256' }, payload.replace('}', `,${member}}`))
    expect(parse(doubled(`"aud":"${endpoint}"`)).did).toBe(machine.didKey)
    for (const member of ['"aud":"x"', '"sub":"did:web:x"', `"exp":${at(999)}`, '"exp":1e999', '"jti":"x"'])
      refuses(doubled(member))
  })

  it.each([
    ['no text', undefined],
    ['two assertions', [machine.assert(), machine.assert()]],
    ['no signature', machine.assert().replace(/[^.]+$/, '')],
    ['a fourth part', `${machine.assert()}.x`],
    ['padding', `${machine.assert()}=`],
    ['4097 characters', machine.assert({ pad: 'x'.repeat(4097) })],
    ['a payload that is no object', machine.jwt({ alg: 'ES256' }, '[]')],
    ['a payload that is not UTF-8', machine.jwt({ alg: 'ES256' }, Buffer.from('7b22ff227d', 'hex'))]
  ])('is refused with %s', (_what, jwt) => refuses(jwt))

  it('fits a DID of 512 characters', () => {
    const did = createLongDid(machine)
    expect(did.length).toBe(512)
    expect(parse(machine.assert({ iss: did, jti: 'x'.repeat(128) })).did).toBe(did)
  })
})

describe('an ES256K signature', () => {
  const signer = createMachine(1, 'secp256k1')
  const key = parseMachineKey(signer.didKey)

  it('is valid with a low and with a high s', async () => {
    const curve = await loadCurve()
    const { signingInput, signature } = parse(signer.assert({ iss: signer.didKey }))
    const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
    const s = BigInt(`0x${Buffer.from(signature.subarray(32)).toString('hex')}`)
    const twin = Buffer.concat([
      signature.subarray(0, 32),
      Buffer.from((order - s).toString(16).padStart(64, '0'), 'hex')
    ])
    expect(isEs256kSignature(curve, { signingInput, signature }, key)).toBe(true)
    expect(isEs256kSignature(curve, { signingInput, signature: twin }, key)).toBe(true)
    expect(isEs256kSignature(curve, { signingInput: `${signingInput}x`, signature }, key)).toBe(false)
  })

  it.each([
    ['zeros', Buffer.alloc(64)],
    ['the largest numbers', Buffer.alloc(64, 0xff)],
    ['65 bytes', Buffer.alloc(65, 1)],
    ['no bytes', Buffer.alloc(0)],
    ['the order of P-256', Buffer.from(P_256_ORDER.toString(16).repeat(2), 'hex')]
  ])('is invalid with %s, for a known key and for an address', async (_what, signature) => {
    const curve = await loadCurve()
    const signed = { signingInput: 'x', signature }
    expect(isEs256kSignature(curve, signed, key)).toBe(false)
    expect(findEs256kSigner(curve, signed, new Set([`0x${'0'.repeat(40)}`]))).toBeUndefined()
  })
})

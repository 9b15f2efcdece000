import { describe, expect, it } from '@jest/globals'
import { Buffer } from 'node:buffer'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Signature, SigningKey, sha256 } from 'ethers/crypto'
import { loadCurve } from '../../src/adapters/curve.js'
import {
  createAccessTokenPayload,
  assertInForce,
  verifyAccessToken,
  type AccessTokenClaims
} from '../../src/protocol/access-token.js'
import { refusal } from '../support/fixtures/refusal.js'
import { es256k, forgeJwt, type Part, type Sign } from './forge-jwt.js'
import { rounds } from '../support/fixtures/time-factor.js'
import { countAcceptedMutants } from './mutations.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const curve = await loadCurve()
const vectors = JSON.parse(readFileSync(new URL('../vectors/access-token.json', import.meta.url), 'utf8')) as {
  publicKey: string
  vectors: { name: string; payload: Record<string, unknown>; token: string }[]
}

const NOW = 1_800_000_000
const service = createNumberedWallet(7777)
const serviceDid = 'did:ethr:rsk:0xf05e5b34c44e07795a67d3554c38b752388d9186'
const publicKey = Buffer.from(vectors.publicKey, 'hex')
const expected = { serviceDid, serviceUrl: 'https://service.example', publicKey, nowSeconds: NOW }
const sign = es256k(service.privateKey)

const HEADER = { alg: 'ES256K', typ: 'JWT' }
const CLAIMS: Record<string, unknown> = {
  iss: serviceDid,
  aud: 'https://service.example',
  sub: 'did:ethr:rsk:0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf',
  exp: NOW + 600,
  nbf: NOW,
  iat: NOW,
  jti: 'AAAAAAAAAAAAAAAAAAAAAA',
  sid: 'BBBBBBBBBBBBBBBBBBBBBB',
  use: 'access'
}
const forgeToken = (claims: Record<string, unknown>, header: Part = HEADER, signing: Sign = sign): string =>
  forgeJwt(header, { ...CLAIMS, ...claims }, signing)
const verify = (token: unknown, nowSeconds = NOW): AccessTokenClaims =>
  verifyAccessToken(curve, token, { ...expected, nowSeconds })

describe('createAccessTokenPayload', () => {
  const input = {
    iss: 'did:a:service',
    aud: 'https://service.example',
    sub: 'did:a:User',
    jti: 'token',
    sid: 'session'
  }

  it('contains the claims of the specification in whole seconds, the ids and the use', () => {
    expect(createAccessTokenPayload(input, 1_000, 600)).toEqual({
      iss: 'did:a:service',
      aud: 'https://service.example',
      sub: 'did:a:User',
      exp: 1_600,
      nbf: 1_000,
      iat: 1_000,
      jti: 'token',
      sid: 'session',
      use: 'access'
    })
  })

  it('adds the claims of business logic, which override nothing', () => {
    const ids = { iss: 'x', aud: 'x', sub: 'x', jti: 'x', sid: 'x', use: 'x' }
    const tokenClaims = { role: 'admin', ...ids, exp: 9e9, nbf: 0, iat: 0 }
    const plain = createAccessTokenPayload(input, 1_000, 600)
    expect(createAccessTokenPayload(input, 1_000, 600, tokenClaims)).toEqual({ ...plain, role: 'admin' })
  })

  it('is deeply frozen', () => {
    const payload = createAccessTokenPayload(input, 1_000, 600, { roles: ['admin'] })
    expect(Object.isFrozen(payload)).toBe(true)
    expect(Object.isFrozen(payload.roles)).toBe(true)
  })
})

describe('verifyAccessToken', () => {
  it.each(vectors.vectors)('accepts a token of did-jwt: $name', ({ token, payload }) =>
    expect(verify(token)).toEqual(payload)
  )

  it('accepts a header without typ', () => expect(verify(forgeToken({}, { alg: 'ES256K' })).sub).toBe(CLAIMS.sub))

  it.each(['jti', 'sid', 'use'])('accepts a token without %s, created elsewhere with the key of the service', (name) =>
    expect(verify(forgeToken({ [name]: undefined }))).not.toHaveProperty(name)
  )

  it('returns the claims deeply frozen, because requests share them', () => {
    const claims = verify(forgeToken({ roles: ['admin'] }))
    expect(Object.isFrozen(claims)).toBe(true)
    expect(Object.isFrozen(claims.roles)).toBe(true)
  })

  it('accepts a token up to the second before exp, and calls it expired at exp', () => {
    expect(verify(forgeToken({}), NOW + 599).exp).toBe(NOW + 600)
    expect(() => verify(forgeToken({}), NOW + 600)).toThrow(refusal('ERR_ACCESS_TOKEN_EXPIRED'))
    expect(() => verify(forgeToken({}), NOW + 600)).toThrow('Expired access token')
  })

  it('accepts a token 5 s before nbf and not 6 s', () => {
    expect(verify(forgeToken({}), NOW - 5).nbf).toBe(NOW)
    expect(() => verify(forgeToken({}), NOW - 6)).toThrow(refusal('ERR_ACCESS_TOKEN'))
  })

  it('never calls a forged token expired', () => {
    const forged = forgeToken({ exp: NOW - 1 }, HEADER, es256k(createNumberedWallet(1).privateKey))
    expect(() => verify(forged)).toThrow(refusal('ERR_ACCESS_TOKEN'))
  })

  it('calls an expired token for another audience invalid, not expired', () => {
    expect(() => verify(forgeToken({ exp: NOW - 1, aud: 'https://other.example' }))).toThrow(
      refusal('ERR_ACCESS_TOKEN')
    )
  })

  it('accepts 4096 bytes and no more', () => {
    const tokens = Array.from({ length: 10 }, (_, i) => forgeToken({ pad: 'x'.repeat(2_676 + i) }))
    expect(tokens.map(({ length }) => length)).toContain(4_096)
    const accepted = tokens.filter((token) => {
      try {
        return verify(token)
      } catch {
        return false
      }
    })
    expect(Math.max(...accepted.map(({ length }) => length))).toBe(4_096)
    expect(accepted.length).toBeLessThan(10)
  })

  it('calls the curve only if form, header and claims are valid', () => {
    let asked = 0
    const spy = {
      sha256: curve.sha256,
      verify: () => {
        asked += 1
        return false
      }
    }
    for (const token of ['', 'a.b.c', forgeToken({}, { alg: 'none' }), forgeToken({ aud: 'https://other.example' })]) {
      expect(() => verifyAccessToken(spy, token, expected)).toThrow(refusal('ERR_ACCESS_TOKEN'))
    }
    expect(asked).toBe(0)
  })

  const own = new SigningKey(service.privateKey)
  const other = es256k(createNumberedWallet(1).privateKey)
  const der: Sign = (data) => {
    const { r, s } = Signature.from(own.sign(sha256(Buffer.from(data))))
    const integer = (value: string): string => {
      const digits = Number.parseInt(value.slice(2, 4), 16) > 127 ? `00${value.slice(2)}` : value.slice(2)
      return `02${(digits.length / 2).toString(16)}${digits}`
    }
    const body = integer(r) + integer(s)
    return Buffer.from(`30${(body.length / 2).toString(16)}${body}`, 'hex')
  }
  const hmac: Sign = (data) => createHmac('sha256', publicKey).update(data).digest()
  const recoverable: Sign = (data) => Buffer.concat([sign(data), Buffer.from([0])])
  const nothing: Sign = () => new Uint8Array(0)
  const jwk = {
    kty: 'EC',
    crv: 'secp256k1',
    x: publicKey.subarray(1, 33).toString('base64url'),
    y: publicKey.subarray(33).toString('base64url')
  }

  it.each<[string, Part, Sign]>([
    ['alg none without a signature', { alg: 'none', typ: 'JWT' }, nothing],
    ['alg none with a good signature', { alg: 'none', typ: 'JWT' }, sign],
    ['alg HS256 with the public key as secret', { alg: 'HS256', typ: 'JWT' }, hmac],
    ['alg ES256K over an HMAC', HEADER, hmac],
    ['alg ES256K with 65 bytes', HEADER, recoverable],
    ['alg given twice, the last one none', '{"alg":"ES256K","alg":"none"}', sign],
    ['kid', { ...HEADER, kid: `${serviceDid}#controller` }, sign],
    ['jwk, another key that signed', { ...HEADER, jwk }, other],
    ['crit', { ...HEADER, crit: ['exp'] }, sign],
    ['the key of another', HEADER, other],
    ['a signature in DER', HEADER, der],
    ['a signature over other words', HEADER, () => sign('other words')],
    ['a signature of personal_sign', HEADER, (data) => Buffer.from(service.personalSign(data).slice(2, 130), 'hex')]
  ])('refuses a forged header or signature: %s', (_name, header, signing) =>
    expect(() => verify(forgeToken({}, header, signing))).toThrow(refusal('ERR_ACCESS_TOKEN'))
  )

  it.each<[string, Record<string, unknown>]>([
    ...['iss', 'aud', 'sub', 'exp', 'nbf', 'iat'].map((name): [string, Record<string, unknown>] => [
      `no ${name}`,
      { [name]: undefined }
    ]),
    ...['exp', 'nbf', 'iat'].flatMap((name): [string, Record<string, unknown>][] => [
      [`${name} with a fraction`, { [name]: NOW + 0.5 }],
      [`${name} as a string`, { [name]: String(NOW + 60) }],
      [`${name} null`, { [name]: null }],
      [`${name} true`, { [name]: true }],
      [`${name} beyond safe integers`, { [name]: 1e300 }],
      [`${name} in an array`, { [name]: [NOW + 60] }]
    ]),
    ['iss in another letter case', { iss: serviceDid.toUpperCase() }],
    ['iss in EIP-55 spelling', { iss: 'did:ethr:rsk:0xf05E5B34c44E07795A67D3554c38b752388D9186' }],
    ['iss of another network', { iss: serviceDid.replace('rsk', 'rsk:testnet') }],
    ['iss in an array', { iss: [serviceDid] }],
    ['aud in an array', { aud: ['https://service.example'] }],
    ['aud that only starts alike', { aud: 'https://service.example.attacker.example' }],
    ['aud with a slash at the end', { aud: 'https://service.example/' }],
    ['aud in another letter case', { aud: 'https://Service.example' }],
    ['aud that is a part of it', { aud: 'https://service' }],
    ['aud empty', { aud: '' }],
    ['sub that is no DID', { sub: 'alice' }],
    ['sub empty', { sub: '' }],
    ['sub in an array', { sub: [CLAIMS.sub] }],
    ['jti that is no string', { jti: 5 }],
    ['jti null', { jti: null }],
    ['sid that is no string', { sid: { a: 1 } }],
    ['sid null', { sid: null }],
    ['use refresh', { use: 'refresh' }],
    ['use relay', { use: 'relay' }],
    ['use null', { use: null }],
    ['use in an array', { use: ['access'] }],
    ['vc, as of a credential of the service', { vc: { type: ['VerifiableCredential'] } }],
    ['vc null', { vc: null }],
    ['vp', { vp: {} }],
    ['type, as of a selective disclosure request', { type: 'sdr' }],
    ['type null', { type: null }]
  ])('refuses wrong claims under a valid signature: %s', (_name, claims) =>
    expect(() => verify(forgeToken(claims))).toThrow(refusal('ERR_ACCESS_TOKEN'))
  )

  it('refuses an invalid token', () => {
    for (const value of [undefined, null, 5, '', 'Bearer', [forgeToken({})], { token: forgeToken({}) }]) {
      expect(() => verify(value)).toThrow(refusal('ERR_ACCESS_TOKEN'))
    }
  })

  it('accepts none of 20,000 random mutations, or 1,000,000 (F9)', () => {
    const mutants = rounds(20_000, 1_000_000)
    const tokens = [
      forgeToken({}),
      forgeToken({ sub: createNumberedWallet(2).did, jti: 'C', sid: 'D' }),
      forgeToken({ role: 'admin' })
    ]
    expect(countAcceptedMutants(curve, tokens, expected, mutants)).toEqual({ mutants, accepted: [] })
  })
})

// A token created while a clock was an hour ahead, before it was set back, would outlive its lifetime.
describe('maxLifetimeSeconds', () => {
  const maxLifetimeSeconds = 600
  const verifyBounded = (token: string): AccessTokenClaims =>
    verifyAccessToken(curve, token, { ...expected, maxLifetimeSeconds })

  it('allows a token that lifetime and 5 s more, and calls one of 6 s more expired', () => {
    expect(verifyBounded(forgeToken({ exp: NOW + 605 })).exp).toBe(NOW + 605)
    expect(() => verifyBounded(forgeToken({ exp: NOW + 606 }))).toThrow(refusal('ERR_ACCESS_TOKEN_EXPIRED'))
  })

  it('allows any lifetime if it is absent', () =>
    expect(verify(forgeToken({ exp: NOW + 1_000_000 })).exp).toBe(NOW + 1_000_000))

  it('names the distance to `nbf` for a clock that is behind, with any lifetime', () => {
    const claims = verify(forgeToken({}))
    expect(() => assertInForce(claims, NOW - 5, maxLifetimeSeconds)).not.toThrow()
    for (const [seconds, limit] of [
      [6, maxLifetimeSeconds],
      [6, Infinity],
      [3_600, maxLifetimeSeconds]
    ] as const) {
      const reason = { check: 'nbf', expected: 'at most 5 s later than this clock', got: `${seconds} s later` }
      const error = expect.objectContaining({ code: 'ERR_ACCESS_TOKEN', reason }) as unknown as Error
      expect(() => assertInForce(claims, NOW - seconds, limit)).toThrow(error)
    }
  })

  it.each([
    [NOW + 606, 'at most 605 s left', '606 s left'],
    [NOW, 'later than this clock', '0 s ago'],
    [NOW - 30, 'later than this clock', '30 s ago']
  ])('says how far `exp` %d is off', (exp, expected, got) => {
    const error = expect.objectContaining({ code: 'ERR_ACCESS_TOKEN_EXPIRED', reason: { check: 'exp', expected, got } })
    expect(() => assertInForce({ nbf: NOW - 600, exp }, NOW, maxLifetimeSeconds)).toThrow(error)
  })

  it('never calls a forged token expired with a lifetime limit', () => {
    const forged = forgeToken({ exp: NOW + 3_600 }, HEADER, es256k(createNumberedWallet(2).privateKey))
    expect(() => verifyBounded(forged)).toThrow(refusal('ERR_ACCESS_TOKEN'))
  })
})

import { describe, expect, it } from '@jest/globals'
import { calculateJwkThumbprint } from 'jose'
import { createDeviceSignatures } from '../../src/adapters/device-signatures.js'
import { loadCurve } from '../../src/adapters/curve.js'
import { computeThumbprint, findBoundKey, parseDeviceProof, type DeviceKey } from '../../src/protocol/device-proof.js'
import { createDevice } from '../support/fixtures/device.js'
import { refusal } from '../support/fixtures/refusal.js'
import { resourceKey } from '../support/servers/test-app.js'

const url = 'https://service.example/auth'
const device = createDevice(resourceKey(1))
const { jwk } = device
const [header, payload] = [
  { typ: 'dpop+jwt', alg: 'ES256', jwk },
  { jti: 'a', htm: 'POST', htu: url, iat: 1 }
]
const isRefused = (proof: unknown): void => expect(() => parseDeviceProof(proof)).toThrow(refusal('ERR_DEVICE_PROOF'))

describe('parseDeviceProof', () => {
  it('returns the key, the request, nonce and token hash', () => {
    const proof = device.prove({ url, nonce: 'n', accessToken: 't' })
    const parsed = parseDeviceProof(proof)
    expect(parsed).toMatchObject({ key: jwk, htm: 'POST', htu: url, nonce: 'n', signature: expect.any(Uint8Array) })
    expect(parsed.signingInput).toBe(proof.slice(0, proof.lastIndexOf('.')))
    // SHA-256 of `t`, as `printf t | sha256sum` computes it.
    expect(Buffer.from(parsed.ath ?? '', 'base64url').toString('hex')).toBe(
      'e3b98a4da31a127d4bde6e43033f66ba274cab0eb7eb1c70ec41402bf6273dd8'
    )
  })

  it.each([
    ['typ', ['JWT', 'dpop+JWT', '', 1, null, undefined]],
    ['alg', ['ES256K', 'none', 'HS256', 'RS256', 'ES384', 'es256', 1, null, undefined]],
    ['kid', ['a', 1, null]],
    ['crit', [['exp']]],
    ['b64', [false]],
    ['jwk', [{}, [], 'a', 1, null, undefined]]
  ])('refuses a header with another %s: %j', (member, values) => {
    for (const value of values) isRefused(device.prove({ url, header: { [member]: value } }))
  })

  it.each([
    ['kty', ['RSA', 'OKP', 'ec', 1, undefined]],
    ['crv', ['secp256k1', 'P-384', 'p-256', undefined]],
    ['x', ['', 'A'.repeat(42), 'A'.repeat(44), `${jwk.x}=`, jwk.x.replace(/.$/, '!'), 1, undefined]],
    ['y', ['', 'A'.repeat(42), 'A'.repeat(44), ` ${jwk.y}`, null, undefined]],
    ['d', [resourceKey(1).d]],
    ['alg', ['ES256']],
    ['kid', ['a']],
    ['use', ['sig']]
  ])('refuses a key with another %s: %j', (member, values) => {
    for (const value of values) isRefused(device.prove({ url, header: { jwk: { ...jwk, [member]: value } } }))
  })

  it.each([
    ['jti', ['', 'a'.repeat(129), 1, null, undefined]],
    ['htm', [1, null, ['POST'], undefined]],
    ['htu', [1, null, [url], undefined]],
    ['iat', ['1', null, true, undefined]],
    ['nonce', [1, null, ['n']]],
    ['ath', [1, null, {}]]
  ])('refuses a payload with another %s: %j', (member, values) => {
    for (const value of values) isRefused(device.prove({ url, payload: { [member]: value } }))
  })

  it('accepts the longest jti, a fraction and a past time as iat, and unknown members of the payload', () => {
    for (const changes of [{ jti: 'a'.repeat(128) }, { iat: 0.5 }, { iat: -1 }, { exp: 1, aud: 'a', sub: 'b' }]) {
      expect(parseDeviceProof(device.prove({ url, payload: changes })).htu).toBe(url)
    }
  })

  it('uses the last of two members with one name, as RFC 7515 allows', () => {
    const text = JSON.stringify(payload)
    const doubled = device.signParts(header, text.replace('{', '{"htm":"GET",'))
    expect(parseDeviceProof(doubled).htm).toBe('POST')
    isRefused(device.signParts(`{"alg":"ES256",${JSON.stringify({ ...header, alg: 'none' }).slice(1)}`, payload))
  })

  it('refuses all but one compact JWT with a signature of 64 bytes', () => {
    const proof = device.signParts(header, payload)
    const [head = '', body = '', signature = ''] = proof.split('.')
    const forms = [
      undefined,
      '',
      5,
      [proof],
      `${proof}, ${proof}`,
      `${proof} `,
      `${proof}=`,
      `${head}.${body}`,
      `${proof}.a`,
      `${head}.${body}.`,
      `${head}.${body}.${signature.slice(0, 84)}`,
      `${head}.${body}.${signature}AAAA`,
      device.signParts('[]', payload),
      device.signParts(header, '1'),
      device.signParts('{', payload)
    ]
    for (const form of forms) isRefused(form)
  })

  it('accepts 2048 characters and refuses more', () => {
    const lengthOf = (text: string): number => device.signParts(header, { ...payload, text }).length
    let text = 'a'.repeat(1_000)
    while (lengthOf(`${text}a`) <= 2048) text += 'a'
    expect(lengthOf(text)).toBe(2048)
    expect(parseDeviceProof(device.signParts(header, { ...payload, text })).htu).toBe(url)
    isRefused(device.signParts(header, { ...payload, text: `${text}a` }))
  })
})

describe('computeThumbprint', () => {
  it('equals the thumbprint of jose', async () => {
    const curve = await loadCurve()
    for (const number of [1, 2, 3, 4, 5]) {
      const key = createDevice(resourceKey(number)).jwk as DeviceKey
      expect(computeThumbprint(curve, key)).toBe(await calculateJwkThumbprint(key))
    }
  })
})

describe('findBoundKey', () => {
  it.each([undefined, {}, { cnf: undefined }, { cnf: 'a' }, { cnf: null }, { cnf: {} }, { cnf: { jkt: 1 } }])(
    'returns undefined for claims that bind to no key: %j',
    (claims) => expect(findBoundKey(claims)).toBeUndefined()
  )

  it('returns the thumbprint', () => expect(findBoundKey({ cnf: { jkt: 'a' } })).toBe('a'))
})

describe('the verification of device signatures', () => {
  const verify = createDeviceSignatures()
  const { signingInput, signature } = parseDeviceProof(device.signParts(header, payload))
  const key = jwk as DeviceKey

  it('accepts the signature of the key, also from its cache', () => {
    expect([verify(key, signingInput, signature), verify(key, signingInput, signature)]).toEqual([true, true])
  })

  it('refuses each flipped bit, another key, another text, and a signature of zeros', () => {
    for (let bit = 0; bit < 512; bit += 1) {
      const changed = Uint8Array.from(signature)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(verify(key, signingInput, changed)).toBe(false)
    }
    expect(verify(createDevice(resourceKey(2)).jwk as DeviceKey, signingInput, signature)).toBe(false)
    expect(verify(key, `${signingInput}a`, signature)).toBe(false)
    expect(verify(key, signingInput, new Uint8Array(64))).toBe(false)
  })

  it('refuses a key that is no point of P-256, such as one of secp256k1 or zero', () => {
    const zero = 'A'.repeat(43)
    for (const point of [
      { x: jwk.y, y: jwk.x },
      { x: zero, y: zero },
      { x: `_${'_'.repeat(41)}8`, y: jwk.y }
    ]) {
      expect(verify({ ...key, ...point }, signingInput, signature)).toBe(false)
    }
  })
})

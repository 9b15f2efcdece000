import { describe, expect, it } from '@jest/globals'
import { Buffer } from 'node:buffer'
import { loadCurve } from '../../src/adapters/curve.js'
import { isPlainEs256kHeader, isSignedBy, parseJwt } from '../../src/protocol/jwt.js'
import { parseSignerOutput } from '../../src/protocol/personal-sign.js'
import { es256k, forgeJwt, type Part } from './forge-jwt.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const curve = await loadCurve()
const HEADER = { alg: 'ES256K', typ: 'JWT' }
const sign = es256k(createNumberedWallet(7777).privateKey)
const forge = (header: Part, payload: Part): string => forgeJwt(header, payload, sign)
const parse = (jwt: unknown) => parseJwt(jwt, 4096)
const good = forge(HEADER, { a: 1 })
const [header, payload, signature] = good.split('.') as [string, string, string]

describe('parseJwt', () => {
  it('returns header, payload, signing input and signature', () => {
    const parsed = parse(good)
    expect(parsed).toMatchObject({ header: HEADER, payload: { a: 1 }, signingInput: `${header}.${payload}` })
    expect(Buffer.from(parsed!.signature).toString('base64url')).toBe(signature)
  })

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a number', 5],
    ['an array', [good]],
    ['an object that reads like one', { toString: () => good, length: good.length }],
    ['the empty string', ''],
    ['two dots', '..'],
    ['one part', header],
    ['two parts', `${header}.${payload}`],
    ['four parts', `${good}.${signature}`],
    ['five parts, as of a JWE', `${good}.${payload}.${signature}`],
    ['a dot at the end', `${good}.`],
    ['a dot in front', `.${good}`],
    ['an empty header', `.${payload}.${signature}`],
    ['an empty payload', `${header}..${signature}`],
    ['an empty signature', `${header}.${payload}.`],
    ['padding in the header', `${header}=.${payload}.${signature}`],
    ['padding in the signature', `${good}==`],
    ['unused bits that are not zero', `${good.slice(0, -1)}${good.endsWith('A') ? 'B' : `${good.slice(-1)}B`}`],
    ['a space in front', ` ${good}`],
    ['a line feed at the end', `${good}\n`],
    ['the other alphabet', `${header}.${payload}.+/+/`],
    ['JSON that is none', forge(HEADER, '{"a":1')],
    ['an array as payload', forge(HEADER, [1])],
    ['a string as payload', forge(HEADER, '"a"')],
    ['a number as payload', forge(HEADER, '5')],
    ['null as payload', forge(HEADER, 'null')],
    ['an array as header', forge(['ES256K'], { a: 1 })],
    ['null as header', forge('null', { a: 1 })],
    ['a payload that is no UTF-8', forge(HEADER, Buffer.from('7b2261223a22ff227d', 'hex'))],
    ['a payload with half a character of UTF-8', forge(HEADER, Buffer.from('7b2261223a22c3227d', 'hex'))],
    ['a payload in UTF-16', forge(HEADER, Buffer.from('{"a":1}', 'utf16le'))]
  ])('returns undefined for %s', (_name, jwt) => expect(parse(jwt)).toBeUndefined())

  it('reads a JWT of exactly the allowed bytes, and refuses a longer one', () => {
    expect(parseJwt(good, good.length)).toBeDefined()
    expect(parseJwt(good, good.length - 1)).toBeUndefined()
    expect(parseJwt('.'.repeat(10_000_000), 4096)).toBeUndefined()
  })

  it('uses the last of two fields with one name (RFC 7515, section 4)', () =>
    expect(parse(forge('{"alg":"none","alg":"ES256K"}', '{"sub":"a","sub":"b"}'))).toMatchObject({
      header: { alg: 'ES256K' },
      payload: { sub: 'b' }
    }))

  it('never changes a prototype', () => {
    const parsed = parse(forge(HEADER, '{"__proto__":{"admin":true}}'))
    expect(parsed?.payload.admin).toBeUndefined()
  })
})

describe('isPlainEs256kHeader', () => {
  it.each([[{ alg: 'ES256K' }], [{ alg: 'ES256K', typ: 'JWT' }], [{ typ: 'JWT', alg: 'ES256K' }]])(
    'returns true for %j',
    (fields) => expect(isPlainEs256kHeader(fields)).toBe(true)
  )

  it.each([
    [{}],
    [{ typ: 'JWT' }],
    [{ alg: 'none' }],
    [{ alg: 'es256k' }],
    [{ alg: 'ES256K-R' }],
    [{ alg: ['ES256K'] }],
    [{ alg: 'ES256K', typ: 'jwt' }],
    [{ alg: 'ES256K', typ: 'at+jwt' }],
    [{ alg: 'ES256K', typ: null }],
    [{ alg: 'ES256K', kid: 'a' }],
    [JSON.parse('{"alg":"ES256K","__proto__":{}}') as Record<string, unknown>]
  ])('returns false for %j', (fields) => expect(isPlainEs256kHeader(fields)).toBe(false))
})

const N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const low = Buffer.from(sign('anything'))
const high = Buffer.from(
  low.subarray(0, 32).toString('hex') +
    (N - BigInt(`0x${low.subarray(32).toString('hex')}`)).toString(16).padStart(64, '0'),
  'hex'
)
const r = low.subarray(0, 32).toString('hex')
const s = low.subarray(32).toString('hex')

describe('isSignedBy', () =>
  it.each([
    ['63 bytes', low.subarray(0, 63)],
    ['65 bytes', Buffer.concat([low, Buffer.from([0])])],
    ['a high s', high],
    ['r = 0', Buffer.concat([Buffer.alloc(32), low.subarray(32)])],
    ['s = 0', Buffer.concat([low.subarray(0, 32), Buffer.alloc(32)])],
    ['r above the order', Buffer.concat([Buffer.alloc(32, 255), low.subarray(32)])]
  ])('returns false for %s, before the curve is called', (_name, bytes) => {
    let asked = 0
    const spy = {
      sha256: curve.sha256,
      verify: () => {
        asked += 1
        return true
      }
    }
    const jwt = { header: HEADER, payload: {}, signingInput: 'anything', signature: bytes }
    expect(isSignedBy(spy, jwt, new Uint8Array(65))).toBe(false)
    expect(asked).toBe(0)
  }))

describe('parseSignerOutput', () => {
  it.each([
    ['base64url of 64 bytes', low.toString('base64url')],
    ['base64url of 65 bytes, whose last is the recovery', Buffer.concat([low, Buffer.from([1])]).toString('base64url')],
    ['padded base64', low.toString('base64')],
    ['a high s', high.toString('base64url')],
    ['r and s in hexadecimal', { r, s }],
    ['r and s with 0x and a recovery', { r: `0x${r}`, s: `0x${s}`, recoveryParam: 1 }],
    ['r and s in upper case', { r: r.toUpperCase(), s: s.toUpperCase() }],
    ['a high s in hexadecimal', { r, s: high.subarray(32).toString('hex') }]
  ])('returns the 64 bytes with low s, of %s', (_name, output) =>
    expect(Buffer.from(parseSignerOutput(output)!).toString('hex')).toBe(r + s)
  )

  it('restores leading zeros of r and s', () =>
    expect(Buffer.from(parseSignerOutput({ r: '0xabc', s: '1' })!).toString('hex')).toBe(
      'abc'.padStart(64, '0') + '1'.padStart(64, '0')
    ))

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['the empty string', ''],
    ['63 bytes', low.subarray(0, 63).toString('base64url')],
    ['66 bytes', Buffer.concat([low, Buffer.alloc(2)]).toString('base64url')],
    ['64 bytes in hexadecimal', low.toString('hex')],
    ['bytes', low],
    ['r alone', { r }],
    ['numbers', { r: 1, s: 1 }],
    ['bigints', { r: 1n, s: 1n }],
    ['an empty r', { r: '', s }],
    ['65 digits', { r: `${r}0`, s }],
    ['letters that are no digits', { r: 'xyz', s }],
    ['r = 0', { r: '0', s }],
    ['s = the order', { r, s: N.toString(16) }],
    ['64 zero bytes', Buffer.alloc(64).toString('base64url')]
  ])('returns undefined for %s', (_name, output) => expect(parseSignerOutput(output)).toBeUndefined())
})

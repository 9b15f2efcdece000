import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { decodeHex, decodeBase64url, encodeHex } from '../../src/protocol/encoding.js'
import { sampled } from '../support/fixtures/time-factor.js'

describe('decodeHex and encodeHex', () =>
  it('agree with the Buffer of Node, in either letter case', () =>
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const hex = Buffer.from(bytes).toString('hex')
        expect(encodeHex(bytes)).toBe(hex)
        expect(decodeHex(hex)).toEqual(bytes)
        expect(decodeHex(hex.toUpperCase())).toEqual(bytes)
      })
    )))

describe('decodeBase64url', () => {
  it.each([
    ['Zg', 'f'],
    ['Zm8', 'fo'],
    ['Zm9v', 'foo']
  ])('decodes %j to %j', (encoded, text) => expect(decodeBase64url(encoded)).toEqual(new TextEncoder().encode(text)))

  it.each([
    ['the empty string', ''],
    ['padding', 'Zg=='],
    ['one character', 'Z'],
    ['five characters', 'Zm9vY'],
    ['unused bits that are not zero', 'Zh'],
    ['the other alphabet', '+/+/'],
    ['a space', 'Zm 8'],
    ['a line feed at the end', 'Zm8\n'],
    ['a letter beyond ASCII', 'Zm9é']
  ])('returns undefined for %s', (_name, text) => expect(decodeBase64url(text)).toBeUndefined())

  it('agrees with the Buffer of Node on every text', () => {
    const letters = fc.constantFrom(...Array.from('ABCabcxyz0189-_gwQ'), '+', '/', '=', ' ', '\n', 'é', '€')
    const encoded = fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64url'))
    fc.assert(
      fc.property(fc.oneof(encoded, fc.string({ unit: letters, maxLength: 12 }), fc.string()), (text) => {
        const bytes = Buffer.from(text, 'base64url')
        const isCanonical = text !== '' && bytes.toString('base64url') === text
        expect(decodeBase64url(text)).toEqual(isCanonical ? Uint8Array.from(bytes) : undefined)
      }),
      { numRuns: sampled(200, 2_000) }
    )
  })
})

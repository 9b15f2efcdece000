import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { decodeBase64url } from '../../src/protocol/base64url.js'
import { encodeBase64url } from '../../src/protocol/encode-base64url.js'

describe('encodeBase64url', () => {
  // RFC 4648, section 10, without the padding; then the two characters in which the alphabets differ.
  it.each([
    ['', ''],
    ['f', 'Zg'],
    ['fo', 'Zm8'],
    ['foo', 'Zm9v'],
    ['foobar', 'Zm9vYmFy'],
    ['ü', 'w7w']
  ])('of the text %j is %j', (text, encoded) => {
    expect(encodeBase64url(text)).toBe(encoded)
  })

  it('uses - and _, and encodes only what a view shows of its buffer', () => {
    const buffer = new Uint8Array([0, 0xfb, 0xff, 0xbf, 0])
    expect(encodeBase64url(buffer.subarray(1, 4))).toBe('-_-_')
  })
})

describe('decodeBase64url', () => {
  it.each([
    ['Zg', 'f'],
    ['Zm8', 'fo'],
    ['Zm9v', 'foo']
  ])('of %j is %j', (encoded, text) => {
    expect(decodeBase64url(encoded)).toEqual(new TextEncoder().encode(text))
  })

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
  ])('is undefined for %s', (_name, text) => {
    expect(decodeBase64url(text)).toBeUndefined()
  })

  it('turns back what encodeBase64url made of any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1 }), (bytes) => {
        expect(Uint8Array.from(decodeBase64url(encodeBase64url(bytes))!)).toEqual(bytes)
      })
    )
  })

  it('agrees with the Buffer of Node on every text', () => {
    const letters = fc.constantFrom(...Array.from('ABCabcxyz0189-_gwQ'), '+', '/', '=', ' ', '\n', 'é', '€')
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: letters, maxLength: 12 }), fc.string()), (text) => {
        const bytes = Buffer.from(text, 'base64url')
        const isCanonical = text !== '' && bytes.toString('base64url') === text
        expect(decodeBase64url(text)).toEqual(isCanonical ? Uint8Array.from(bytes) : undefined)
      }),
      { numRuns: 2_000 }
    )
  })

  it('knows one spelling only of any bytes', () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const spellings = (text: string): string[] =>
      Array.from(alphabet).filter((last) => decodeBase64url(text + last) !== undefined)
    expect(spellings('Z')).toEqual(['A', 'Q', 'g', 'w'])
    expect(spellings('Zm')).toHaveLength(16)
    expect(spellings('Zm9')).toHaveLength(64)
  })
})

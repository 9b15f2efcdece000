import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { decodeBase64url, encodeBase64url } from '../../src/protocol/base64url.js'

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
    expect(decodeBase64url(encoded)?.toString()).toBe(text)
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

  it('knows one spelling only of any bytes', () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const spellings = Array.from(alphabet).filter((last) => decodeBase64url(`Z${last}`)?.toString() === 'f')
    expect(spellings).toEqual(['g'])
  })
})

import { describe, expect, it } from '@jest/globals'
import { parseDerSignature, parsePublicKey } from '../../src/protocol/der.js'
import { createStoredKey } from '../support/fixtures/stored-key.js'

const fromHex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'))
const parse = (text: string): string | undefined => {
  const signature = parseDerSignature(fromHex(text))
  return signature && Buffer.from(signature).toString('hex')
}
const [r, s] = ['7f'.repeat(32), 'ff'.repeat(32)]

describe('parseDerSignature', () => {
  it.each([
    ['two halves of 32 bytes', `3044 0220 ${r} 0220 ${r}`, r + r],
    ['a zero byte before a high first bit', `3046 0221 00${s} 0221 00${s}`, s + s],
    ['halves whose zero bytes DER omits', '3007 0202 0100 0201 05', `${'0'.repeat(60)}0100${'0'.repeat(62)}05`],
    [
      'a half of 31 bytes with a high first bit',
      `3026 0220 00${'ff'.repeat(31)} 0202 00ff`,
      `00${'ff'.repeat(31)}${'0'.repeat(62)}ff`
    ],
    ['zero, which a verifier refuses', '3006 0201 00 0201 00', '0'.repeat(128)]
  ])('pads %s', (_name, der, expected) => expect(parse(der)).toBe(expected))

  it.each([
    ['nothing', ''],
    ['a signature of JOSE', r + r],
    ['another tag', '3106 0201 01 0201 01'],
    ['bytes after the sequence', '3006 0201 01 0201 01 00'],
    ['bytes within the sequence', '3007 0201 01 0201 01 00'],
    ['a sequence that ends early', '3006 0201 01 0202 01'],
    ['one integer', '3003 0201 01'],
    ['an empty integer', '3005 0200 0201 01'],
    ['a negative integer', '3006 0201 80 0201 01'],
    ['a needless zero byte', '3007 0202 0001 0201 01'],
    ['an integer of 33 bytes', `3026 0221 01${s} 0201 01`],
    ['a length in two bytes', '308106 0201 01 0201 01']
  ])('refuses %s', (_name, der) => expect(parse(der)).toBeUndefined())

  it.each([undefined, '3006020101020101', [0x30]])('refuses %j, which is no bytes', (value) =>
    expect(parseDerSignature(value)).toBeUndefined()
  )
})

describe('parsePublicKey', () => {
  const key = createStoredKey('secp256k1', 1)
  const point = Uint8Array.from(key.der.subarray(-65))

  it('reads a key of secp256k1 and of P-256, from DER and PEM', () => {
    expect(parsePublicKey(key.der)).toEqual({ curve: 'secp256k1', point })
    expect(parsePublicKey(key.pem)).toEqual({ curve: 'secp256k1', point })
    expect(parsePublicKey(key.pem.replaceAll('\n', '\r\n'))).toEqual({ curve: 'secp256k1', point })
    expect(parsePublicKey(createStoredKey('P-256', 1).pem)?.curve).toBe('P-256')
  })

  it.each([
    ['a point without SubjectPublicKeyInfo', point],
    ['a compressed point', fromHex(`3036301006072a8648ce3d020106052b8104000a032200 02${'11'.repeat(32)}`)],
    ['a byte after the point', Uint8Array.of(...key.der, 0)],
    ['a private key', key.pem.replaceAll('PUBLIC', 'PRIVATE')],
    ['PEM with other letters', key.pem.replace('\n', '\n!')],
    ['PEM that is no Base64', '-----BEGIN PUBLIC KEY-----\nA\n-----END PUBLIC KEY-----\n'],
    ['an empty text', ''],
    ['nothing', undefined]
  ])('refuses %s', (_name, value) => expect(parsePublicKey(value)).toBeUndefined())
})

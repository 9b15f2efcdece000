import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { addressOfDid, isDid, isEthrDid } from '../../src/protocol/did.js'
import { refusal } from '../support/fixtures/refusal.js'

const isLetter = (char: string): boolean => (char >= 'a' && char <= 'z') || (char >= 'A' && char <= 'Z')
const isDigit = (char: string): boolean => char >= '0' && char <= '9'
const isHexDigit = (char: string): boolean =>
  isDigit(char) || (char >= 'a' && char <= 'f') || (char >= 'A' && char <= 'F')

/** The grammar of W3C DID Core 1.0, section 3.1, read character by character. */
function scanDid(text: string): boolean {
  if (text.length > 128 || text.slice(0, 4) !== 'did:') return false
  let at = 4
  while (at < text.length && ((text[at]! >= 'a' && text[at]! <= 'z') || isDigit(text[at]!))) at += 1
  if (at === 4 || text[at] !== ':') return false
  at += 1
  let idChars = 0
  while (at < text.length) {
    const char = text[at]!
    if (char === ':') {
      idChars = 0
      at += 1
    } else if (char === '%') {
      if (at + 2 >= text.length || !isHexDigit(text[at + 1]!) || !isHexDigit(text[at + 2]!)) return false
      idChars += 1
      at += 3
    } else if (isLetter(char) || isDigit(char) || char === '.' || char === '-' || char === '_') {
      idChars += 1
      at += 1
    } else return false
  }
  return idChars > 0
}

/** Returns the address or public key of a did:ethr, or undefined. */
function scanEthrKey(text: string): string | undefined {
  const [scheme, method, ...rest] = text.split(':')
  const key = rest.pop() ?? ''
  if (scheme !== 'did' || method !== 'ethr' || rest.length > 2) return undefined
  const isName = (name: string): boolean =>
    name !== '' &&
    isLetter(name[0]!) &&
    Array.from(name).every((c) => isLetter(c) || isDigit(c) || c === '_' || c === '-')
  const isChainId = (name: string): boolean =>
    name.length >= 3 && name.length <= 18 && name.startsWith('0x') && Array.from(name.slice(2)).every(isHexDigit)
  const isNetwork = rest.every(isName) || (rest.length === 1 && isChainId(rest[0]!))
  const isHex = key[0] === '0' && 'xX'.includes(key[1] ?? '-') && Array.from(key.slice(2)).every(isHexDigit)
  const isKey = key.length === 42 || (key.length === 68 && key[2] === '0' && '23'.includes(key[3]!))
  return isNetwork && isHex && isKey ? key.toLowerCase() : undefined
}

const hex = (length: number) =>
  fc.string({ unit: fc.constantFrom(...Array.from('0123456789abcdefABCDEF')), minLength: length, maxLength: length })
const idString = fc.string({
  unit: fc.constantFrom(...Array.from('abzAZ019._-:%'), '%2F', '%0a', '0x', 'é', '\n', ' ', '/', '#', '１'),
  maxLength: 40
})
const network = fc.constantFrom(
  '',
  'rsk:',
  'rsk:testnet:',
  'sepolia:',
  '0x1e:',
  '0x:',
  'a:b:c:',
  '1:',
  'rsk:0x1e:',
  ':'
)
const publicKeyDigits = fc
  .tuple(fc.constantFrom('02', '03', '02', '03', '04', '12'), hex(64))
  .map((parts) => parts.join(''))
const ethrDid = fc
  .tuple(network, fc.oneof(hex(40), publicKeyDigits))
  .map(([name, digits]) => `did:ethr:${name}0x${digits}`)
const anyDid = fc
  .tuple(fc.constantFrom('ethr', 'key', 'web', '0', '', 'Ethr'), idString)
  .map(([m, id]) => `did:${m}:${id}`)
const longDid = fc.integer({ min: 118, max: 126 }).map((length) => `did:a:${'b'.repeat(length)}`)
const mutated = fc
  .tuple(
    fc.oneof(ethrDid, anyDid, longDid),
    fc.nat(),
    fc.constantFrom('', ':', '%', 'g', 'G', '0', '.', '\n', ' ', 'é', '%4', '%4a', '\u0000', '\ud800'),
    fc.integer({ min: 0, max: 2 })
  )
  .map(([did, at, text, cut]) => {
    const start = at % (did.length + 1)
    return did.slice(0, start) + text + did.slice(start + cut)
  })

describe('the grammar of DIDs (F10)', () => {
  it('agrees with a handwritten scanner on 10,000 generated strings, and throws nothing else', () => {
    const counts = { did: 0, address: 0, publicKey: 0, neither: 0 }
    const classify = (text: string, key: string | undefined): keyof typeof counts =>
      key === undefined ? (scanDid(text) ? 'did' : 'neither') : key.length === 42 ? 'address' : 'publicKey'
    fc.assert(
      fc.property(fc.oneof(ethrDid, anyDid, longDid, mutated, idString, fc.string()), (text) => {
        const key = scanEthrKey(text)
        const kind = classify(text, key)
        counts[kind] += 1
        expect(isDid(text)).toBe(scanDid(text))
        expect(isEthrDid(text)).toBe(key !== undefined)
        if (kind === 'address') expect(addressOfDid(text)).toBe(key)
        else expect(() => addressOfDid(text)).toThrow(refusal('ERR_DID_UNSUPPORTED'))
      }),
      { numRuns: 10_000 }
    )
    // Fails if the generators miss a kind.
    expect(Math.min(...Object.values(counts))).toBeGreaterThan(200)
  })
})

import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { addressOfDid, canonicalDid, chainIdOfDid, isDid, isEthrDid, parseDid } from '../../src/protocol/did.js'
import { refusal } from '../support/refusal.js'

const ADDRESS = '0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'
const EIP_55 = '0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf'

describe('parseDid', () => {
  it.each([
    `did:ethr:${ADDRESS}`,
    `did:ethr:rsk:${EIP_55}`,
    'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
    'did:web:example.com%3A8443:user:alice',
    'did:a:b',
    'did:0:-',
    'did:a:::b',
    'did:a:%2f',
    `did:a:${'b'.repeat(122)}`
  ])('returns %s as it is', (did) => {
    expect(parseDid(did)).toBe(did)
  })

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a number', 5],
    ['an array', ['did:a:b']],
    ['an object that reads like one', { toString: () => 'did:a:b' }],
    ['a String object', Object('did:a:b')],
    ['the empty string', ''],
    ['no method', 'did::b'],
    ['no identifier', 'did:a:'],
    ['no second colon', 'did:a'],
    ['a colon at the end', 'did:a:b:'],
    ['a method in upper case', 'did:Ethr:b'],
    ['a scheme in upper case', 'DID:a:b'],
    ['a space in front', ' did:a:b'],
    ['a line feed at the end', 'did:a:b\n'],
    ['a path', 'did:a:b/c'],
    ['a query', 'did:a:b?c'],
    ['a fragment', 'did:a:b#c'],
    ['a percent sign alone', 'did:a:b%'],
    ['half an escape', 'did:a:b%2'],
    ['an escape that is none', 'did:a:b%2g'],
    ['a letter beyond ASCII', 'did:a:bé'],
    ['a full-width digit', 'did:a:１'],
    ['a NUL', 'did:a:b\0'],
    ['129 characters', `did:a:${'b'.repeat(123)}`]
  ])('refuses %s', (_name, value) => {
    expect(() => parseDid(value)).toThrow(refusal('ERR_DID'))
  })

  it('is not slowed down by 1 MB', () => {
    expect(isDid(`did:a:${':'.repeat(1_000_000)}`)).toBe(false)
  })
})

describe('canonicalDid', () => {
  it('is one for every letter case of an address and a network', () => {
    expect(canonicalDid(`did:ethr:RSK:${EIP_55}`)).toBe(`did:ethr:rsk:${ADDRESS}`)
    expect(canonicalDid(`did:ethr:rsk:${ADDRESS}`)).toBe(`did:ethr:rsk:${ADDRESS}`)
  })

  it('keeps two networks apart', () => {
    expect(canonicalDid(`did:ethr:rsk:${ADDRESS}`)).not.toBe(canonicalDid(`did:ethr:rsk:testnet:${ADDRESS}`))
  })
})

describe('addressOfDid', () => {
  it.each([
    ['no network', `did:ethr:${ADDRESS}`],
    ['one name', `did:ethr:rsk:${ADDRESS}`],
    ['two names', `did:ethr:rsk:testnet:${ADDRESS}`],
    ['a name with a hyphen, a digit and an underscore', `did:ethr:arbitrum-one_2:${ADDRESS}`],
    ['a chain id', `did:ethr:0x1e:${ADDRESS}`],
    ['a chain id of 16 digits', `did:ethr:0xffffffffffffffff:${ADDRESS}`],
    ['EIP-55 spelling', `did:ethr:rsk:${EIP_55}`],
    ['a wrong checksum, which nobody asks for', `did:ethr:rsk:${ADDRESS.replace('b8c', 'B8c')}`],
    ['upper case throughout', `did:ethr:rsk:${ADDRESS.toUpperCase()}`]
  ])('knows the address, in lower case, of a did:ethr with %s', (_name, did) => {
    expect(addressOfDid(did)).toBe(ADDRESS)
    expect(isEthrDid(did)).toBe(true)
  })

  it.each([
    ['another method', 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK'],
    ['a public key', 'did:ethr:rsk:0x03fdd57adec3d438ea237fe46b33ee1e016eda6b585c3e27ea66686c2ea5358479'],
    ['39 digits', `did:ethr:${ADDRESS.slice(0, -1)}`],
    ['41 digits', `did:ethr:${ADDRESS}0`],
    ['no 0x', `did:ethr:${ADDRESS.slice(2)}`],
    ['a letter that is no digit', `did:ethr:${ADDRESS.slice(0, -1)}g`],
    ['three names', `did:ethr:a:b:c:${ADDRESS}`],
    ['a name and a chain id', `did:ethr:rsk:0x1e:${ADDRESS}`],
    ['a chain id and a name', `did:ethr:0x1e:rsk:${ADDRESS}`],
    ['an empty name', `did:ethr::${ADDRESS}`],
    ['a name that starts with a digit', `did:ethr:1e:${ADDRESS}`],
    ['a chain id without digits', `did:ethr:0x:${ADDRESS}`],
    ['a chain id of 17 digits', `did:ethr:0x1ffffffffffffffff:${ADDRESS}`],
    ['a method that only starts alike', `did:ethrx:${ADDRESS}`],
    ['something behind the address', `did:ethr:${ADDRESS}:x`],
    ['a line feed at the end', `did:ethr:${ADDRESS}\n`]
  ])('refuses %s', (_name, did) => {
    expect(() => addressOfDid(did)).toThrow(refusal('ERR_DID_UNSUPPORTED'))
    expect(isEthrDid(did)).toBe(false)
  })
})

describe('chainIdOfDid', () => {
  it.each([
    [`did:ethr:${ADDRESS}`, 1],
    [`did:ethr:mainnet:${ADDRESS}`, 1],
    [`did:ethr:rsk:${ADDRESS}`, 30],
    [`did:ethr:RSK:${ADDRESS}`, 30],
    [`did:ethr:rsk:testnet:${ADDRESS}`, 31],
    [`did:ethr:0x1e:${ADDRESS}`, 30],
    [`did:ethr:0x5:${ADDRESS}`, 5],
    [`did:ethr:sepolia:${ADDRESS}`, undefined]
  ])('of %s is %s', (did, chainId) => {
    expect(chainIdOfDid(did)).toBe(chainId)
  })
})

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

/** The address of a did:ethr by its parts, or undefined. */
function scanEthrAddress(text: string): string | undefined {
  const [scheme, method, ...rest] = text.split(':')
  const address = rest.pop() ?? ''
  if (scheme !== 'did' || method !== 'ethr' || rest.length > 2) return undefined
  const isName = (name: string): boolean =>
    name !== '' &&
    isLetter(name[0]!) &&
    Array.from(name).every((c) => isLetter(c) || isDigit(c) || c === '_' || c === '-')
  const isChainId = (name: string): boolean =>
    name.length >= 3 && name.length <= 18 && name.startsWith('0x') && Array.from(name.slice(2)).every(isHexDigit)
  const isNetwork = rest.every(isName) || (rest.length === 1 && isChainId(rest[0]!))
  const isAddress =
    address.length === 42 &&
    address[0] === '0' &&
    'xX'.includes(address[1]!) &&
    Array.from(address.slice(2)).every(isHexDigit)
  return isNetwork && isAddress ? address.toLowerCase() : undefined
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
const ethrDid = fc.tuple(network, hex(40)).map(([name, digits]) => `did:ethr:${name}0x${digits}`)
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
  it('gives the verdict of a scanner written by hand on 10,000 generated strings, and throws nothing else', () => {
    const seen = { did: 0, ethr: 0, neither: 0 }
    fc.assert(
      fc.property(fc.oneof(ethrDid, anyDid, longDid, mutated, idString, fc.string()), (text) => {
        const address = scanEthrAddress(text)
        const isReferenceDid = scanDid(text)
        seen[address !== undefined ? 'ethr' : isReferenceDid ? 'did' : 'neither'] += 1
        expect(isDid(text)).toBe(isReferenceDid)
        expect(isEthrDid(text)).toBe(address !== undefined)
        if (address !== undefined) expect(addressOfDid(text)).toBe(address)
        else expect(() => addressOfDid(text)).toThrow(refusal('ERR_DID_UNSUPPORTED'))
      }),
      { numRuns: 10_000 }
    )
    // Else the generators have gone blind.
    expect(Math.min(seen.did, seen.ethr, seen.neither)).toBeGreaterThan(500)
  })
})

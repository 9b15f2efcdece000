import { describe, expect, it } from '@jest/globals'
import { parseResolution } from '../../src/adapters/did-document.js'
import { refusal, createThrowing } from '../support/fixtures/refusal.js'

const DID = 'did:web:issuer.example'
const ADDRESS = '0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'
const KEY = { id: `${DID}#k`, kind: 'address', hex: ADDRESS.slice(2) }
const method = (id: string): Record<string, unknown> => ({ id, ethereumAddress: ADDRESS })
const parse = (result: unknown, did = DID): unknown => parseResolution(did, result, 'assertionMethod').keys
const parseKeys = (didDocument: unknown): unknown => parse({ didDocument })
const unproved = refusal('ERR_CREDENTIAL_ISSUER')
const outOfReach = refusal('ERR_RESOLVER')

/** Returns the message in the log. */
function readReason(didDocument: unknown): unknown {
  try {
    return parseKeys(didDocument)
  } catch (error) {
    return ((error as Error).cause as Error).message
  }
}

describe('parseResolution', () => {
  it('reads the authentication keys if they are requested', () => {
    const didDocument = { assertionMethod: [method('#a')], authentication: [method('#k')] }
    expect(parseResolution(DID, { didDocument }, 'authentication').keys).toEqual([KEY])
  })

  it('finds a key by its absolute and relative id, however it is listed', () => {
    for (const id of ['#k', `${DID}#k`]) {
      for (const reference of ['#k', `${DID}#k`]) {
        expect(parseKeys({ verificationMethod: [method(id)], assertionMethod: [reference] })).toEqual([KEY])
      }
    }
  })

  it('uses the first of two methods with one id, and each method once', () => {
    const verificationMethod = [method('#k'), { id: '#k', ethereumAddress: ADDRESS.replace('7e', '00') }]
    expect(parseKeys({ verificationMethod, assertionMethod: ['#k', `${DID}#k`, '#k'] })).toEqual([KEY])
  })

  it('accepts 100 verification methods, listed and embedded ones together, and refuses 101', () => {
    const listed = Array.from({ length: 60 }, (_, at) => method(`#${String(at)}`))
    const embedded = (count: number): unknown[] => Array.from({ length: count }, () => method('#e'))
    const references = listed.map(({ id }) => id)
    const createDocument = (count: number): object => ({
      verificationMethod: listed,
      assertionMethod: [...references, ...embedded(count)]
    })
    expect(parseKeys(createDocument(40))).toHaveLength(100)
    expect(() => parseKeys(createDocument(41))).toThrow(unproved)
    expect(readReason(createDocument(41))).toBe('the DID is not accepted: it has more than 100 methods')
  })

  it('accepts a document of 64 KiB of JSON, and refuses one more byte', () => {
    const createDocument = (length: number, filler: (length: number) => unknown): object => {
      const document = { assertionMethod: [method('#k')], 'a"b': [1.5, null, true, [], {}, 'ü"'], filler: filler(0) }
      const left = length - Buffer.byteLength(JSON.stringify(document))
      return { ...document, filler: filler(left) }
    }
    const text = (length: number): string => 'x'.repeat(length)
    // Each element takes two bytes, including the comma.
    const list = (length: number): number[] => Array<number>(Math.floor(length / 2) + 1).fill(0)
    for (const filler of [text, list]) {
      const largest = createDocument(65_536, filler)
      expect(Math.abs(Buffer.byteLength(JSON.stringify(largest)) - 65_536)).toBeLessThanOrEqual(1)
      expect(parseKeys(largest)).toEqual([KEY])
      expect(readReason(createDocument(65_538, filler))).toBe(
        'the DID is not accepted: its document has more than 64 KiB, or cannot be read'
      )
    }
    expect(readReason(createDocument(65_537, text))).toBe(
      'the DID is not accepted: its document has more than 64 KiB, or cannot be read'
    )
  })

  it('stops reading a larger document at 64 KiB', () => {
    let reads = 0
    const element = { toJSON: () => (reads += 1) }
    expect(readReason({ assertionMethod: [method('#k')], list: Array(200_000).fill(element) })).toContain('64 KiB')
    expect(reads).toBeLessThan(65_536)
  })

  it('treats a document with a cycle as too large', () => {
    const document: Record<string, unknown> = { assertionMethod: [method('#k')] }
    document.self = document
    expect(readReason(document)).toBe('the DID is not accepted: its document has more than 64 KiB, or cannot be read')
    const list: unknown[] = []
    list.push(list)
    expect(readReason({ assertionMethod: [method('#k')], list })).toContain('more than 64 KiB')
  })

  it('does not prove an issuer whose document throws when it is read', () => {
    const broken = { ...method('#k') }
    Object.defineProperty(broken, 'publicKeyJwk', { enumerable: true, get: createThrowing(new Error('no')) })
    expect(readReason({ assertionMethod: [broken] })).toBe(
      'the DID is not accepted: its document has more than 64 KiB, or cannot be read'
    )
  })

  it.each([
    [
      'only keys that we do not verify with',
      { assertionMethod: [{ publicKeyJwk: { kty: 'RSA', n: 'AQAB', e: 'AQAB' } }] }
    ],
    ['no methods', {}],
    ['a key for authentication only', { verificationMethod: [method('#k')], authentication: ['#k'] }],
    ['methods that are no list', { verificationMethod: 'all', assertionMethod: 5 }],
    ['methods that are no objects', { verificationMethod: [null, 'x', []], assertionMethod: [null, [], 7, 'x'] }],
    ['a method without a name', { verificationMethod: [{ ethereumAddress: ADDRESS }], assertionMethod: ['undefined'] }]
  ])('does not prove an issuer with %s', (_name, didDocument) =>
    expect(readReason(didDocument)).toBe('the DID is not accepted: it has no key for this purpose')
  )

  it.each(['invalidDid', 'unsupportedDidMethod', 'methodNotSupported', 'unknownNetwork', 'notFound'])(
    'treats the error %s as an unproved issuer',
    (error) => expect(() => parse({ didResolutionMetadata: { error }, didDocument: null })).toThrow(unproved)
  )

  it.each([
    ['an unknown error', { didResolutionMetadata: { error: 'internalError' }, didDocument: null }],
    [
      'an error with a document',
      { didResolutionMetadata: { error: 'stale' }, didDocument: { assertionMethod: [method('#k')] } }
    ],
    ['nothing', undefined],
    ['null', null],
    ['a string', 'document'],
    ['an empty object', {}],
    ['a document that is an array', { didDocument: [] }]
  ])('treats %s as an unavailable resolver', (_name, answer) => expect(() => parse(answer)).toThrow(outOfReach))

  it('treats notFound of a did:ethr as an unavailable chain, because every did:ethr exists', () => {
    const answer = { didResolutionMetadata: { error: 'notFound' }, didDocument: null }
    expect(() => parse(answer, `did:ethr:rsk:${ADDRESS}`)).toThrow(outOfReach)
  })
})

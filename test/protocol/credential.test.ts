import { describe, expect, it } from '@jest/globals'
import type { SelectiveDisclosureResponse } from 'express-did-auth'
import { parseCredential, parseCredentialJwts } from '../../src/protocol/credential.js'
import {
  createCredentialJwt,
  createCredentialPayload,
  didJwtVcCredential,
  es256kBy,
  es256kRecoverableBy,
  jwtByHand,
  p256Key,
  signUp
} from '../support/fixtures/credentials.js'
import { refusal } from '../support/fixtures/refusal.js'
import { testApp } from '../support/servers/test-app.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const user = createNumberedWallet(1)
const issuer = createNumberedWallet(6001)
const stranger = createNumberedWallet(6002)
const sign = es256kBy(issuer.privateKey)
const day = 86_400
const SECP256K1_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const P_256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

const validPayload = createCredentialPayload(issuer.did, user.did)
const parse = (jwt: string) => parseCredential(jwt, user.did, START_SECONDS).credential
const accepts = async (jwt: string): Promise<unknown> => parse(jwt)
const refuses = (jwt: string, code: 'ERR_CREDENTIAL' | 'ERR_CREDENTIAL_EXPIRED' = 'ERR_CREDENTIAL'): Promise<void> =>
  expect(accepts(jwt)).rejects.toEqual(refusal(code))
const withVc = (changes: object): string =>
  createCredentialJwt(issuer, user.did, { vc: { ...validPayload.vc, ...changes } })

describe('a credential of did-jwt-vc', () => {
  it.each(['ES256K', 'ES256K-R'] as const)('reaches business logic decoded and as received, with %s', async (alg) => {
    const received: SelectiveDisclosureResponse[] = []
    const { app } = await testApp({ signupBusinessLogic: (response) => void received.push(response) })
    const jwt = await didJwtVcCredential(issuer, user.did, alg)
    expect((await signUp(app, user, { credentials: [jwt] })).status).toBe(200)
    expect(received[0]?.credentials).toEqual([
      {
        jwt,
        issuer: issuer.did,
        subject: user.did,
        type: ['VerifiableCredential', 'Email'],
        credentialSubject: { email: 'alice@example.org' },
        // 2028-01-01T00:00:00Z
        expiresAtSeconds: 1_830_297_600,
        vc: {
          '@context': ['https://www.w3.org/2018/credentials/v1'],
          type: ['VerifiableCredential', 'Email'],
          credentialSubject: { email: 'alice@example.org' }
        }
      }
    ])
  })
})

describe('the header of a credential', () => {
  const withHeader = (header: unknown): string => jwtByHand(header, validPayload, sign)

  it.each([
    ['alg alone', { alg: 'ES256K' }],
    ['alg and typ', { alg: 'ES256K', typ: 'JWT' }],
    ['a kid', { alg: 'ES256K', typ: 'JWT', kid: `${issuer.did}#controller` }]
  ])('may contain %s', (_name, header) => accepts(withHeader(header)))

  it.each([
    ['no alg', { typ: 'JWT' }],
    ['alg none', { alg: 'none', typ: 'JWT' }],
    ['alg in lower case', { alg: 'es256k' }],
    ['alg HS256', { alg: 'HS256' }],
    ['alg RS256', { alg: 'RS256' }],
    ['alg Ed25519', { alg: 'Ed25519' }],
    ['alg that is a list', { alg: ['ES256K'] }],
    ['alg of a prototype', { alg: 'constructor' }],
    ['another typ', { alg: 'ES256K', typ: 'JWS' }],
    ['typ in lower case', { alg: 'ES256K', typ: 'jwt' }],
    ['typ null', { alg: 'ES256K', typ: null }],
    ['a kid that is a number', { alg: 'ES256K', kid: 1 }],
    ['crit', { alg: 'ES256K', crit: ['exp'] }],
    ['empty crit', { alg: 'ES256K', crit: [] }],
    ['b64', { alg: 'ES256K', b64: false }],
    ['jwk', { alg: 'ES256K', jwk: { kty: 'EC', crv: 'secp256k1' } }],
    ['jku', { alg: 'ES256K', jku: 'https://evil.example/keys' }],
    ['x5c', { alg: 'ES256K', x5c: [] }],
    ['x5u', { alg: 'ES256K', x5u: 'https://evil.example/cert' }],
    ['cty', { alg: 'ES256K', cty: 'JWT' }],
    ['zip', { alg: 'ES256K', zip: 'DEF' }],
    ['anything else', { alg: 'ES256K', note: 'hello' }]
  ])('must not contain %s', (_name, header) => refuses(withHeader(header)))

  it.each([
    ['a list', [{ alg: 'ES256K' }]],
    ['null', null],
    ['a string', 'ES256K']
  ])('must not be %s', (_name, header) => refuses(withHeader(header)))
})

describe('the field credentials of parseCredentialJwts', () => {
  const jwt = createCredentialJwt(issuer, user.did)
  const [header = '', payload = '', signature = ''] = jwt.split('.')
  const jwtOfLength = (length: number): string => `${jwt}${'A'.repeat(length - jwt.length)}`

  it('may be missing, and contains at most 20 compact JWTs of 16 KiB', () => {
    expect(parseCredentialJwts(undefined)).toEqual([])
    const largest = Array<string>(20).fill(jwtOfLength(16_384))
    expect(parseCredentialJwts(largest)).toEqual(largest)
  })

  it.each<[string, unknown]>([
    ['null', null],
    ['a string', jwt],
    ['an object', { 0: jwt, length: 1 }],
    ['a number', 1],
    ['21 credentials', Array(21).fill(jwt)],
    ['one of 16,385 bytes', [jwtOfLength(16_385)]],
    ['a list with null', [null]],
    ['a list in a list', [[jwt]]],
    ['a list with one good and one empty string', [jwt, '']],
    ...[`${header}.${payload}`, `${jwt}.${signature}`, `${header}..${signature}`, `${header}.${payload}.`].map(
      (parts): [string, unknown] => ['one of other parts', [parts]]
    ),
    ['padding', [`${jwt}==`]],
    ['the other alphabet', [`${header}.${payload}.+/${signature.slice(2)}`]],
    ['a blank', [`${header}.${payload}. ${signature}`]],
    ['a line feed at the end', [`${jwt}\n`]],
    ['a comma', [`${jwt},${jwt}`]],
    ['dots alone', ['..']]
  ])('must not be %s', (_name, value) => expect(() => parseCredentialJwts(value)).toThrow(refusal('ERR_REQUEST')))

  it('must not have a header with unused bits', () => refuses(`${header.slice(0, -1)}1.${payload}.${signature}`))

  // (r, n - s) verifies like (r, s), so that one credential was two texts to business logic.
  it.each(['ES256K', 'ES256K-R', 'ES256'])('is the same text for both forms of a %s signature', (alg) => {
    const signBy = { ES256: p256Key().sign, ES256K: sign, 'ES256K-R': es256kRecoverableBy(issuer.privateKey) }[alg]!
    const order = alg === 'ES256' ? P_256_ORDER : SECP256K1_ORDER
    const jwt = jwtByHand({ alg }, validPayload, signBy)
    const end = jwt.lastIndexOf('.') + 1
    const bytes = Buffer.from(jwt.slice(end), 'base64url')
    const otherS = (order - BigInt(`0x${bytes.toString('hex', 32, 64)}`)).toString(16).padStart(64, '0')
    const recovery = bytes.subarray(64).map((bit) => 1 - bit)
    const twin = Buffer.concat([bytes.subarray(0, 32), Buffer.from(otherS, 'hex'), recovery])
    const both = [jwt, jwt.slice(0, end) + twin.toString('base64url')]
    const texts = both.map((each) => parse(each).jwt)
    expect(texts[0]).toBe(texts[1])
    expect(both).toContain(texts[0])
  })
})

describe('the issuer of a credential', () => {
  it.each([
    ['absent', undefined],
    ['null', null],
    ['a list', [issuer.did]],
    ['an object', { id: issuer.did }],
    ['no DID', issuer.address],
    ['a DID with a fragment', `${issuer.did}#controller`]
  ])('must not be %s', (_name, iss) => refuses(createCredentialJwt(issuer, user.did, { iss })))

  it('may be repeated in vc, as text or object', async () => {
    for (const named of [issuer.did, { id: issuer.did, name: 'Post office' }]) await accepts(withVc({ issuer: named }))
  })

  it.each([
    ['another DID', stranger.did],
    ['an object with another DID', { id: stranger.did }],
    ['an object without a DID', { name: 'Post office' }],
    ['null', null],
    ['a list', [issuer.did]]
  ])('must not contradict vc by %s', (_name, named) => refuses(withVc({ issuer: named })))
})

describe('the vc of a credential', () => {
  it.each([
    ['absent', undefined],
    ['null', null],
    ['a list', [validPayload.vc]],
    ['a string', 'vc']
  ])('must not be %s', (_name, vc) => refuses(createCredentialJwt(issuer, user.did, { vc })))

  it.each([
    ['no type', { type: undefined }],
    ['an empty type', { type: [] }],
    ['a type without VerifiableCredential', { type: ['Email'] }],
    ['a type with a number', { type: ['VerifiableCredential', 5] }],
    ['no subject', { credentialSubject: undefined }],
    ['a subject that is text', { credentialSubject: user.did }],
    ['a list of subjects', { credentialSubject: [{ id: user.did }] }]
  ])('must not have %s', (_name, changes) => refuses(withVc(changes)))

  it('may have its type as a string', () =>
    expect(parse(withVc({ type: 'VerifiableCredential' })).type).toEqual(['VerifiableCredential']))
})

describe('the subject of a credential', () => {
  const subjects = (sub: unknown, id: unknown): string =>
    createCredentialJwt(issuer, user.did, {
      sub,
      vc: { ...validPayload.vc, credentialSubject: { id, email: 'alice@example.org' } }
    })

  it.each([
    ['sub alone', user.did, undefined],
    ['credentialSubject.id alone', undefined, user.did],
    ['both', user.did, user.did]
  ])('may be given by %s', (_name, sub, id) => expect(parse(subjects(sub, id)).subject).toBe(user.did))

  it('may be missing, or the user in another spelling, which is preserved', () => {
    expect(parse(subjects(undefined, undefined))).toHaveProperty('subject', undefined)
    const spelled = `did:ethr:rsk:${user.address}`
    expect(parse(subjects(spelled, undefined)).subject).toBe(spelled)
  })

  it.each([
    ['somebody else in sub', stranger.did, user.did],
    ['somebody else in credentialSubject.id', user.did, stranger.did],
    ['somebody else in both', stranger.did, stranger.did],
    ['the same address on another network', user.did.replace('rsk', 'rsk:testnet'), undefined],
    ['empty', '', undefined],
    ['null', null, undefined],
    ['null in credentialSubject.id', user.did, null],
    ['a list', [user.did], undefined],
    ['the address without the DID', undefined, user.address]
  ])('must not be %s', (_name, sub, id) => refuses(subjects(sub, id)))
})

// The test's clock shows 2027-01-15T08:00:00Z.
describe('the dates of a credential', () => {
  const dated = (payload: Record<string, unknown>, vc: Record<string, unknown> = {}): string =>
    createCredentialJwt(issuer, user.did, {
      nbf: undefined,
      exp: undefined,
      ...payload,
      vc: { ...validPayload.vc, ...vc }
    })

  it('may all be missing: the credential never expires', () =>
    expect(parse(dated({}))).toHaveProperty('expiresAtSeconds', undefined))

  it.each([
    ['exp', dated({ exp: START_SECONDS })],
    ['exp with a fraction', dated({ exp: START_SECONDS - 0.5 })],
    ['exp long ago', dated({ exp: 0 })],
    ['expirationDate', dated({}, { expirationDate: '2027-01-15T08:00:00Z' })],
    ['validUntil', dated({}, { validUntil: '2027-01-15T08:00:00Z' })],
    ['validUntil with an offset', dated({}, { validUntil: '2027-01-15T10:00:00+02:00' })],
    [
      'expirationDate, though exp is later',
      dated({ exp: START_SECONDS + day }, { expirationDate: '2027-01-14T00:00:00Z' })
    ],
    [
      'exp, though expirationDate is later',
      dated({ exp: START_SECONDS - day }, { expirationDate: '2028-01-14T00:00:00Z' })
    ]
  ])('make it expired by %s', (_name, jwt) => refuses(jwt, 'ERR_CREDENTIAL_EXPIRED'))

  it.each([
    ['exp', dated({ exp: START_SECONDS + 1 })],
    ['expirationDate', dated({}, { expirationDate: '2027-01-15T08:00:01Z' })],
    ['validUntil with an offset', dated({}, { validUntil: '2027-01-15T10:00:01+02:00' })]
  ])('keep it valid in its last second by %s, and return the expiry', (_name, jwt) =>
    expect(parse(jwt).expiresAtSeconds).toBe(1_800_000_001)
  )

  it('give the earliest of several expiries', () => {
    const ends = { expirationDate: '2027-01-17T08:00:00Z', validUntil: '2027-01-16T08:00:00.500Z' }
    expect(parse(dated({ exp: START_SECONDS + 3 * day }, ends)).expiresAtSeconds).toBe(1_800_086_400.5)
  })

  it.each([
    ['nbf', dated({ nbf: START_SECONDS + 6 })],
    ['iat, where there is no nbf', dated({ iat: START_SECONDS + 6 })],
    ['issuanceDate', dated({}, { issuanceDate: '2027-01-15T08:00:06Z' })],
    ['validFrom', dated({}, { validFrom: '2027-01-15T08:00:06Z' })]
  ])('make it not yet valid by %s', (_name, jwt) => refuses(jwt))

  it.each([
    ['nbf', dated({ nbf: START_SECONDS + 5 })],
    ['iat in addition to an nbf', dated({ nbf: START_SECONDS, iat: START_SECONDS + 6 })],
    ['issuanceDate', dated({}, { issuanceDate: '2027-01-15T08:00:05Z' })],
    ['validFrom in lower case', dated({}, { validFrom: '2027-01-15t08:00:05z' })]
  ])('allow another clock to be 5 s ahead by %s', (_name, jwt) => accepts(jwt))

  it.each([
    ['exp as text', dated({ exp: '1900000000' })],
    ['exp null', dated({ exp: null })],
    ['exp true', dated({ exp: true })],
    ['nbf as text', dated({ nbf: '0' })],
    ['nbf null', dated({ nbf: null })],
    ['iat as text', dated({ iat: '0' })],
    ['expirationDate as a number', dated({}, { expirationDate: 1_900_000_000 })],
    ['expirationDate null', dated({}, { expirationDate: null })],
    ['expirationDate empty', dated({}, { expirationDate: '' })],
    ['a date without time', dated({}, { expirationDate: '2028-01-01' })],
    ['a time without offset', dated({}, { expirationDate: '2028-01-01T00:00:00' })],
    ['a blank for the T', dated({}, { expirationDate: '2028-01-01 00:00:00Z' })],
    ['30 February', dated({}, { expirationDate: '2028-02-30T00:00:00Z' })],
    ['29 February of a common year', dated({}, { expirationDate: '2027-02-29T00:00:00Z' })],
    ['31 April', dated({}, { expirationDate: '2028-04-31T00:00:00Z' })],
    ['month 13', dated({}, { expirationDate: '2028-13-01T00:00:00Z' })],
    ['hour 24', dated({}, { expirationDate: '2028-01-01T24:00:00Z' })],
    ['minute 60', dated({}, { expirationDate: '2028-01-01T00:60:00Z' })],
    ['words', dated({}, { issuanceDate: 'yesterday' })],
    ['an offset of 99 hours', dated({}, { validFrom: '2026-01-01T00:00:00+99:99' })]
  ])('must not be %s', (_name, jwt) => refuses(jwt))

  it('may be 29 February of a leap year', () => accepts(dated({}, { expirationDate: '2028-02-29T00:00:00Z' })))

  it('have no limit on exp: JSON has no Infinity, but 1e300', () => accepts(dated({ exp: 1e300 })))
})

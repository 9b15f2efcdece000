import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import type { SelectiveDisclosureResponse } from 'express-did-auth'
import { START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import {
  credentialJwt,
  credentialPayload,
  didJwtVcCredential,
  es256kBy,
  es256kRecoverableBy,
  jwtByHand,
  p256Key,
  signUp
} from '../support/credentials.js'
import { loginText, walletOf } from '../support/wallet.js'

const user = walletOf(1)
const issuer = walletOf(6001)
const stranger = walletOf(6002)
const sign = es256kBy(issuer.privateKey)
const day = 86_400
const SECP256K1_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const P_256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

let app: TestApp
let received: SelectiveDisclosureResponse[]

beforeEach(async () => {
  received = []
  app = await testApp({
    signupBusinessLogic: (response) => {
      received.push(response)
    }
  })
})

afterEach(async () => {
  await app.requireDid.close()
})

/** Status and text of a sign up; business logic must have run for a 200 only. */
async function answerTo(credentials: unknown): Promise<[number, string]> {
  const { status, text } = await signUp(app.app, user, { credentials })
  expect(received).toHaveLength(status === 200 ? 1 : 0)
  return [status, status === 200 ? '' : text]
}

/** A sign up with one credential is answered so. */
async function answers(expected: unknown[], credential: string): Promise<void> {
  expect(await answerTo([credential])).toEqual(expected)
}

const accepted = [200, '']
const invalid = [401, 'Invalid credential']
const expired = [401, 'Expired credential']
const badRequest = [401, 'Invalid request']

const good = credentialPayload(issuer.did, user.did)

function withVc(changes: Record<string, unknown>): string {
  return credentialJwt(issuer, user.did, { vc: { ...good.vc, ...changes } })
}

describe('a credential of did-jwt-vc', () => {
  it.each(['ES256K', 'ES256K-R'] as const)('with %s reaches business logic, decoded and as received', async (alg) => {
    const jwt = await didJwtVcCredential(issuer, user.did, alg)
    expect(await answerTo([jwt])).toEqual(accepted)
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
  const withHeader = (header: unknown, signBy = sign): string => jwtByHand(header, good, signBy)

  it.each([
    ['alg alone', { alg: 'ES256K' }],
    ['alg and typ', { alg: 'ES256K', typ: 'JWT' }],
    ['a kid', { alg: 'ES256K', typ: 'JWT', kid: `${issuer.did}#controller` }]
  ])('may hold %s', (_name, header) => answers(accepted, withHeader(header)))

  it.each([
    ['no alg', { typ: 'JWT' }],
    ['alg none', { alg: 'none', typ: 'JWT' }],
    ['alg in lower case', { alg: 'es256k' }],
    ['alg HS256', { alg: 'HS256' }],
    ['alg RS256', { alg: 'RS256' }],
    ['alg Ed25519', { alg: 'Ed25519' }],
    ['alg that is a list', { alg: ['ES256K'] }],
    ['alg of a prototype', { alg: 'constructor' }],
    ['another algorithm than its signature', { alg: 'ES256' }],
    ['ES256K-R over 64 bytes', { alg: 'ES256K-R' }],
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
  ])('must not hold %s', (_name, header) => answers(invalid, withHeader(header)))

  it.each([
    ['a list', [{ alg: 'ES256K' }]],
    ['null', null],
    ['a string', 'ES256K']
  ])('must not be %s', (_name, header) => answers(invalid, withHeader(header)))

  it('must not say ES256K over 65 bytes', () =>
    answers(invalid, withHeader({ alg: 'ES256K' }, es256kRecoverableBy(issuer.privateKey))))
})

describe('the signature of a credential', () => {
  const [header = '', payload = ''] = credentialJwt(issuer, user.did).split('.')

  it('must be by the issuer', () => answers(invalid, credentialJwt({ ...stranger, did: issuer.did }, user.did)))

  it('must not be another credential’s', async () => {
    const other = credentialJwt(issuer, user.did, { jti: 'another' }).split('.')[2]!
    expect(await answerTo([`${header}.${payload}.${other}`])).toEqual(invalid)
  })

  it.each([
    ['r of 0', Buffer.alloc(64, 0).fill(1, 32)],
    ['s of 0', Buffer.alloc(64, 0).fill(1, 0, 32)],
    ['bytes of ff', Buffer.alloc(64, 0xff)],
    ['63 bytes', Buffer.alloc(63, 1)],
    ['66 bytes', Buffer.alloc(66, 1)],
    ['one byte', Buffer.alloc(1, 1)]
  ])('must not be %s', (_name, bytes) => answers(invalid, `${header}.${payload}.${bytes.toString('base64url')}`))

  it('of ES256K-R must end on 0 or 1', async () => {
    for (const last of [2, 27, 255]) {
      const jwt = jwtByHand({ alg: 'ES256K-R' }, good, (input) => Buffer.concat([sign(input), Buffer.of(last)]))
      expect(await answerTo([jwt])).toEqual(invalid)
    }
  })
})

describe('the parts of a credential', () => {
  const [header = '', payload = '', signature = ''] = credentialJwt(issuer, user.did).split('.')
  it.each([
    ['two', `${header}.${payload}`],
    ['four', `${header}.${payload}.${signature}.${signature}`],
    ['an empty payload', `${header}..${signature}`],
    ['an empty signature', `${header}.${payload}.`],
    ['padding', `${header}.${payload}.${signature}==`],
    ['the other alphabet', `${header}.${payload}.+/${signature.slice(2)}`],
    ['a blank', `${header}.${payload}. ${signature}`],
    ['a line feed at the end', `${header}.${payload}.${signature}\n`],
    ['a comma', `${header}.${payload}.${signature},${header}.${payload}.${signature}`],
    ['nothing', ''],
    ['dots alone', '..']
  ])('must not be %s', (_name, jwt) => answers(badRequest, jwt))

  it('must not be a header with unused bits', () => answers(invalid, `${header.slice(0, -1)}1.${payload}.${signature}`))
})

describe('the field credentials', () => {
  const jwt = credentialJwt(issuer, user.did)

  it.each([
    ['null', null],
    ['a string', jwt],
    ['an object', { 0: jwt, length: 1 }],
    ['a number', 1],
    ['a list with a number', [1]],
    ['a list with null', [null]],
    ['a list in a list', [[jwt]]],
    ['a list with an object', [{ jwt }]],
    ['a list with an empty string', ['']],
    ['a list with one good and one empty string', [jwt, '']]
  ])('must not be %s', async (_name, credentials) => {
    expect(await answerTo(credentials)).toEqual(badRequest)
  })

  it('may be absent or an empty list', async () => {
    expect(await answerTo(undefined)).toEqual(accepted)
    received.length = 0
    expect((await signUp(app.app, user, { credentials: [], thirdLine: '' })).status).toBe(200)
    expect(received[0]?.credentials).toEqual([])
  })

  it('holds 20 credentials at most', async () => {
    const many = (count: number): string[] =>
      Array.from({ length: count }, (_, number) => credentialJwt(issuer, user.did, { jti: String(number) }))
    expect(await answerTo(many(21))).toEqual(badRequest)
    expect(await answerTo(many(20))).toEqual(accepted)
    expect(received[0]?.credentials).toHaveLength(20)
  })

  it('keeps their order, and refuses all when one is wrong', async () => {
    const [first, second] = [
      credentialJwt(issuer, user.did, { jti: '1' }),
      credentialJwt(issuer, user.did, { jti: '2' })
    ]
    const forged = credentialJwt({ ...stranger, did: issuer.did }, user.did)
    expect(await answerTo([first, forged, second])).toEqual(invalid)
    expect(await answerTo([second, first])).toEqual(accepted)
    expect(received[0]?.credentials.map((credential) => credential.jwt)).toEqual([second, first])
  })

  // (r, n - s) verifies as (r, s) does, so that one credential was once two texts to business logic.
  it.each(['ES256K', 'ES256K-R', 'ES256'] as const)(
    'gives both twins of one signature of %s as one text',
    async (alg) => {
      const key = p256Key()
      const signBy = { ES256: key.sign, ES256K: sign, 'ES256K-R': es256kRecoverableBy(issuer.privateKey) }[alg]
      const order = alg === 'ES256' ? P_256_ORDER : SECP256K1_ORDER
      const jwt = jwtByHand({ alg }, good, signBy)
      const end = jwt.lastIndexOf('.') + 1
      const bytes = Buffer.from(jwt.slice(end), 'base64url')
      const otherS = (order - BigInt(`0x${bytes.toString('hex', 32, 64)}`)).toString(16).padStart(64, '0')
      const recovery = bytes.subarray(64).map((bit) => 1 - bit)
      const twin = Buffer.concat([bytes.subarray(0, 32), Buffer.from(otherS, 'hex'), recovery])
      const document = { id: issuer.did, assertionMethod: [{ publicKeyJwk: key.publicKeyJwk }] }
      const { app, requireDid } = await testApp({
        ...(alg === 'ES256' && { resolver: { resolve: async () => ({ didDocument: document }) } }),
        signupBusinessLogic: (response) => {
          received.push(response)
        }
      })
      const both = [jwt, jwt.slice(0, end) + twin.toString('base64url')]
      for (const credential of both) expect((await signUp(app, user, { credentials: [credential] })).status).toBe(200)
      await requireDid.close()
      const texts = new Set(received.map(({ credentials }) => credentials[0]?.jwt))
      expect(texts.size).toBe(1)
      expect(both).toContain([...texts][0])
    }
  )

  it('holds credentials of 16 KiB at most', async () => {
    const ofLength = (length: number): string => {
      const empty = credentialJwt(issuer, user.did, { pad: '' }).length
      for (let pad = Math.floor(((length - empty) * 3) / 4) - 2; ; pad += 1) {
        const padded = credentialJwt(issuer, user.did, { pad: 'x'.repeat(pad) })
        if (padded.length >= length) return padded
      }
    }
    // Base64url has no length of 1 modulo 4 in a part: the neighbours of 16384 that exist.
    const longest = ofLength(16_383)
    expect([longest.length <= 16_384, (await answerTo([longest]))[0]]).toEqual([true, 200])
    received.length = 0
    const tooLong = ofLength(16_385)
    expect(await answerTo([tooLong])).toEqual(badRequest)
  })

  it('is what the signature of the user covers: others do not pass', async () => {
    const asked = await request(app.app).post('/request-signup').send({ did: user.did })
    const { challenge } = asked.body as { challenge: string }
    const other = credentialJwt(issuer, user.did, { jti: 'another' })
    const sig = user.personalSign(`${loginText('service.example', challenge)}\nMy credentials are: ${other}`)
    const body = { did: user.did, sig, credentials: [jwt] }
    const { status, text } = await request(app.app).post('/signup').send(body)
    expect([status, text]).toEqual([401, 'Invalid challenge response'])
    expect(received).toEqual([])
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
  ])('must not be %s', (_name, iss) => answers(invalid, credentialJwt(issuer, user.did, { iss })))

  it('may stand in vc a second time, as text or object', async () => {
    expect(await answerTo([withVc({ issuer: issuer.did })])).toEqual(accepted)
    received.length = 0
    expect(await answerTo([withVc({ issuer: { id: issuer.did, name: 'Post office' } })])).toEqual(accepted)
  })

  it.each([
    ['another DID', stranger.did],
    ['an object with another DID', { id: stranger.did }],
    ['an object without a DID', { name: 'Post office' }],
    ['null', null],
    ['a list', [issuer.did]]
  ])('must not be contradicted in vc by %s', (_name, named) => answers(invalid, withVc({ issuer: named })))
})

describe('the vc of a credential', () => {
  it.each([
    ['absent', undefined],
    ['null', null],
    ['a list', [good.vc]],
    ['a string', 'vc']
  ])('must not be %s', (_name, vc) => answers(invalid, credentialJwt(issuer, user.did, { vc })))

  it.each([
    ['no type', { type: undefined }],
    ['an empty type', { type: [] }],
    ['a type without VerifiableCredential', { type: ['Email'] }],
    ['a type with a number', { type: ['VerifiableCredential', 5] }],
    ['no subject', { credentialSubject: undefined }],
    ['a subject that is text', { credentialSubject: user.did }],
    ['a list of subjects', { credentialSubject: [{ id: user.did }] }]
  ])('must not have %s', (_name, changes) => answers(invalid, withVc(changes)))

  it('may have its type as text', async () => {
    expect(await answerTo([withVc({ type: 'VerifiableCredential' })])).toEqual(accepted)
    expect(received[0]?.credentials[0]?.type).toEqual(['VerifiableCredential'])
  })
})

describe('the subject of a credential', () => {
  const subjects = (sub: unknown, id: unknown): string =>
    credentialJwt(issuer, user.did, { sub, vc: { ...good.vc, credentialSubject: { id, email: 'alice@example.org' } } })

  it.each([
    ['sub alone', user.did, undefined],
    ['credentialSubject.id alone', undefined, user.did],
    ['both', user.did, user.did]
  ])('may be named by %s', async (_name, sub, id) => {
    expect(await answerTo([subjects(sub, id)])).toEqual(accepted)
    expect(received[0]?.credentials[0]?.subject).toBe(user.did)
  })

  it('may be no one: business logic gets undefined', async () => {
    expect(await answerTo([subjects(undefined, undefined)])).toEqual(accepted)
    expect(received[0]?.credentials[0]).toHaveProperty('subject', undefined)
  })

  it('may be the user in another spelling, which business logic gets', async () => {
    const spelled = `did:ethr:rsk:${user.address}`
    expect(await answerTo([subjects(spelled, undefined)])).toEqual(accepted)
    expect(received[0]?.credentials[0]?.subject).toBe(spelled)
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
  ])('must not be %s', async (_name, sub, id) => {
    expect(await answerTo([subjects(sub, id)])).toEqual(invalid)
  })
})

// The test's clock stands at 2027-01-15T08:00:00Z.
describe('the dates of a credential', () => {
  const dated = (payload: Record<string, unknown>, vc: Record<string, unknown> = {}): string =>
    credentialJwt(issuer, user.did, { nbf: undefined, exp: undefined, ...payload, vc: { ...good.vc, ...vc } })

  it('may all be absent: then it never ends', async () => {
    expect(await answerTo([dated({})])).toEqual(accepted)
    expect(received[0]?.credentials[0]).toHaveProperty('expiresAtSeconds', undefined)
  })

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
  ])('end it by %s', (_name, jwt) => answers(expired, jwt))

  it.each([
    ['exp', dated({ exp: START_SECONDS + 1 })],
    ['expirationDate', dated({}, { expirationDate: '2027-01-15T08:00:01Z' })],
    ['validUntil with an offset', dated({}, { validUntil: '2027-01-15T10:00:01+02:00' })]
  ])('leave it good for the last second by %s, and say which', async (_name, jwt) => {
    expect(await answerTo([jwt])).toEqual(accepted)
    expect(received[0]?.credentials[0]?.expiresAtSeconds).toBe(1_800_000_001)
  })

  it('name the earliest of several ends', async () => {
    const ends = { expirationDate: '2027-01-17T08:00:00Z', validUntil: '2027-01-16T08:00:00.500Z' }
    expect(await answerTo([dated({ exp: START_SECONDS + 3 * day }, ends)])).toEqual(accepted)
    expect(received[0]?.credentials[0]?.expiresAtSeconds).toBe(1_800_086_400.5)
  })

  it.each([
    ['nbf', dated({ nbf: START_SECONDS + 6 })],
    ['iat, where there is no nbf', dated({ iat: START_SECONDS + 6 })],
    ['issuanceDate', dated({}, { issuanceDate: '2027-01-15T08:00:06Z' })],
    ['validFrom', dated({}, { validFrom: '2027-01-15T08:00:06Z' })]
  ])('begin it later by %s', (_name, jwt) => answers(invalid, jwt))

  it.each([
    ['nbf', dated({ nbf: START_SECONDS + 5 })],
    ['iat beside an nbf', dated({ nbf: START_SECONDS, iat: START_SECONDS + 6 })],
    ['issuanceDate', dated({}, { issuanceDate: '2027-01-15T08:00:05Z' })],
    ['validFrom in lower case', dated({}, { validFrom: '2027-01-15t08:00:05z' })]
  ])('allow another clock to run 5 s ahead by %s', (_name, jwt) => answers(accepted, jwt))

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
  ])('must not be %s', (_name, jwt) => answers(invalid, jwt))

  it('may be 29 February of a leap year', () =>
    answers(accepted, dated({}, { expirationDate: '2028-02-29T00:00:00Z' })))

  it('are not limited at the end of exp: Infinity cannot be spelled in JSON, 1e300 can', () =>
    answers(accepted, dated({ exp: 1e300 })))
})

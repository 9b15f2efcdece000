import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { es256kBy, jwtByHand } from '../../support/fixtures/credentials.js'
import {
  logIn,
  loginCredential,
  postFile,
  requestChallenge,
  serviceUrl,
  startTestRelay,
  type TestRelay
} from '../../support/servers/relay-app.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)

let relay: TestRelay
let token: string
let cid: string

beforeEach(async () => {
  relay = await startTestRelay()
  token = await logIn(relay, wallet)
  cid = (await postFile(relay, token, 'a file')).body.cid
})

afterEach(() => relay.end())

const verbs: readonly ['post' | 'get' | 'head', () => string][] = [
  ['post', () => '/file'],
  ['get', () => `/file/${cid}`],
  ['head', () => `/file/${cid}`]
]

/** Reads status and text of every route that requires a token; HEAD has no text. */
async function readAnswers(authorization: string | undefined): Promise<[number, string | undefined][]> {
  const answers: [number, string | undefined][] = []
  for (const [verb, path] of verbs) {
    const ask = request(relay.listener)[verb](path())
    if (authorization !== undefined) void ask.set('Authorization', authorization)
    const { status, text, headers } = await (verb === 'post' ? ask.send({ file: 'another file' }) : ask)
    expect(headers['www-authenticate']).toBe(status === 401 ? `DIDAuth realm="${serviceUrl}"` : undefined)
    answers.push([status, verb === 'head' ? undefined : text])
  }
  return answers
}

const createRefusals = (text: string) => [
  [401, text],
  [401, text],
  [401, undefined]
]
const readStatuses = async (authorization: string) => (await readAnswers(authorization)).map(([status]) => status)

/** Payload of a valid token. */
const validPayload = {
  iss: serviceWallet.did,
  sub: wallet.did,
  iat: START_SECONDS,
  nbf: START_SECONDS,
  exp: START_SECONDS + 600,
  jti: 'id',
  use: 'relay',
  vc: {
    '@context': ['https://www.w3.org/2018/credentials/v1'],
    type: ['VerifiableCredential', 'RelayToken'],
    credentialSubject: { id: wallet.did }
  }
}

const createToken = (changes: object, header: object = { alg: 'ES256K', typ: 'JWT' }, key = serviceWallet.privateKey) =>
  jwtByHand(header, { ...validPayload, ...changes }, es256kBy(key))

describe('the token of the relay', () => {
  it('is a credential of the service about the user that expires after 600 s', () => {
    const [header, payload] = token
      .split('.')
      .slice(0, 2)
      .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()))
    expect(header).toEqual({ alg: 'ES256K', typ: 'JWT' })
    expect(payload).toEqual({ ...validPayload, jti: expect.stringMatching(/^[\w-]{22}$/) })
  })

  it('expires after RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS', async () => {
    const shortLivedRelay = await startTestRelay({ RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS: '7' })
    const shortToken = await logIn(shortLivedRelay, wallet)
    shortLivedRelay.clock.seconds += 6
    expect((await postFile(shortLivedRelay, shortToken, 'a')).status).toBe(200)
    shortLivedRelay.clock.seconds += 1
    expect((await postFile(shortLivedRelay, shortToken, 'a')).status).toBe(401)
    await shortLivedRelay.end()
  })

  it('is accepted without a scheme, and with DIDAuth in any letter case', async () => {
    for (const authorization of [token, `DIDAuth ${token}`, `didauth ${token}`, `DIDAUTH  ${token}`]) {
      expect(await readStatuses(authorization)).toEqual([200, 200, 200])
    }
  })

  it('is valid until its exp, also if it was verified before', async () => {
    const unseenToken = createToken({})
    relay.clock.seconds += 599
    expect(await readStatuses(token)).toEqual([200, 200, 200])
    relay.clock.seconds += 1
    expect(await readAnswers(token)).toEqual(createRefusals('Expired access token'))
    expect(await readAnswers(unseenToken)).toEqual(createRefusals('Expired access token'))
  })

  it('is invalid 6 s before its nbf, and valid 5 s before it', async () => {
    expect(await readAnswers(createToken({ nbf: START_SECONDS + 6 }))).toEqual(createRefusals('Invalid access token'))
    expect(await readStatuses(createToken({ nbf: START_SECONDS + 5 }))).toEqual([200, 200, 200])
    relay.clock.seconds -= 6
    expect(await readAnswers(token)).toEqual(createRefusals('Invalid access token'))
  })

  it('is valid until its exp after a key rotation, and a credential may name the previous DID', async () => {
    const previousWallet = createNumberedWallet(7)
    const rotated = await startTestRelay({}, { previousServiceDids: [previousWallet.did] })
    const previousToken = createToken({ iss: previousWallet.did }, undefined, previousWallet.privateKey)
    expect((await postFile(rotated, previousToken, 'a')).status).toBe(200)
    expect(
      (
        await postFile(
          rotated,
          createToken({ iss: previousWallet.did }, undefined, createNumberedWallet(8).privateKey),
          'a'
        )
      ).status
    ).toBe(401)
    expect((await postFile(relay, previousToken, 'a')).status).toBe(401)
    const jwt = loginCredential(wallet, await requestChallenge(rotated, wallet.did), { sub: previousWallet.did })
    expect((await request(rotated.listener).post('/auth').send({ jwt })).status).toBe(200)
    await rotated.end()
  })

  it('is answered "Missing access token" if it is absent', async () => {
    expect(await readAnswers(undefined)).toEqual(createRefusals('Missing access token'))
    expect(await readAnswers('')).toEqual(createRefusals('Missing access token'))
  })

  it.each([
    ['another issuer', { iss: createNumberedWallet(2).did }],
    ['another spelling of the issuer', { iss: serviceWallet.did.replace('rsk', 'RSK') }],
    ['no issuer', { iss: undefined }],
    ['no subject', { sub: undefined }],
    ['a subject that is no DID', { sub: 'alice' }],
    ['no exp', { exp: undefined }],
    ['exp as text', { exp: '1900000000' }],
    ['exp with a fraction', { exp: START_SECONDS + 0.5 }],
    ['exp above the largest exact integer', { exp: 2 ** 53 }],
    ['no nbf', { nbf: undefined }],
    ['no iat', { iat: undefined }],
    ['iat as text', { iat: 'now' }],
    ['no use', { use: undefined }],
    ['the use of an access token', { use: 'access' }],
    ['no vc', { vc: undefined }],
    ['vc that is an array', { vc: [] }],
    ['vc without types', { vc: {} }],
    ['a type missing', { vc: { type: ['VerifiableCredential'] } }],
    ['an additional type', { vc: { type: ['VerifiableCredential', 'RelayToken', 'Email'] } }],
    ['types as text', { vc: { type: 'VerifiableCredential,RelayToken' } }]
  ])('is refused with these claims: %s', async (_name, changes) => {
    expect(await readAnswers(createToken(changes))).toEqual(createRefusals('Invalid access token'))
  })

  it.each([
    ['another algorithm', { alg: 'ES256K-R', typ: 'JWT' }],
    ['the algorithm none', { alg: 'none' }],
    ['a key in its header', { alg: 'ES256K', jwk: {} }],
    ['a key id', { alg: 'ES256K', kid: 'a' }],
    ['another type', { alg: 'ES256K', typ: 'at+jwt' }]
  ])('is refused with this header: %s', async (_name, header) => {
    expect(await readAnswers(createToken({}, header))).toEqual(createRefusals('Invalid access token'))
  })

  it('is refused if another key signed it', async () => {
    expect(await readAnswers(createToken({}, undefined, wallet.privateKey))).toEqual(
      createRefusals('Invalid access token')
    )
  })

  it('is refused with another signature or in another spelling', async () => {
    const [header = '', payload = '', signature = ''] = token.split('.')
    for (const invalidToken of [`${header}.${payload}.${'A'.repeat(86)}`, `${token}.${signature}`, `${token}=`]) {
      expect(await readAnswers(invalidToken)).toEqual(createRefusals('Invalid access token'))
    }
  })

  it('is refused if it is longer than 4 KiB', async () => {
    const longToken = createToken({ jti: 'a'.repeat(3_000) })
    expect(longToken.length).toBeGreaterThan(4_096)
    expect(await readAnswers(longToken)).toEqual(createRefusals('Invalid access token'))
  })

  it('cannot be replaced by another text that the service or a user signs', async () => {
    const accessToken = {
      iss: serviceWallet.did,
      aud: serviceUrl,
      sub: wallet.did,
      exp: START_SECONDS + 600,
      nbf: START_SECONDS,
      iat: START_SECONDS,
      jti: 'id',
      sid: 'session',
      use: 'access'
    }
    const sdr = { ...accessToken, use: undefined, type: 'sdr', issuer: serviceWallet.did, subject: wallet.did }
    const sign = es256kBy(serviceWallet.privateKey)
    const header = { alg: 'ES256K', typ: 'JWT' }
    for (const otherText of [
      jwtByHand(header, accessToken, sign),
      jwtByHand(header, sdr, sign),
      jwtByHand(header, { ...validPayload, use: undefined }, sign),
      loginCredential(wallet, await requestChallenge(relay, wallet.did)),
      loginCredential(serviceWallet, await requestChallenge(relay, serviceWallet.did)),
      await requestChallenge(relay, wallet.did)
    ]) {
      expect(await readAnswers(otherText)).toEqual(createRefusals('Invalid access token'))
    }
  })
})

/** Tokens good and forged, each with what our own gate says of it, and of a second service that has to say the same. */
import { SigningKey } from 'ethers'
import type { JsonObject } from 'express-did-auth'
import { accessTokenFor, wallet } from 'express-did-auth/testing'
import { es256k, forgeJwt } from '../protocol/forge-jwt.js'
import { serviceUrl, serviceWallet, START_SECONDS } from '../support/test-app.js'
import { es256kSigner } from 'express-did-auth'

const alice = wallet('alice')
const HEADER = { alg: 'ES256K', typ: 'JWT' }
const CLAIMS: JsonObject = {
  iss: serviceWallet.did,
  aud: serviceUrl,
  sub: alice.did,
  exp: START_SECONDS + 600,
  nbf: START_SECONDS,
  iat: START_SECONDS,
  use: 'access'
}

const service = {
  serviceUrl,
  serviceDid: serviceWallet.did,
  serviceSigner: es256kSigner(serviceWallet.privateKey),
  clock: { nowSeconds: () => START_SECONDS }
}
export const goodToken = await accessTokenFor(alice.did, { role: 'admin' }, service)
const [header, payload, signature] = goodToken.split('.') as [string, string, string]
const signatureBytes = Buffer.from(signature, 'base64url')

const sign = es256k(serviceWallet.privateKey)
const made = (claims: object, by = sign, head: object = HEADER): string => forgeJwt(head, { ...CLAIMS, ...claims }, by)
const signedWith = (bytes: Uint8Array): string => `${header}.${payload}.${Buffer.from(bytes).toString('base64url')}`
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const highS = Buffer.from(
  (ORDER - BigInt(`0x${signatureBytes.subarray(32).toString('hex')}`)).toString(16).padStart(64, '0'),
  'hex'
)
const stranger = SigningKey.computePublicKey(`0x${'11'.repeat(32)}`)
const none = Buffer.alloc(32)

/** What it is, the token, and the refusal; none is acceptance. */
export const tokens: readonly (readonly [string, unknown, string | undefined])[] = [
  ['a token of the library', goodToken, undefined],
  ['one without typ', made({}, sign, { alg: 'ES256K' }), undefined],
  ['one for a user of another method', made({ sub: 'did:web:alice.example' }), undefined],
  ['nbf 5 s ahead', made({ nbf: START_SECONDS + 5 }), undefined],
  ['an expired one', made({ exp: START_SECONDS }), 'ERR_ACCESS_TOKEN_EXPIRED'],
  ...[
    ['nothing', ''],
    ['no text', 7],
    ['one part', header],
    ['four parts', `${goodToken}.`],
    ['an empty signature', `${header}.${payload}.`],
    ['padding', `${goodToken}=`],
    ['more than 4 KiB', made({ long: 'x'.repeat(4096) })],
    ['alg none', forgeJwt({ alg: 'none' }, CLAIMS, sign)],
    ['ES256K-R', forgeJwt({ alg: 'ES256K-R', typ: 'JWT' }, CLAIMS, sign)],
    ['a kid', made({}, sign, { ...HEADER, kid: '1' })],
    ['a crit', made({}, sign, { ...HEADER, crit: ['b64'] })],
    ['a jwk of a stranger', made({}, sign, { ...HEADER, jwk: stranger })],
    ['another issuer', made({ iss: alice.did })],
    ['the issuer in upper case', made({ iss: serviceWallet.did.toUpperCase() })],
    ['another audience', made({ aud: 'https://other.example' })],
    ['the audience with a slash', made({ aud: `${serviceUrl}/` })],
    ['a list of audiences', made({ aud: [serviceUrl] })],
    ['a subject that is no DID', made({ sub: 'alice' })],
    ['no exp', made({ exp: undefined })],
    ['exp as text', made({ exp: String(START_SECONDS + 60) })],
    ['exp with a fraction', made({ exp: START_SECONDS + 60.5 })],
    ['nbf 6 s ahead', made({ nbf: START_SECONDS + 6 })],
    ['a credential', made({ vc: {} })],
    ['a presentation', made({ vp: {} })],
    ['a disclosure request', made({ type: 'sdr' })],
    ['another use', made({ use: 'refresh' })],
    ['a session id that is no text', made({ sid: 1 })],
    ['another key', made({}, es256k(wallet('mallory').privateKey))],
    ['an expired one by another key', made({ exp: START_SECONDS }, es256k(wallet('mallory').privateKey))],
    ['the signature of another payload', `${header}.${made({ role: 'user' }).split('.')[1]!}.${signature}`],
    ['a high s', signedWith(Buffer.concat([signatureBytes.subarray(0, 32), highS]))],
    ['r of zero', signedWith(Buffer.concat([none, signatureBytes.subarray(32)]))],
    ['s of zero', signedWith(Buffer.concat([signatureBytes.subarray(0, 32), none]))],
    ['r and s of zero', signedWith(Buffer.alloc(64))],
    ['r and s as large as can be', signedWith(Buffer.alloc(64, 0xff))],
    ['65 bytes of signature', signedWith(Buffer.concat([signatureBytes, Buffer.of(0)]))],
    ['63 bytes of signature', signedWith(signatureBytes.subarray(0, 63))]
  ].map(([name, token]) => [String(name), token, 'ERR_ACCESS_TOKEN'] as const)
]

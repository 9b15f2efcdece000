/** Valid and forged tokens with the verdict of this package's guard, which a second service has to share. */
import type { JsonObject } from 'express-did-auth'
import { accessTokenFor, wallet } from 'express-did-auth/testing'
import { es256k, forgeJwt } from '../protocol/forge-jwt.js'
import { serviceUrl } from '../support/servers/test-app.js'
import { es256kSigner } from 'express-did-auth'
import { serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

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
const createToken = (claims: object, signer = sign, head: object = HEADER): string =>
  forgeJwt(head, { ...CLAIMS, ...claims }, signer)
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const highS = Buffer.from(
  (ORDER - BigInt(`0x${signatureBytes.subarray(32).toString('hex')}`)).toString(16).padStart(64, '0'),
  'hex'
)
/** Name, token and expected refusal of each case; undefined is acceptance. */
export const tokens: readonly (readonly [string, unknown, string | undefined])[] = [
  ['a token of the library', goodToken, undefined],
  ['one without typ', createToken({}, sign, { alg: 'ES256K' }), undefined],
  ['one for a user of another method', createToken({ sub: 'did:web:alice.example' }), undefined],
  ['nbf 5 s ahead', createToken({ nbf: START_SECONDS + 5 }), undefined],
  ['an expired one', createToken({ exp: START_SECONDS }), 'ERR_ACCESS_TOKEN_EXPIRED'],
  ...[
    ['nothing', ''],
    ['alg none', forgeJwt({ alg: 'none' }, CLAIMS, sign)],
    ['another issuer', createToken({ iss: alice.did })],
    ['another audience', createToken({ aud: 'https://other.example' })],
    ['no exp', createToken({ exp: undefined })],
    ['nbf 6 s ahead', createToken({ nbf: START_SECONDS + 6 })],
    ['a credential', createToken({ vc: {} })],
    ['another key', createToken({}, es256k(wallet('mallory').privateKey))],
    ['an expired one by another key', createToken({ exp: START_SECONDS }, es256k(wallet('mallory').privateKey))],
    ['the signature of another payload', `${header}.${createToken({ role: 'user' }).split('.')[1]!}.${signature}`],
    ['a high s', `${header}.${payload}.${Buffer.concat([signatureBytes.subarray(0, 32), highS]).toString('base64url')}`]
  ].map(([name, token]) => [String(name), token, 'ERR_ACCESS_TOKEN'] as const)
]

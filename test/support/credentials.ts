import { generateKeyPairSync, sign as signBytes, type KeyObject } from 'node:crypto'
import { ES256KSigner, hexToBytes } from 'did-jwt'
import { createVerifiableCredentialJwt } from 'did-jwt-vc'
import { sha256, SigningKey, toUtf8Bytes } from 'ethers'
import type { Express } from 'express'
import request, { type Response } from 'supertest'
import { createLoginText, type TestWallet } from './wallet.js'

// START_SECONDS of test-app.ts, which is not imported: this file also runs outside of Jest, see
// close-while-resolving.ts.
const startSeconds = 1_800_000_000
const day = 86_400

/** A signature over the first two parts of a JWT. */
export type SignPart = (signingInput: string) => Uint8Array

/** ES256K by ethers: 64 bytes, low s. */
export function es256kBy(privateKey: string): SignPart {
  return (signingInput) => {
    const { r, s } = new SigningKey(privateKey).sign(sha256(toUtf8Bytes(signingInput)))
    return Buffer.from(r.slice(2) + s.slice(2), 'hex')
  }
}

/** ES256K-R by ethers: 65 bytes, the last 0 or 1. */
export function es256kRecoverableBy(privateKey: string): SignPart {
  return (signingInput) => {
    const { r, s, yParity } = new SigningKey(privateKey).sign(sha256(toUtf8Bytes(signingInput)))
    return Buffer.from(r.slice(2) + s.slice(2) + (yParity === 0 ? '00' : '01'), 'hex')
  }
}

/** A key pair of node:crypto, with the public key as a DID document shows it. */
export interface TestKey {
  publicKeyJwk: Record<string, unknown>
  sign: SignPart
}

/** ES256 by node:crypto. */
export function p256Key(): TestKey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const sign: SignPart = (input) =>
    signBytes('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' })
  return { publicKeyJwk: toJwk(publicKey), sign }
}

/** EdDSA by node:crypto. */
export function ed25519Key(): TestKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return { publicKeyJwk: toJwk(publicKey), sign: (input) => signBytes(null, Buffer.from(input), privateKey) }
}

function toJwk(key: KeyObject): Record<string, unknown> {
  return { ...key.export({ format: 'jwk' }) }
}

/** A JWT put together by hand: any header, any payload, any signature. */
export function jwtByHand(header: unknown, payload: unknown, sign: SignPart): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signingInput = `${part(header)}.${part(payload)}`
  return `${signingInput}.${Buffer.from(sign(signingInput)).toString('base64url')}`
}

/** Returns the payload of a user's valid credential, in force a day before and after the start of the test. */
export function createCredentialPayload(issuerDid: string, userDid: string): Record<string, unknown> & { vc: object } {
  return {
    iss: issuerDid,
    sub: userDid,
    nbf: startSeconds - day,
    exp: startSeconds + day,
    vc: {
      '@context': ['https://www.w3.org/2018/credentials/v1'],
      type: ['VerifiableCredential', 'Email'],
      credentialSubject: { id: userDid, email: 'alice@example.org' }
    }
  }
}

/** Returns a valid ES256K credential, made by hand, with some of its payload changed. */
export function createCredentialJwt(
  issuer: Pick<TestWallet, 'did' | 'privateKey'>,
  userDid: string,
  changes: Record<string, unknown> = {}
): string {
  const payload = { ...createCredentialPayload(issuer.did, userDid), ...changes }
  return jwtByHand({ alg: 'ES256K', typ: 'JWT' }, payload, es256kBy(issuer.privateKey))
}

/** A credential as the library of the trade makes it. */
export async function didJwtVcCredential(
  issuer: Pick<TestWallet, 'did' | 'privateKey'>,
  userDid: string,
  alg: 'ES256K' | 'ES256K-R' = 'ES256K'
): Promise<string> {
  const signer = ES256KSigner(hexToBytes(issuer.privateKey), alg === 'ES256K-R')
  const credential = {
    '@context': ['https://www.w3.org/2018/credentials/v1'],
    type: ['VerifiableCredential', 'Email'],
    issuer: { id: issuer.did },
    issuanceDate: '2027-01-01T00:00:00Z',
    expirationDate: '2028-01-01T00:00:00Z',
    credentialSubject: { id: userDid, email: 'alice@example.org' }
  }
  return createVerifiableCredentialJwt(credential, { did: issuer.did, signer, alg })
}

/** Content of a sign up besides the DID and its signature. */
export interface SignUpOptions {
  credentials?: unknown
  claims?: unknown
  /** Signed text after the second line; by default as specified. */
  thirdLine?: string
  /** Another spelling of the wallet's DID. */
  did?: string
}

/** Signs a wallet up over HTTP: asks for the challenge, signs, sends. */
export async function signUp(app: Express, wallet: TestWallet, options: SignUpOptions = {}): Promise<Response> {
  const { credentials, claims, did = wallet.did } = options
  const response = await request(app).post('/request-signup').send({ did }).expect(200)
  const { challenge } = response.body as { challenge: string }
  const joined = Array.isArray(credentials) ? `\nMy credentials are: ${credentials.join(',')}` : ''
  const sig = wallet.personalSign(createLoginText('service.example', challenge) + (options.thirdLine ?? joined))
  return request(app).post('/signup').send({ did, sig, credentials, claims })
}

/** Status and text of a sign up with one credential; a 200 has no text. */
export async function answerToCredential(
  { app }: { app: Express },
  wallet: TestWallet,
  credential: string
): Promise<[status: number, text: string]> {
  const { status, text } = await signUp(app, wallet, { credentials: [credential] })
  return [status, status === 200 ? '' : text]
}

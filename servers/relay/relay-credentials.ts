import type * as didJwtVc from 'did-jwt-vc'
import { canonicalDid, type Curve, DidAuthError, loadCurve } from 'express-did-auth'
import {
  assertInForce,
  isDid,
  isPlainEs256kHeader,
  isSignedBy,
  MAX_ACCESS_TOKEN_BYTES,
  MAX_CREDENTIAL_BYTES,
  parseCredential,
  parseJwt,
  type ParsedJwt
} from 'express-did-auth/protocol'

const CREDENTIALS_V1 = 'https://www.w3.org/2018/credentials/v1'

/** Libraries write the time into it unasked, by the clock of a phone; its challenge is what says how fresh it is. */
const TOLERANCE_SECONDS = 60

/** A login credential whose form and dates are good. Neither its challenge nor its signature is verified yet. */
export interface LoginCredential {
  /** `iss`: the user, whatever other fields say. */
  userDid: string
  challenge: string
  parsed: ParsedJwt
}

/**
 * Parses the credential of a login: the JWT of a W3C credential whose only claim is the challenge.
 *
 * Published clients give it no `nbf` or `aud`, and either no subject or the service as its subject. Where a subject is
 * named, it has to be the issuer itself or this service, and an audience this relay: another one may have passed our
 * challenge on. It may begin up to 60 s ahead.
 *
 * @param service - this relay: its DID and its URL
 * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED
 * @see specification, "Relay authentication credential and token"
 */
export function parseLoginCredential(
  jwt: string,
  service: { did: string; url: string },
  nowSeconds: number
): LoginCredential {
  const iss = parseJwt(jwt, MAX_CREDENTIAL_BYTES)?.payload.iss
  if (typeof iss !== 'string') throw new DidAuthError('ERR_CREDENTIAL')
  const { credential, parsed } = parseCredential(jwt, [iss, service.did], nowSeconds, TOLERANCE_SECONDS)
  const challenge = challengeIn(credential.credentialSubject.claims)
  if (!isOurAlgorithm(parsed) || !isOurAudience(parsed.payload.aud, service.url) || challenge === undefined) {
    throw new DidAuthError('ERR_CREDENTIAL')
  }
  const context: unknown = credential.vc['@context']
  if (!Array.isArray(context) || !context.includes(CREDENTIALS_V1)) throw new DidAuthError('ERR_CREDENTIAL')
  return { userDid: iss, challenge, parsed }
}

/** The two whose signature tells the address of its key. */
function isOurAlgorithm({ header }: ParsedJwt): boolean {
  return header.alg === 'ES256K' || header.alg === 'ES256K-R'
}

function isOurAudience(aud: unknown, serviceUrl: string): boolean {
  return aud === undefined || aud === serviceUrl || (Array.isArray(aud) && aud.includes(serviceUrl))
}

function challengeIn(claims: unknown): string | undefined {
  const claim: unknown = Array.isArray(claims) && claims.length === 1 ? claims[0] : undefined
  if (typeof claim !== 'object' || claim === null) return undefined
  if (!('claimType' in claim) || claim.claimType !== 'challenge' || !('claimValue' in claim)) return undefined
  return typeof claim.claimValue === 'string' ? claim.claimValue : undefined
}

const TYPES = ['VerifiableCredential', 'RelayToken'] as const

/** What a token of ours says of its holder. */
export interface RelayTokenClaims {
  /** Canonical DID of the user. */
  readonly did: string
  /** Seconds since the Unix epoch, as is `exp`. */
  readonly nbf: number
  readonly exp: number
}

export interface NewRelayToken {
  serviceDid: string
  userDid: string
  tokenId: string
  nowSeconds: number
  lifetimeSeconds: number
}

/** As `es256kSigner` makes it. */
export type RelaySigner = (data: string | Uint8Array) => Promise<string>

let loading: Promise<typeof didJwtVc> | undefined

/**
 * Issues a new token: a W3C credential of the service about the user, by did-jwt-vc, which is loaded with the first one.
 * It names no audience, so that did-jwt-vc verifies it as it is; `use` keeps it apart from everything else that the
 * service's key signs.
 */
export async function issueRelayToken(signer: RelaySigner, token: NewRelayToken): Promise<string> {
  const { createVerifiableCredentialJwt } = await (loading ??= import('did-jwt-vc'))
  const { serviceDid, userDid, tokenId, nowSeconds, lifetimeSeconds } = token
  const payload = {
    sub: userDid,
    iat: nowSeconds,
    nbf: nowSeconds,
    exp: nowSeconds + lifetimeSeconds,
    jti: tokenId,
    use: 'relay',
    vc: {
      '@context': [CREDENTIALS_V1],
      type: [...TYPES],
      credentialSubject: { id: userDid }
    }
  }
  return createVerifiableCredentialJwt(payload, { did: serviceDid, signer, alg: 'ES256K' })
}

/**
 * Verifies a token of the service's own key: form, header, claims, signature, times, in this order; no network.
 *
 * `exp` has no tolerance; `nbf` has that of the library.
 *
 * @param publicKey - 65 bytes, uncompressed
 * @throws DidAuthError ERR_ACCESS_TOKEN, or ERR_ACCESS_TOKEN_EXPIRED when it is expired and otherwise good
 */
export function verifyRelayToken(
  curve: Pick<Curve, 'sha256' | 'verify'>,
  token: string,
  expected: { serviceDid: string; publicKey: Uint8Array; nowSeconds: number }
): RelayTokenClaims {
  const jwt = parseJwt(token, MAX_ACCESS_TOKEN_BYTES)
  if (jwt === undefined || !isPlainEs256kHeader(jwt.header)) throw new DidAuthError('ERR_ACCESS_TOKEN')
  const claims = claimsIn(jwt.payload, expected.serviceDid)
  if (claims === undefined || !isSignedBy(curve, jwt, expected.publicKey)) throw new DidAuthError('ERR_ACCESS_TOKEN')
  assertInForce(claims, expected.nowSeconds)
  return claims
}

function claimsIn(payload: Record<string, unknown>, serviceDid: string): RelayTokenClaims | undefined {
  const { iss, sub, iat, nbf, exp, use, vc } = payload
  const isOurs = iss === serviceDid && use === 'relay' && isDid(sub) && isRelayCredential(vc)
  if (!isOurs || !isTime(iat) || !isTime(nbf) || !isTime(exp)) return undefined
  return Object.freeze({ did: canonicalDid(sub), nbf, exp })
}

function isRelayCredential(vc: unknown): boolean {
  if (typeof vc !== 'object' || vc === null || !('type' in vc)) return false
  const { type } = vc
  return Array.isArray(type) && type.length === TYPES.length && TYPES.every((name, index) => type[index] === name)
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value)
}

/** The key that verifies the service's tokens. */
export interface ServiceKey {
  curve: Curve
  /** 65 bytes, uncompressed. */
  publicKey: Uint8Array
}

/** @param privateKey - 64 hexadecimal digits, with or without `0x` */
export async function loadServiceKey(privateKey: string): Promise<ServiceKey> {
  const curve = await loadCurve()
  const key = Buffer.from(privateKey.replace(/^0x/, ''), 'hex')
  const publicKey = curve.publicKeyOf(key)
  if (publicKey === undefined) throw new TypeError('PRIVATE_KEY is no private key of secp256k1')
  return { curve, publicKey }
}

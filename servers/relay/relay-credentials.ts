import { randomBytes } from 'node:crypto'
import { canonicalDid, type Curve, DidAuthError, type es256kSigner } from 'express-did-auth'
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
import {
  createCredentialRefusal as createRefusal,
  createLazy,
  isObject,
  isOwnAudience
} from 'express-did-auth/server-kit'

const CREDENTIALS_V1 = 'https://www.w3.org/2018/credentials/v1'

/** Tolerance for `nbf`, which libraries set by the phone's clock. The challenge limits the age of a credential. */
const TOLERANCE_SECONDS = 60

/**
 * Parses the credential of a login: the JWT of a W3C credential whose only claim is the challenge. Neither its
 * challenge nor its signature is verified yet.
 *
 * Published clients set neither `nbf` nor `aud`. They set no subject, or the service as the subject. If there is a
 * subject, it must be the issuer or this service. If there is an audience, it must name this relay only.
 * Otherwise another relay could let its users sign this relay's challenge, and log in here as these users. `nbf` may be
 * up to 60 s in the future.
 *
 * @returns `userDid` is the issuer, regardless of other fields
 * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED
 * @see specification, "Relay authentication credential and token"
 */
export function parseLoginCredential(
  jwt: string,
  service: { dids: readonly string[]; url: string },
  nowSeconds: number
): { userDid: string; challenge: string; parsed: ParsedJwt } {
  const iss = parseJwt(jwt, MAX_CREDENTIAL_BYTES)?.payload.iss
  if (typeof iss !== 'string') throw createRefusal('iss', 'a DID, in a compact JWT')
  const { credential, parsed } = parseCredential(jwt, [iss, ...service.dids], nowSeconds, TOLERANCE_SECONDS)
  const challenge = readChallenge(credential.credentialSubject.claims)
  const context: unknown = credential.vc['@context']
  const { alg } = parsed.header
  // The address of the key can be recovered from the signatures of these two algorithms only.
  const isRecoverable = alg === 'ES256K' || alg === 'ES256K-R'
  if (!isRecoverable) throw createRefusal('alg', 'ES256K or ES256K-R')
  const { aud } = parsed.payload
  if (aud !== undefined && !isOwnAudience(aud, [service.url])) throw createRefusal('aud', `absent, or ${service.url}`)
  if (!Array.isArray(context) || !context.includes(CREDENTIALS_V1)) {
    throw createRefusal('vc.@context', `an array with ${CREDENTIALS_V1}`)
  }
  if (challenge === undefined) {
    const claims = '[{ "claimType": "challenge", "claimValue": "<challenge>" }]'
    throw createRefusal('vc.credentialSubject', `the object { "claims": ${claims} }`)
  }
  return { userDid: iss, challenge, parsed }
}

function readChallenge(claims: unknown): string | undefined {
  const [claim, ...others] = Array.isArray(claims) ? (claims as unknown[]) : []
  if (!isObject(claim) || others.length > 0 || claim.claimType !== 'challenge') return undefined
  return typeof claim.claimValue === 'string' ? claim.claimValue : undefined
}

const TYPES = ['VerifiableCredential', 'RelayToken'] as const
const loadDidJwtVc = createLazy(() => import('did-jwt-vc'))

/** Claims of a relay token: canonical DID of its user, and its times in seconds since the Unix epoch. */
export type RelayTokenClaims = { readonly did: string; readonly nbf: number; readonly exp: number }

export type RelaySigner = ReturnType<typeof es256kSigner>

/**
 * Issues a relay token: a W3C credential of the service about the user. It has no audience, so that did-jwt-vc verifies
 * it without options. The claim `use` distinguishes it from all other JWTs that the service's key signs.
 */
export async function issueRelayToken(
  signer: RelaySigner,
  token: { serviceDid: string; userDid: string; nowSeconds: number; expiresAtSeconds: number }
): Promise<string> {
  const { createVerifiableCredentialJwt } = await loadDidJwtVc()
  const { serviceDid, userDid, nowSeconds, expiresAtSeconds } = token
  const payload = {
    sub: userDid,
    iat: nowSeconds,
    nbf: nowSeconds,
    exp: expiresAtSeconds,
    jti: randomBytes(16).toString('base64url'),
    use: 'relay',
    vc: { '@context': [CREDENTIALS_V1], type: [...TYPES], credentialSubject: { id: userDid } }
  }
  return createVerifiableCredentialJwt(payload, { did: serviceDid, signer, alg: 'ES256K' })
}

/**
 * Verifies a relay token: format, header, claims, signature and times, in this order. `exp` has no tolerance; `nbf` may
 * be up to 5 s in the future.
 *
 * @throws DidAuthError ERR_ACCESS_TOKEN; ERR_ACCESS_TOKEN_EXPIRED if it is valid except for its expiry
 */
export function verifyRelayToken(
  curve: Pick<Curve, 'sha256' | 'verify'>,
  token: string,
  expected: { serviceDids: readonly string[]; publicKey: Uint8Array; nowSeconds: number }
): RelayTokenClaims {
  const jwt = parseJwt(token, MAX_ACCESS_TOKEN_BYTES)
  const claims = jwt && isPlainEs256kHeader(jwt.header) ? parseClaims(jwt.payload, expected.serviceDids) : undefined
  if (jwt === undefined || claims === undefined || !isSignedBy(curve, jwt, expected.publicKey)) {
    throw new DidAuthError('ERR_ACCESS_TOKEN')
  }
  assertInForce(claims, expected.nowSeconds)
  return claims
}

function parseClaims(payload: Record<string, unknown>, serviceDids: readonly string[]): RelayTokenClaims | undefined {
  const { iss, sub, iat, nbf, exp, use, vc } = payload
  if (typeof iss !== 'string' || !serviceDids.includes(iss) || use !== 'relay' || !isDid(sub) || !isRelayCredential(vc))
    return undefined
  if (!isTime(iat) || !isTime(nbf) || !isTime(exp)) return undefined
  return { did: canonicalDid(sub), nbf, exp }
}

function isRelayCredential(vc: unknown): boolean {
  const type: unknown = isObject(vc) ? vc.type : undefined
  return Array.isArray(type) && type.length === TYPES.length && TYPES.every((name, index) => type[index] === name)
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value)
}

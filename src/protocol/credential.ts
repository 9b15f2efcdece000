import { DidAuthError } from '../errors.js'
import { NOT_BEFORE_TOLERANCE_SECONDS } from './access-token.js'
import { addressOfPublicKey, type Curve } from './curve.js'
import { parseDateTime } from './date-time.js'
import { canonicalDid, isDid } from './did.js'
import { isInRange } from './ecdsa-signature.js'
import { isObject } from './json.js'
import { parseJwt, type ParsedJwt } from './jwt.js'

/** Credentials that a sign up may carry, and bytes that each may have. */
export const MAX_CREDENTIALS = 20
export const MAX_CREDENTIAL_BYTES = 16 * 1024

const COMPACT_JWT = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
const ALGORITHMS: ReadonlySet<unknown> = new Set(['ES256K', 'ES256K-R', 'ES256', 'EdDSA'])

/** A verifiable credential in JWT form, decoded. */
export interface VerifiedCredential {
  /** The compact JWT as received. */
  jwt: string
  /** DID that signed it. */
  issuer: string
  /** The user's DID as the credential spells it; undefined when it names no subject. */
  subject: string | undefined
  /** `vc.type`, always an array. */
  type: string[]
  credentialSubject: Record<string, unknown>
  /** Seconds since the Unix epoch; undefined when it never ends. */
  expiresAtSeconds: number | undefined
  /** The whole `vc` claim. */
  vc: Record<string, unknown>
}

/** A credential whose form, subject and dates are good. Its signature is not verified yet. */
export interface UnprovedCredential {
  credential: VerifiedCredential
  parsed: ParsedJwt
}

/**
 * Parses the credentials field of a sign up; absent is none.
 *
 * A JWT holds no comma, so that the join of what passes here is unambiguous in the signed message.
 *
 * @throws DidAuthError ERR_REQUEST
 */
export function parseCredentialJwts(value: unknown): string[] {
  if (value === undefined) return []
  if (!Array.isArray(value) || value.length > MAX_CREDENTIALS || !value.every(isCompactJwt)) {
    throw new DidAuthError('ERR_REQUEST')
  }
  return value
}

function isCompactJwt(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_CREDENTIAL_BYTES && COMPACT_JWT.test(value)
}

/**
 * Parses a credential and asserts what needs no key: form, header, dates, and that its subject is the user.
 *
 * @param toleranceSeconds - how far its beginning may lie ahead, by `nbf`, `iat`, `issuanceDate` or `validFrom`; its end has
 *   no tolerance
 * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED
 * @see W3C Verifiable Credentials Data Model 1.1, section 6.3.1
 */
export function parseCredential(
  jwt: string,
  userDid: string,
  nowSeconds: number,
  toleranceSeconds = NOT_BEFORE_TOLERANCE_SECONDS
): UnprovedCredential {
  const parsed = parseJwt(jwt, MAX_CREDENTIAL_BYTES)
  if (parsed === undefined || !isCredentialHeader(parsed.header)) throw new DidAuthError('ERR_CREDENTIAL')
  const { iss, sub, vc } = parsed.payload
  if (!isDid(iss) || !isObject(vc) || !isObject(vc.credentialSubject) || !isIssuedBy(vc.issuer, iss)) {
    throw new DidAuthError('ERR_CREDENTIAL')
  }
  const credential = {
    jwt,
    issuer: iss,
    subject: parseSubject([sub, vc.credentialSubject.id], userDid),
    type: parseType(vc.type),
    credentialSubject: vc.credentialSubject,
    expiresAtSeconds: assertDates(parsed.payload, vc, nowSeconds, toleranceSeconds),
    vc
  }
  return { credential, parsed }
}

// Fields outside this list could change what the signature means (crit, b64) or where its key comes from (jwk, jku).
function isCredentialHeader(header: Record<string, unknown>): boolean {
  return (
    ALGORITHMS.has(header.alg) &&
    (header.typ === undefined || header.typ === 'JWT') &&
    (header.kid === undefined || typeof header.kid === 'string') &&
    Object.keys(header).every((name) => name === 'alg' || name === 'typ' || name === 'kid')
  )
}

/** The `vc` claim may name its issuer a second time; another name there would mislead business logic. */
function isIssuedBy(issuer: unknown, iss: string): boolean {
  return issuer === undefined || (isObject(issuer) ? issuer.id : issuer) === iss
}

function parseSubject(subjects: unknown[], userDid: string): string | undefined {
  const named = subjects.filter((subject) => subject !== undefined)
  if (!named.every((subject) => isDid(subject) && canonicalDid(subject) === canonicalDid(userDid))) {
    throw new DidAuthError('ERR_CREDENTIAL')
  }
  return named[0] as string | undefined
}

function parseType(value: unknown): string[] {
  const type: unknown[] = Array.isArray(value) ? value : [value]
  if (!type.every((name) => typeof name === 'string') || !type.includes('VerifiableCredential')) {
    throw new DidAuthError('ERR_CREDENTIAL')
  }
  return type
}

/** Asserts the dates of both spellings, JWT claims and `vc` fields, and returns the earliest end. */
function assertDates(
  payload: Record<string, unknown>,
  vc: Record<string, unknown>,
  nowSeconds: number,
  toleranceSeconds: number
): number | undefined {
  const { nbf, iat, exp } = payload
  // Without `nbf` a credential starts when it was made, as did-jwt reads it.
  const starts = [numericDate(nbf === undefined ? iat : nbf), isoDate(vc.issuanceDate), isoDate(vc.validFrom)]
  const ends = [numericDate(exp), isoDate(vc.expirationDate), isoDate(vc.validUntil)].filter(isNumber)
  const latestStart = nowSeconds + toleranceSeconds
  if (starts.filter(isNumber).some((start) => start > latestStart)) throw new DidAuthError('ERR_CREDENTIAL')
  if (ends.some((end) => end <= nowSeconds)) throw new DidAuthError('ERR_CREDENTIAL_EXPIRED')
  return ends.length === 0 ? undefined : Math.min(...ends)
}

function numericDate(value: unknown): number | undefined {
  if (value === undefined) return undefined
  if (!isNumber(value) || !Number.isFinite(value)) throw new DidAuthError('ERR_CREDENTIAL')
  return value
}

function isoDate(value: unknown): number | undefined {
  if (value === undefined) return undefined
  const milliseconds = typeof value === 'string' ? parseDateTime(value) : Number.NaN
  if (Number.isNaN(milliseconds)) throw new DidAuthError('ERR_CREDENTIAL')
  return milliseconds / 1000
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number'
}

/**
 * The addresses whose key can have signed a JWT: two for ES256K (64 bytes fit two keys), one for ES256K-R, none for
 * another algorithm or a signature that is none.
 *
 * @returns addresses in lower case with `0x`
 */
export function signerAddresses(
  curve: Pick<Curve, 'sha256' | 'keccak256Hex' | 'recover'>,
  { header, signature, signingInput }: ParsedJwt
): string[] {
  const recoveries = recoveriesOf(header.alg, signature)
  if (recoveries.length === 0 || !isInRange(signature)) return []
  const hash = curve.sha256(signingInput)
  return recoveries.flatMap((recovery) => {
    const publicKey = curve.recover(hash, signature.subarray(0, 64), recovery)
    return publicKey === undefined ? [] : [addressOfPublicKey(curve, publicKey)]
  })
}

function recoveriesOf(alg: unknown, signature: Uint8Array): number[] {
  if (alg === 'ES256K' && signature.length === 64) return [0, 1]
  const recovery = signature[64]
  return alg === 'ES256K-R' && signature.length === 65 && (recovery === 0 || recovery === 1) ? [recovery] : []
}

import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import { NOT_BEFORE_TOLERANCE_SECONDS } from './access-token.js'
import { addressOfPublicKey, type Curve } from './curve.js'
import { canonicalDid, isDid } from './did.js'
import { isInRange, P_256_ORDER, toLowS } from './ecdsa-signature.js'
import { parseDateTime } from './encoding.js'
import { dropProtoKeys, isObject } from './json.js'
import { parseJwt, type ParsedJwt } from './jwt.js'

/** Credentials that a sign up may carry, and bytes that each may have. */
export const MAX_CREDENTIALS = 20
export const MAX_CREDENTIAL_BYTES = 16 * 1024

const COMPACT_JWT = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
const ALGORITHMS: ReadonlySet<unknown> = new Set(['ES256K', 'ES256K-R', 'ES256', 'EdDSA'])

/** A verifiable credential in JWT form, decoded. */
export interface VerifiedCredential {
  /** The compact JWT as received, with the low s of the two that verify, so that a credential has one text. */
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

/** A credential whose form, subject and dates are valid. Its signature is not verified yet. */
export type UnprovedCredential = { credential: VerifiedCredential; parsed: ParsedJwt }

/** Parses JWTs; absent is none. No JWT has a comma, by which a message joins them. @throws DidAuthError ERR_REQUEST */
export function parseCredentialJwts(value: unknown): string[] {
  if (value === undefined) return []
  if (Array.isArray(value) && value.length <= MAX_CREDENTIALS && value.every(isCompactJwt)) return value
  const expected = `an array of at most ${MAX_CREDENTIALS} compact JWTs of at most 16 KiB`
  throw new DidAuthError('ERR_REQUEST', { reason: { check: 'credentials', expected, got: typeof value } })
}

function isCompactJwt(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_CREDENTIAL_BYTES && COMPACT_JWT.test(value)
}

/**
 * Parses a credential and asserts what needs no key: form, header, dates, and that its subject is the user. Own
 * `__proto__` keys are dropped from `vc`, so that business logic that copies a credential changes no prototype.
 * @param subjectDids - whom the credential may be about, where it names a subject: the user's DID, or several
 * @param toleranceSeconds - how far its beginning may be ahead, by `nbf`, `iat`, `issuanceDate` or `validFrom`; its
 *   end has no tolerance
 * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED
 * @see W3C Verifiable Credentials Data Model 1.1, section 6.3.1
 */
export function parseCredential(
  jwt: string,
  subjectDids: string | readonly string[],
  nowSeconds: number,
  toleranceSeconds = NOT_BEFORE_TOLERANCE_SECONDS
): UnprovedCredential {
  const parsed = parseJwt(jwt, MAX_CREDENTIAL_BYTES)
  if (parsed === undefined || !isCredentialHeader(parsed.header)) {
    throw createRefusal('form', `a compact JWT with alg ${[...ALGORITHMS].join(', ')}`)
  }
  const { iss, sub, vc } = parsed.payload
  if (!isDid(iss)) throw createRefusal('iss', 'a DID')
  if (!isObject(vc) || !isObject(vc.credentialSubject)) throw createRefusal('vc', 'an object with a credentialSubject')
  // Another name there would mislead business logic.
  const named = isObject(vc.issuer) ? vc.issuer.id : vc.issuer
  if (vc.issuer !== undefined && named !== iss) throw createRefusal('vc.issuer', 'absent, or equal to iss')
  dropProtoKeys(vc)
  const credential = {
    jwt: normalizeS(jwt, parsed),
    issuer: iss,
    subject: parseSubject([sub, vc.credentialSubject.id], [subjectDids].flat()),
    type: parseType(vc.type),
    credentialSubject: vc.credentialSubject,
    expiresAtSeconds: assertDates(parsed.payload, vc, nowSeconds, toleranceSeconds),
    vc
  }
  return { credential, parsed }
}

/** Normalises s: anybody can replace it by n - s, and flip the recovery bit. Ed25519 has no such twin. */
function normalizeS(jwt: string, { header, signature, signingInput }: ParsedJwt): string {
  if (header.alg === 'EdDSA' || signature.length < 64) return jwt
  const received = signature.subarray(0, 64)
  const low = header.alg === 'ES256' ? toLowS(received, P_256_ORDER) : toLowS(received)
  if (low === received) return jwt
  const recovery = signature.subarray(64).map((bit) => bit ^ 1)
  return `${signingInput}.${Buffer.from([...low, ...recovery]).toString('base64url')}`
}

// Other fields could change what the signature means (crit, b64) or the source of its key (jwk, jku).
function isCredentialHeader(header: Record<string, unknown>): boolean {
  return (
    ALGORITHMS.has(header.alg) &&
    (header.typ === undefined || header.typ === 'JWT') &&
    (header.kid === undefined || typeof header.kid === 'string') &&
    Object.keys(header).every((name) => name === 'alg' || name === 'typ' || name === 'kid')
  )
}

function parseSubject(subjects: unknown[], allowedDids: readonly string[]): string | undefined {
  const named = subjects.filter((subject) => subject !== undefined)
  const allowed = new Set(allowedDids.map(canonicalDid))
  if (!named.every((subject) => isDid(subject) && allowed.has(canonicalDid(subject)))) {
    throw createRefusal('sub, credentialSubject.id', 'absent, or a DID of the user')
  }
  return named[0] as string | undefined
}

function parseType(value: unknown): string[] {
  const type: unknown[] = Array.isArray(value) ? value : [value]
  if (!type.every((name) => typeof name === 'string') || !type.includes('VerifiableCredential')) {
    throw createRefusal('vc.type', 'texts with VerifiableCredential')
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
  // A credential that has no `nbf` starts when it was issued, as in did-jwt.
  const starts = [
    parseNumericDate(nbf === undefined ? iat : nbf),
    parseIsoDate(vc.issuanceDate),
    parseIsoDate(vc.validFrom)
  ]
  const ends = [parseNumericDate(exp), parseIsoDate(vc.expirationDate), parseIsoDate(vc.validUntil)]
  const latestStart = nowSeconds + toleranceSeconds
  if (starts.some((start = -Infinity) => start > latestStart)) throw createRefusal('begin', 'not ahead')
  const earliestEnd = Math.min(...ends.map((end = Infinity) => end))
  if (earliestEnd <= nowSeconds) throw new DidAuthError('ERR_CREDENTIAL_EXPIRED')
  return earliestEnd === Infinity ? undefined : earliestEnd
}

function parseNumericDate(value: unknown): number | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !Number.isFinite(value)) throw createRefusal('exp, nbf, iat', 'numbers')
  return value
}

function parseIsoDate(value: unknown): number | undefined {
  const date = parseDateTime(value)
  if (value !== undefined && date === undefined) throw createRefusal('dates of vc', 'RFC 3339 with an offset')
  return date
}

function createRefusal(check: string, expected: string): DidAuthError {
  return new DidAuthError('ERR_CREDENTIAL', { reason: { check, expected } })
}

/** Returns the addresses, lower case, whose key can have signed a JWT: two for ES256K, one for ES256K-R, else none. */
export function signerAddresses(curve: Pick<Curve, 'sha256' | 'keccak256Hex' | 'recover'>, jwt: ParsedJwt): string[] {
  return signerPublicKeys(curve, jwt).map((publicKey) => addressOfPublicKey(curve, publicKey))
}

/**
 * The public keys that can have signed a JWT, two for ES256K (64 bytes fit two keys). A key signed when it is among
 * them: recovery finds each key that verification would accept.
 * @returns 65 bytes each, uncompressed
 * @see SEC 1 version 2, section 4.1.6; an r that also represents r + n is not made by any signer (2^-128)
 */
export function signerPublicKeys(
  curve: Pick<Curve, 'sha256' | 'recover'>,
  { header, signature, signingInput }: ParsedJwt
): Uint8Array[] {
  const recoveries = listRecoveries(header.alg, signature)
  if (recoveries.length === 0 || !isInRange(signature)) return []
  const hash = curve.sha256(signingInput)
  return recoveries.flatMap((recovery) => curve.recover(hash, signature.subarray(0, 64), recovery) ?? [])
}

function listRecoveries(alg: unknown, signature: Uint8Array): number[] {
  if (alg === 'ES256K' && signature.length === 64) return [0, 1]
  const recovery = signature[64]
  return alg === 'ES256K-R' && signature.length === 65 && (recovery === 0 || recovery === 1) ? [recovery] : []
}

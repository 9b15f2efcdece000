import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import { NOT_BEFORE_TOLERANCE_SECONDS } from './access-token.js'
import { addressOfPublicKey, type Curve } from './curve.js'
import { canonicalDid, isDid } from './did.js'
import { isInRange, P_256_ORDER, toLowS } from './ecdsa-signature.js'
import { parseDateTime } from './encoding.js'
import { dropProtoKeys, isObject } from './json.js'
import { parseJwt, type ParsedJwt } from './jwt.js'

/** Maximum number of credentials in a sign up. */
export const MAX_CREDENTIALS = 20
/** Maximum length of a credential, in bytes. */
export const MAX_CREDENTIAL_BYTES = 16 * 1024

const COMPACT_JWT = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
const ALGORITHMS: ReadonlySet<unknown> = new Set(['ES256K', 'ES256K-R', 'ES256', 'EdDSA'])

/** A verifiable credential in JWT form, decoded. */
export interface VerifiedCredential {
  /** The compact JWT. A high s is replaced by its low twin, so that each credential has a single text. */
  jwt: string
  /** DID of the issuer, which signed the credential. */
  issuer: string
  /** The user's DID as the credential spells it. Undefined if the credential names no subject. */
  subject: string | undefined
  /** `vc.type`, always an array. */
  type: string[]
  /** `vc.credentialSubject`: the issuer's statements about the user. */
  credentialSubject: Record<string, unknown>
  /** Seconds since the Unix epoch. Undefined if the credential never expires. */
  expiresAtSeconds: number | undefined
  /** The whole `vc` claim. */
  vc: Record<string, unknown>
}

/** A credential with valid form, subject and dates. Its signature is not verified yet. */
export type UnprovedCredential = { credential: VerifiedCredential; parsed: ParsedJwt }

/**
 * Parses the JWTs of a sign up; an absent value means none. JWTs with a comma are refused, because the signed message
 * joins them by commas.
 * @throws DidAuthError ERR_REQUEST
 */
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
 * Parses a credential and checks everything except its signature: form, header, dates, and that its subject is the
 * user. It deletes own `__proto__` keys from `vc`, so that copying a credential in business logic changes no prototype.
 * @param subjectDids - allowed subjects if the credential names one: the user's DID, or several
 * @param toleranceSeconds - tolerance for its start (`nbf`, `iat`, `issuanceDate`, `validFrom`); its end has none
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
  // A different issuer in `vc` would mislead business logic.
  const vcIssuer = isObject(vc.issuer) ? vc.issuer.id : vc.issuer
  if (vc.issuer !== undefined && vcIssuer !== iss) throw createRefusal('vc.issuer', 'absent, or equal to iss')
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

/**
 * Replaces a high s by n - s, and flips the recovery bit, because anyone can do the opposite to a valid signature.
 * Ed25519 signatures have no such twin.
 */
function normalizeS(jwt: string, { header, signature, signingInput }: ParsedJwt): string {
  if (header.alg === 'EdDSA' || signature.length < 64) return jwt
  const received = signature.subarray(0, 64)
  const low = header.alg === 'ES256' ? toLowS(received, P_256_ORDER) : toLowS(received)
  if (low === received) return jwt
  const recovery = signature.subarray(64).map((bit) => bit ^ 1)
  return `${signingInput}.${Buffer.from([...low, ...recovery]).toString('base64url')}`
}

/**
 * Whether a header has an accepted algorithm and `typ`. Other fields could change the meaning of the signature (`crit`,
 * `b64`) or the source of its key (`jwk`, `jku`).
 */
export function isCredentialHeader(
  header: Record<string, unknown>,
  typs: readonly unknown[] = [undefined, 'JWT']
): boolean {
  return (
    ALGORITHMS.has(header.alg) &&
    typs.includes(header.typ) &&
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

/** Parses `vc.type`. @throws DidAuthError ERR_CREDENTIAL */
export function parseType(value: unknown): string[] {
  const type: unknown[] = Array.isArray(value) ? value : [value]
  if (!type.every((name) => typeof name === 'string') || !type.includes('VerifiableCredential')) {
    throw createRefusal('vc.type', 'texts with VerifiableCredential')
  }
  return type
}

/**
 * Checks the dates in JWT claims and in `vc` fields.
 * @returns the earliest end; undefined if there is none
 * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED
 */
export function assertDates(
  payload: Record<string, unknown>,
  vc: Record<string, unknown>,
  nowSeconds: number,
  toleranceSeconds = NOT_BEFORE_TOLERANCE_SECONDS
): number | undefined {
  const { nbf, iat, exp } = payload
  // If `nbf` is absent, the credential starts at `iat`, as in did-jwt.
  const starts = [
    parseNumericDate(nbf === undefined ? iat : nbf),
    parseIsoDate(vc.issuanceDate),
    parseIsoDate(vc.validFrom)
  ]
  const ends = [parseNumericDate(exp), parseIsoDate(vc.expirationDate), parseIsoDate(vc.validUntil)]
  const latestStart = nowSeconds + toleranceSeconds
  if (starts.some((start = -Infinity) => start > latestStart)) throw createRefusal('start', 'not in the future')
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

/** Creates the error of a credential that fails a check. */
export function createRefusal(check: string, expected: string): DidAuthError {
  return new DidAuthError('ERR_CREDENTIAL', { reason: { check, expected } })
}

/** Returns the addresses (lower case) that may have signed a JWT: two for ES256K, one for ES256K-R, else none. */
export function signerAddresses(curve: Pick<Curve, 'sha256' | 'keccak256Hex' | 'recover'>, jwt: ParsedJwt): string[] {
  return signerPublicKeys(curve, jwt).map((publicKey) => addressOfPublicKey(curve, publicKey))
}

/**
 * Recovers the public keys that may have signed a JWT. An ES256K signature of 64 bytes matches two keys. A key made the
 * signature exactly if it is one of them.
 * @returns uncompressed keys, 65 bytes each
 * @see SEC 1 version 2, section 4.1.6. Signers produce an r that also represents r + n with probability 2^-128 only
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

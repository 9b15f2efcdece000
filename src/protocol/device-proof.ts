import { DidAuthError } from '../errors.js'
import type { Curve } from './curve.js'
import { decodeBase64url, encodeBase64url } from './encoding.js'
import { isObject } from './json.js'
import { parseJwt } from './jwt.js'
import { parseHttpUrl } from './parse-url.js'

/** Maximum length of a device proof in characters. A longer proof is refused without parsing. */
export const MAX_DEVICE_PROOF_LENGTH = 2048

/** Maximum length of `jti`, which is otherwise not used: a proof may be repeated while its nonce is valid. */
const MAX_ID_LENGTH = 128

/** Public P-256 key of a device as JWK, without further members. */
export interface DeviceKey {
  readonly kty: 'EC'
  readonly crv: 'P-256'
  /** Coordinates of the point, 32 bytes each in base64url. */
  readonly x: string
  readonly y: string
}

/** A well-formed device proof. Its signature, nonce and request are not verified yet. */
export interface DeviceProof {
  key: DeviceKey
  /** Method of the request that the proof is for. */
  htm: string
  /** URL of that request. */
  htu: string
  nonce: string | undefined
  /** Hash of the access token that the request presents, base64url. */
  ath: string | undefined
  signingInput: string
  signature: Uint8Array
}

/** The request that a device proof has to name. */
export interface ProvedRequest {
  method: string
  /** Origins under which clients reach the service. */
  origins: ReadonlySet<string>
  /** Paths under which clients may see the route, without query. A proxy may have removed the first part. */
  paths: readonly string[]
}

/**
 * Parses the value of a `DPoP` header: a JWT with exactly the header members `typ`, `alg` and `jwk`. Unknown members of
 * the payload are ignored. The time `iat` is not compared, because `nonce` proves the age by the clock of the service.
 * @throws DidAuthError ERR_DEVICE_PROOF
 * @see RFC 9449, sections 4.2 and 4.3
 */
export function parseDeviceProof(received: unknown): DeviceProof {
  const jwt = parseJwt(received, MAX_DEVICE_PROOF_LENGTH)
  if (jwt === undefined) throw createProofRefusal('DPoP', 'one compact JWT of at most 2048 characters')
  const { typ, alg, jwk, ...others } = jwt.header
  const key = parseDeviceKey(jwk)
  if (typ !== 'dpop+jwt' || alg !== 'ES256' || key === undefined || Object.keys(others).length > 0) {
    throw createProofRefusal('header', 'typ dpop+jwt, alg ES256, and jwk with kty, crv P-256, x, y')
  }
  const { jti, htm, htu, iat, nonce, ath } = jwt.payload
  const isId = typeof jti === 'string' && jti !== '' && jti.length <= MAX_ID_LENGTH
  if (!isId || typeof htm !== 'string' || typeof htu !== 'string' || !Number.isFinite(iat)) {
    throw createProofRefusal('payload', 'jti of 1 to 128 characters, htm, htu, and iat as a number')
  }
  if (!isOptionalText(nonce) || !isOptionalText(ath)) throw createProofRefusal('nonce, ath', 'strings')
  if (jwt.signature.length !== 64) throw createProofRefusal('signature', '64 bytes')
  const { signingInput, signature } = jwt
  return { key, htm, htu, nonce, ath, signingInput, signature }
}

/** Asserts that a proof names this request. Query and fragment are ignored. @throws DidAuthError ERR_DEVICE_PROOF */
export function assertProvesRequest({ htm, htu }: DeviceProof, { method, origins, paths }: ProvedRequest): void {
  if (htm !== method) throw createProofRefusal('htm', method)
  const url = parseHttpUrl(htu)
  if (url === undefined || !origins.has(url.origin)) {
    const facts = { expected: [...origins], got: url?.host.slice(0, 255), option: 'trustedOrigins' }
    throw new DidAuthError('ERR_DEVICE_PROOF', { reason: { check: 'htu', ...facts } })
  }
  if (url.username + url.password !== '' || !paths.includes(url.pathname)) {
    throw createProofRefusal('htu', 'the path of this request', paths)
  }
}

/** Computes the thumbprint of a device's key, base64url. @see RFC 7638, section 3 */
export function computeThumbprint(curve: Pick<Curve, 'sha256'>, { kty, crv, x, y }: DeviceKey): string {
  return hashToBase64url(curve, JSON.stringify({ crv, kty, x, y }))
}

/** Computes `ath`, the hash of the access token that a request presents. @see RFC 9449, section 4.2 */
export function computeTokenHash(curve: Pick<Curve, 'sha256'>, accessToken: string): string {
  return hashToBase64url(curve, accessToken)
}

/** Finds the thumbprint of the key to which claims are bound; undefined if they are not bound. @see RFC 7800 */
export function findBoundKey(claims: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const confirmation = claims?.cnf
  if (!isObject(confirmation)) return undefined
  return typeof confirmation.jkt === 'string' ? confirmation.jkt : undefined
}

/** Creates the error of a refused device proof. The reason is only logged. */
export function createProofRefusal(check: string, expected: string, accepted?: readonly string[]): DidAuthError {
  const reason = { check, expected, ...(accepted !== undefined && { accepted }) }
  return new DidAuthError('ERR_DEVICE_PROOF', { reason })
}

function parseDeviceKey(jwk: unknown): DeviceKey | undefined {
  if (!isObject(jwk)) return undefined
  const { kty, crv, x, y, ...others } = jwk
  const isKey = kty === 'EC' && crv === 'P-256' && isCoordinate(x) && isCoordinate(y)
  return isKey && Object.keys(others).length === 0 ? { kty, crv, x, y } : undefined
}

function isCoordinate(value: unknown): value is string {
  return typeof value === 'string' && decodeBase64url(value)?.length === 32
}

function isOptionalText(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string'
}

function hashToBase64url(curve: Pick<Curve, 'sha256'>, text: string): string {
  return encodeBase64url(curve.sha256(text))
}

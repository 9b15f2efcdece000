import { DidAuthError } from '../errors.js'
import { addressOfPublicKey, type Curve } from './curve.js'
import { describeValue } from './describe-value.js'
import { isMachineDid } from './did.js'
import { toLowS } from './ecdsa-signature.js'
import { parseJwt } from './jwt.js'
import { isOwnAudience } from './parse-url.js'
import type { MachineKey } from './machine-did.js'

/** Value of `client_assertion_type`. @see RFC 7523, section 2.2 */
export const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** Maximum length of an assertion in characters. A longer one is refused without parsing. */
export const MAX_ASSERTION_LENGTH = 4096

/** Tolerance for `nbf` and `iat`, in seconds. */
const CLOCK_TOLERANCE_SECONDS = 60

/** Time for which an assertion may be valid, in seconds: 300 by the client's clock, which may be ahead. */
export const MAX_ASSERTION_SECONDS = 300 + CLOCK_TOLERANCE_SECONDS

/** Accepted values of `typ`, the last one of draft-ietf-oauth-rfc7523bis. */
const TYPES: readonly unknown[] = [undefined, 'JWT', 'client-authentication+jwt']

/** Claims of other JWTs that a holder of a DID signs: access tokens, credentials, disclosure requests. */
const FOREIGN_CLAIMS = ['use', 'sid', 'vc', 'vp', 'type']

/** A well-formed assertion for this service. Its signature is not verified yet, and it may have been used before. */
export interface ClientAssertion {
  did: string
  alg: string
  jti: string
  /** Seconds since the Unix epoch. */
  exp: number
  signingInput: string
  signature: Uint8Array
}

/**
 * Parses the assertion by which a machine proves its DID. Key ids and keys in its header are ignored, because the key
 * follows from the DID.
 * @param audiences - URLs of this service: `aud` is one of them, or a list of such URLs
 * @throws DidAuthError ERR_CLIENT_ASSERTION
 * @see RFC 7523, section 3
 */
export function parseClientAssertion(
  received: unknown,
  { audiences, nowSeconds }: { audiences: readonly string[]; nowSeconds: number }
): ClientAssertion {
  const jwt = parseJwt(received, MAX_ASSERTION_LENGTH)
  if (jwt === undefined) throw createAssertionRefusal('form', 'a compact JWT of at most 4096 characters')
  const { alg, typ, crit, b64 } = jwt.header
  if (typeof alg !== 'string' || !TYPES.includes(typ) || crit !== undefined || b64 !== undefined) {
    throw createAssertionRefusal('header', 'alg, typ JWT or absent, no crit, no b64')
  }
  const { iss, sub, aud, exp, jti, nbf, iat } = jwt.payload
  if (!isMachineDid(iss) || sub !== iss) throw createAssertionRefusal('iss, sub', 'one DID of at most 512 characters')
  if (!isOwnAudience(aud, audiences)) {
    const listed: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
    throw createAssertionRefusal('aud', audiences, listed.map(describeValue))
  }
  if (typeof jti !== 'string' || jti.length < 8 || jti.length > 128) {
    throw createAssertionRefusal('jti', '8 to 128 characters')
  }
  if (FOREIGN_CLAIMS.some((name) => Object.hasOwn(jwt.payload, name))) {
    throw createAssertionRefusal('kind', `no ${FOREIGN_CLAIMS.join(', ')}`)
  }
  if (!isTime(exp) || exp <= nowSeconds || exp > nowSeconds + MAX_ASSERTION_SECONDS) {
    throw createAssertionRefusal('exp', 'a time in the next 360 seconds')
  }
  for (const start of [nbf, iat]) {
    if (start === undefined) continue
    if (!isTime(start) || start > nowSeconds + CLOCK_TOLERANCE_SECONDS) {
      throw createAssertionRefusal('nbf, iat', 'past times, with 60 seconds of tolerance')
    }
  }
  return { did: iss, alg, jti, exp, signingInput: jwt.signingInput, signature: jwt.signature }
}

/** Creates the error of a refused assertion. The reason is only logged. */
export function createAssertionRefusal(
  check: string,
  expected: string | readonly string[],
  got?: readonly string[]
): DidAuthError {
  return new DidAuthError('ERR_CLIENT_ASSERTION', { reason: { check, expected, ...(got !== undefined && { got }) } })
}

/** Signed text of an assertion, and its signature. */
type Signed = Pick<ClientAssertion, 'signingInput' | 'signature'>

/**
 * Whether a key of secp256k1 made an ES256K signature. A high s is accepted, because RFC 8812 allows it, and `jti`
 * prevents a second use.
 * @see RFC 8812, section 3.2
 */
export function isEs256kSignature(
  curve: Pick<Curve, 'sha256' | 'verify' | 'decompress'>,
  { signingInput, signature }: Signed,
  { bytes }: Pick<MachineKey, 'bytes'>
): boolean {
  if (signature.length !== 64) return false
  const publicKey = bytes.length === 33 ? curve.decompress(bytes) : bytes
  return publicKey !== undefined && curve.verify(curve.sha256(signingInput), toLowS(signature), publicKey)
}

/** Finds which of several addresses made an ES256K signature, as {@link isEs256kSignature}; undefined if none did. */
export function findEs256kSigner(
  curve: Pick<Curve, 'sha256' | 'recover' | 'keccak256Hex'>,
  { signingInput, signature }: Signed,
  addresses: ReadonlySet<string>
): string | undefined {
  if (signature.length !== 64) return undefined
  const [hash, lowS] = [curve.sha256(signingInput), toLowS(signature)]
  const keys = [0, 1].flatMap((recovery) => curve.recover(hash, lowS, recovery) ?? [])
  return keys.map((key) => addressOfPublicKey(curve, key)).find((address) => addresses.has(address))
}

/** Whether a value is a NumericDate: seconds, which may have a fraction. @see RFC 7519, section 2 */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}

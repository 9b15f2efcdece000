import { canonicalDid, type Curve, DidAuthError, type JsonObject, loadCurve } from 'express-did-auth'
import {
  assertInForce,
  isDid,
  isPlainEs256kHeader,
  isSignedBy,
  MAX_ACCESS_TOKEN_BYTES,
  parseJwt
} from 'express-did-auth/protocol'

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

/**
 * The payload of a new token: a W3C credential of the service about the user. It names no audience, so that did-jwt-vc
 * verifies it as it is; `use` keeps it apart from everything else that the service's key signs.
 */
export function relayTokenPayload(token: NewRelayToken): JsonObject {
  const { serviceDid, userDid, tokenId, nowSeconds, lifetimeSeconds } = token
  return {
    iss: serviceDid,
    sub: userDid,
    iat: nowSeconds,
    nbf: nowSeconds,
    exp: nowSeconds + lifetimeSeconds,
    jti: tokenId,
    use: 'relay',
    vc: {
      '@context': ['https://www.w3.org/2018/credentials/v1'],
      type: [...TYPES],
      credentialSubject: { id: userDid }
    }
  }
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

/** The service's key, at hand in this process. */
export interface ServiceKey {
  curve: Curve
  /** 65 bytes, uncompressed. */
  publicKey: Uint8Array
  /** 64 bytes, low s. */
  sign: (data: string) => Promise<Uint8Array>
}

/** @param privateKey - 64 hexadecimal digits, with or without `0x` */
export async function loadServiceKey(privateKey: string): Promise<ServiceKey> {
  const curve = await loadCurve()
  const key = Buffer.from(privateKey.replace(/^0x/, ''), 'hex')
  const publicKey = curve.publicKeyOf(key)
  if (publicKey === undefined) throw new TypeError('PRIVATE_KEY is no private key of secp256k1')
  return { curve, publicKey, sign: async (data) => curve.sign(curve.sha256(data), key).signature }
}

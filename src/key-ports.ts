import type { JsonObject } from './protocol/json.js'
import type { Deadline } from './time.js'

/**
 * A did-jwt ES256K signer: signs the SHA-256 hash of `data`.
 * @returns 64 or 65 bytes as base64url, or r and s in hexadecimal
 */
export type Signer = (
  data: string | Uint8Array
) => Promise<string | { r: string; s: string; recoveryParam?: number | undefined }>

/** The service's key, which signs its tokens. */
export interface ServiceKey {
  /** Returns the uncompressed public key, 65 bytes. @throws DidAuthError ERR_SIGNER */
  publicKey(): Promise<Uint8Array>
  /** Signs a JWT with ES256K. @param typ - default `JWT` @throws DidAuthError ERR_SIGNER */
  issueJwt(payload: JsonObject & { iss: string; iat: number }, deadline: Deadline, typ?: string): Promise<string>
}

/** A private P-256 key as JWK (RFC 7518, section 6.2). Other members are ignored. */
export type ResourceKey = { readonly [Member in 'kty' | 'crv' | 'x' | 'y' | 'd']?: string | undefined }

/** A P-256 key that is stored elsewhere, such as in a key management service. Its `kid` is its RFC 7638 thumbprint. */
export interface ExternalResourceKey {
  /** Public half as JWK. Every signature is verified with it. */
  readonly publicKey: Readonly<Record<'kty' | 'crv' | 'x' | 'y', string>>
  /** Signs data with ES256. Returns 64 bytes, r then s. A call of more than 10 s counts as failed (ERR_SIGNER). */
  sign(data: Uint8Array): Promise<Uint8Array>
}

/** Keys that sign tokens for other services. The first key signs; all public keys are published as a JWK set. */
export interface ResourceKeys {
  /** Issues a token. @throws DidAuthError ERR_SIGNER if an external key fails or is late */
  sign(claims: JsonObject, deadline: Deadline): Promise<string>
  publish(): Promise<{ keys: readonly object[] }>
}

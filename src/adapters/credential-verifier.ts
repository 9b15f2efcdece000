import { Buffer } from 'node:buffer'
import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { CredentialClient, CredentialVerifier, Curve, Scheduler } from '../ports.js'
import { parseCredential, signerPublicKeys, type UnprovedCredential } from '../protocol/credential.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import type { ParsedJwt } from '../protocol/jwt.js'
import { noDeadline } from '../time.js'
import { REQUEST_SECONDS } from '../time-limits.js'
import type { IssuerKeys } from './cached-issuer-keys.js'
import { toAbsoluteKeyId, isSecp256k1Key, listKeyForms, type IssuerKey, type ListedKey } from './did-document.js'

/** Maximum number of an issuer's keys that are tried for one credential. */
const MAX_KEYS = 3

const SIGNATURE_BYTES = 64

/** DER prefixes of public keys, by the length of the key in bytes. @see RFC 5480, RFC 8410 */
const P_256_PREFIXES: ReadonlyMap<number, string> = new Map([
  [33, '3039301306072a8648ce3d020106082a8648ce3d030107032200'],
  [65, '3059301306072a8648ce3d020106082a8648ce3d030107034200']
])
const ED25519_PREFIX = '302a300506032b6570032100'

export interface IssuerSignatureParts {
  curve: Curve
  scheduler: Pick<Scheduler, 'yield'>
  issuerKeys: IssuerKeys
  /** Whether the address in a did:ethr proves the issuer, so that no node is called. */
  provesByAddress: boolean
}

/**
 * Whether one of an issuer's keys signed a JWT. Each tried key is charged to the client, and yields to the event loop
 * first.
 * @throws DidAuthError ERR_CREDENTIAL_ISSUER, ERR_RESOLVER, ERR_BUSY, ERR_TOO_MANY_REQUESTS, ERR_STORE
 */
export type IsSignedByIssuer = (issuer: string, jwt: ParsedJwt, client: CredentialClient) => Promise<boolean>

export interface CredentialVerifierParts {
  isSigned: IsSignedByIssuer
  /** Check of each issuer before its DID is resolved. Absent: every issuer with a valid signature is accepted. */
  isTrustedIssuer?: ((issuerDid: string) => unknown) | undefined
}

/** Creates the check of signatures by issuers, for credentials and their status lists. */
export function createIssuerSignatureCheck(parts: IssuerSignatureParts): IsSignedByIssuer {
  const { curve, scheduler, issuerKeys, provesByAddress } = parts

  const loadKeys = async (issuer: string, client: CredentialClient): Promise<readonly ListedKey[]> => {
    if (!provesByAddress || !isEthrDid(issuer)) return issuerKeys.keysOf(issuer, client)
    try {
      return [{ id: undefined, kind: 'address', hex: addressOfDid(issuer, curve).slice(2) }]
    } catch (cause) {
      // The DID contains a public key that is no point of the curve, so that nobody can sign with it.
      throw new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause })
    }
  }

  return async (issuer, parsed, client) => {
    const { alg, kid } = parsed.header
    const keyId = typeof kid === 'string' ? toAbsoluteKeyId(issuer, kid) : undefined
    const keys = await loadKeys(issuer, client)
    // The key that the header names is tried first.
    const usableKeys = keys
      .filter((key) => canSign(String(alg), key))
      .sort((a, b) => Number(b.id === keyId) - Number(a.id === keyId))
    const beforeTrial = async (): Promise<void> => {
      await client.chargeKey()
      await scheduler.yield(client)
    }
    // The possible signers of a secp256k1 signature can be recovered, so that one trial covers any number of keys.
    if (usableKeys.length > 0 && (alg === 'ES256K' || alg === 'ES256K-R')) {
      await beforeTrial()
      const signers = signerPublicKeys(curve, parsed).flatMap((publicKey) => listKeyForms(curve, publicKey))
      return usableKeys.some(({ hex }) => signers.includes(hex))
    }
    for (const key of usableKeys.slice(0, MAX_KEYS)) {
      await beforeTrial()
      if (isSignedByIssuerKey(key, parsed)) return true
    }
    return false
  }
}

/**
 * Verifies credentials up to the first invalid one: form, subject and dates, then whether the issuers are trusted, then
 * the signatures by the issuers' keys. Cheap steps come first, because a client chooses the issuers of its credentials.
 */
export function createCredentialVerifier({ isSigned, isTrustedIssuer }: CredentialVerifierParts): CredentialVerifier {
  const assertTrusted = async (issuers: ReadonlySet<string>): Promise<void> => {
    if (isTrustedIssuer === undefined) return
    for (const issuer of issuers) {
      if (await isTrustedIssuer(issuer)) continue
      const cause = new Error('trustedIssuers does not accept the issuer of a credential')
      throw new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause })
    }
  }

  return {
    async verify(jwts, { did, client }, nowSeconds, deadline = noDeadline) {
      const unproved: UnprovedCredential[] = jwts.map((jwt) => parseCredential(jwt, did, nowSeconds))
      const issuers = new Set(unproved.map(({ credential }) => credential.issuer))
      await deadline.within(
        REQUEST_SECONDS,
        () => assertTrusted(issuers),
        createLateError('ERR_BUSINESS_LOGIC_TIMEOUT')
      )
      const assertSigned = async (): Promise<void> => {
        for (const { credential, parsed } of unproved) {
          if (!(await isSigned(credential.issuer, parsed, client))) throw new DidAuthError('ERR_CREDENTIAL')
        }
      }
      await deadline.within(REQUEST_SECONDS, assertSigned, createLateError('ERR_RESOLVER'))
      return unproved.map(({ credential }) => credential)
    }
  }
}

/** Creates the error of a step that took too long: `trustedIssuers`, or loading and trying the issuers' keys. */
const createLateError = (code: DidAuthErrorCode) => (): Error => new DidAuthError(code)

/** Whether a key can make signatures of an algorithm. */
function canSign(alg: string, key: IssuerKey): boolean {
  if (alg === 'EdDSA') return key.kind === 'Ed25519'
  return alg === 'ES256' ? key.kind === 'P-256' || key.kind === 'ecdsa' : isSecp256k1Key(key)
}

/** Whether a key made an ES256 or EdDSA signature; also false for an invalid key. @see RFC 7518, RFC 8037 */
export function isSignedByIssuerKey(key: IssuerKey, { header, signature, signingInput }: ParsedJwt): boolean {
  if (signature.length !== SIGNATURE_BYTES) return false
  const data = Buffer.from(signingInput)
  try {
    const publicKey = importKey(key)
    if (header.alg === 'EdDSA') return verify(null, data, publicKey, signature)
    return verify('sha256', data, { key: publicKey, dsaEncoding: 'ieee-p1363' }, signature)
  } catch {
    return false
  }
}

function importKey({ kind, hex }: IssuerKey): KeyObject {
  const prefix = kind === 'Ed25519' ? ED25519_PREFIX : (P_256_PREFIXES.get(hex.length / 2) ?? '')
  return createPublicKey({ key: Buffer.from(prefix + hex, 'hex'), format: 'der', type: 'spki' })
}

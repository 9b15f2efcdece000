import { Buffer } from 'node:buffer'
import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { CredentialClient, CredentialVerifier, Curve, Scheduler } from '../ports.js'
import { parseCredential, signerPublicKeys, type UnprovedCredential } from '../protocol/credential.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import type { ParsedJwt } from '../protocol/jwt.js'
import { ownTime } from '../current-request.js'
import type { IssuerKeys } from './cached-issuer-keys.js'
import { toAbsoluteKeyId, isSecp256k1Key, listKeyForms, type IssuerKey, type ListedKey } from './did-document.js'

/** Keys of an issuer that are tried, one after the other. */
const MAX_KEYS = 3
/** Time limit for all of it: `trustedIssuers`, which may be slow business logic, and all keys and signatures. */
const VERIFICATION_SECONDS = 10

const SIGNATURE_BYTES = 64

/** DER prefixes of keys, by the length of the key in bytes. See RFC 5480 and RFC 8410. */
const P_256_PREFIXES: ReadonlyMap<number, string> = new Map([
  [33, '3039301306072a8648ce3d020106082a8648ce3d030107032200'],
  [65, '3059301306072a8648ce3d020106082a8648ce3d030107034200']
])
const ED25519_PREFIX = '302a300506032b6570032100'

export interface CredentialVerifierParts {
  curve: Curve
  scheduler: Pick<Scheduler, 'yield'>
  issuerKeys: IssuerKeys
  /** Whether the address in a did:ethr issuer proves it, so that no network is needed. */
  provesByAddress: boolean
  /** Asked about every issuer before anything is resolved; absent: each issuer that is proved is accepted. */
  isTrustedIssuer?: ((issuerDid: string) => unknown) | undefined
}

/**
 * Verifies credentials: form, subject and dates by the protocol, then whether the issuer is trusted, then the signature
 * by the issuer's keys. The client that signs up chooses the issuers, so that each step costs little until the one
 * before has passed, up to the first bad credential. Each key tried is charged to the client, and yields before.
 */
export function createCredentialVerifier(parts: CredentialVerifierParts): CredentialVerifier {
  const { curve, scheduler, issuerKeys, provesByAddress, isTrustedIssuer } = parts

  const assertTrusted = async (issuers: ReadonlySet<string>): Promise<void> => {
    if (isTrustedIssuer === undefined) return
    for (const issuer of issuers) {
      if (await isTrustedIssuer(issuer)) continue
      const cause = new Error('trustedIssuers does not accept the issuer of a credential')
      throw new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause })
    }
  }

  const loadKeys = async (issuer: string, client: CredentialClient): Promise<readonly ListedKey[]> => {
    if (!provesByAddress || !isEthrDid(issuer)) return issuerKeys.keysOf(issuer, client)
    try {
      return [{ id: undefined, kind: 'address', hex: addressOfDid(issuer, curve).slice(2) }]
    } catch (cause) {
      // A public key that is not a point of the curve: no one can have signed with it.
      throw new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause })
    }
  }

  const isSigned = async ({ credential, parsed }: UnprovedCredential, client: CredentialClient): Promise<boolean> => {
    const { alg, kid } = parsed.header
    const named = typeof kid === 'string' ? toAbsoluteKeyId(credential.issuer, kid) : undefined
    const keys = await loadKeys(credential.issuer, client)
    const fitting = keys
      .filter((key) => canSign(String(alg), key))
      .sort((one, other) => Number(other.id === named) - Number(one.id === named))
    const beforeTrial = async (): Promise<void> => {
      await client.chargeKey()
      await scheduler.yield(client)
    }
    // A signature of secp256k1 tells the keys that can have made it: however many the issuer has, it is one trial.
    if (fitting.length > 0 && (alg === 'ES256K' || alg === 'ES256K-R')) {
      await beforeTrial()
      const signers = signerPublicKeys(curve, parsed).flatMap((publicKey) => listKeyForms(curve, publicKey))
      return fitting.some(({ hex }) => signers.includes(hex))
    }
    for (const key of fitting.slice(0, MAX_KEYS)) {
      await beforeTrial()
      if (isSignedByIssuerKey(key, parsed)) return true
    }
    return false
  }

  return {
    async verify(jwts, { did, client }, nowSeconds, deadline = ownTime) {
      const unproved: UnprovedCredential[] = jwts.map((jwt) => parseCredential(jwt, did, nowSeconds))
      const issuers = new Set(unproved.map(({ credential }) => credential.issuer))
      await deadline.within(
        VERIFICATION_SECONDS,
        () => assertTrusted(issuers),
        createLateError('ERR_BUSINESS_LOGIC_TIMEOUT')
      )
      const assertSigned = async (): Promise<void> => {
        for (const one of unproved) {
          if (!(await isSigned(one, client))) throw new DidAuthError('ERR_CREDENTIAL')
        }
      }
      await deadline.within(VERIFICATION_SECONDS, assertSigned, createLateError('ERR_RESOLVER'))
      return unproved.map(({ credential }) => credential)
    }
  }
}

/** Names who took too long: the application's own look-up, or the issuers' keys. */
const createLateError = (code: DidAuthErrorCode) => (): Error => new DidAuthError(code)

/** Whether keys of a kind make signatures of an algorithm. */
function canSign(alg: string, key: IssuerKey): boolean {
  if (alg === 'EdDSA') return key.kind === 'Ed25519'
  return alg === 'ES256' ? key.kind === 'P-256' || key.kind === 'ecdsa' : isSecp256k1Key(key)
}

/** Whether a key made an ES256 or EdDSA signature; false as well for a key that is none. @see RFC 7518, RFC 8037 */
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

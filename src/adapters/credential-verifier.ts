import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import type { CredentialClient, CredentialVerifier, Curve, Scheduler } from '../ports.js'
import { parseCredential, signerPublicKeys, type UnprovedCredential } from '../protocol/credential.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import type { ParsedJwt } from '../protocol/jwt.js'
import type { IssuerKeys } from './cached-issuer-keys.js'
import { absoluteKeyId, type ListedKey } from './did-resolution.js'
import type { IssuerKey } from './issuer-key.js'
import { isSignedByIssuerKey } from './issuer-signature.js'

/** Keys of an issuer that are tried, one after the other. */
const MAX_KEYS = 3

export interface CredentialVerifierParts {
  curve: Curve
  scheduler: Pick<Scheduler, 'yield'>
  issuerKeys: IssuerKeys
  /** True: the address in a did:ethr issuer proves it, without a network. */
  provesByAddress: boolean
  /** Asked about every issuer before anything is resolved; absent: each issuer that is proved is accepted. */
  isTrustedIssuer?: ((issuerDid: string) => unknown) | undefined
}

/**
 * Verifies credentials: form, subject and dates by the protocol, then whether the issuer is trusted, then the signature
 * by the issuer's keys. The client that signs up chooses the issuers, so that each step costs little until the one before
 * has passed, up to the first bad credential. Each key tried is charged to the client, and yields before.
 */
export function credentialVerifier(parts: CredentialVerifierParts): CredentialVerifier {
  const { curve, scheduler, issuerKeys, provesByAddress, isTrustedIssuer } = parts

  const assertTrusted = async (issuers: ReadonlySet<string>): Promise<void> => {
    if (isTrustedIssuer === undefined) return
    for (const issuer of issuers) {
      if (await isTrustedIssuer(issuer)) continue
      const cause = new Error('trustedIssuers does not accept the issuer of a credential')
      throw new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause })
    }
  }

  const keysOf = async (issuer: string, client: CredentialClient): Promise<readonly ListedKey[]> => {
    if (!provesByAddress || !isEthrDid(issuer)) return issuerKeys.keysOf(issuer, client)
    const key = keyByAddress(curve, issuer)
    return [{ id: undefined, parse: () => key }]
  }

  const isSigned = async ({ credential, parsed }: UnprovedCredential, client: CredentialClient): Promise<boolean> => {
    const { alg, kid } = parsed.header
    const named = typeof kid === 'string' ? absoluteKeyId(credential.issuer, kid) : undefined
    const keys = await keysOf(credential.issuer, client)
    const ordered = [...keys.filter(({ id }) => id === named), ...keys.filter(({ id }) => id !== named)]
    let signers: string[] | undefined
    let tried = 0
    for (const listed of ordered) {
      const key = listed.parse()
      if (key === undefined || KINDS[String(alg)]?.has(key.kind) !== true) continue
      // A signature of secp256k1 tells the keys that can have made it: however many the issuer has, it is one trial.
      if (signers === undefined) {
        tried += 1
        await client.chargeKey()
        await scheduler.yield(client)
      }
      if (isSecp256k1(parsed)) {
        signers ??= signerPublicKeys(curve, parsed).flatMap((publicKey) => formsOf(curve, publicKey))
        if (signers.includes(key.hex)) return true
      } else {
        if (isSignedByIssuerKey(key, parsed)) return true
        if (tried === MAX_KEYS) return false
      }
    }
    return false
  }

  return {
    async verify(jwts, { did, client }, nowSeconds) {
      const unproved: UnprovedCredential[] = jwts.map((jwt) => parseCredential(jwt, did, nowSeconds))
      await assertTrusted(new Set(unproved.map(({ credential }) => credential.issuer)))
      for (const one of unproved) {
        if (!(await isSigned(one, client))) throw new DidAuthError('ERR_CREDENTIAL')
      }
      return unproved.map(({ credential }) => credential)
    }
  }
}

const SECP256K1: ReadonlySet<IssuerKey['kind']> = new Set(['address', 'secp256k1', 'ecdsa'] as const)

/** The kinds of keys that make signatures of an algorithm. */
const KINDS: Readonly<Record<string, ReadonlySet<IssuerKey['kind']>>> = {
  ES256K: SECP256K1,
  'ES256K-R': SECP256K1,
  ES256: new Set(['P-256', 'ecdsa'] as const),
  EdDSA: new Set(['Ed25519'] as const)
}

function isSecp256k1({ header }: ParsedJwt): boolean {
  return header.alg === 'ES256K' || header.alg === 'ES256K-R'
}

/** The three ways in which a document may name a public key: whole, compressed, by its address. */
function formsOf(curve: Curve, publicKey: Uint8Array): string[] {
  const whole = Buffer.from(publicKey)
  const sign = (whole[64] ?? 0) % 2 === 0 ? '02' : '03'
  return [whole.toString('hex'), sign + whole.toString('hex', 1, 33), addressOfPublicKey(curve, whole).slice(2)]
}

function keyByAddress(curve: Curve, issuer: string): IssuerKey {
  try {
    return { kind: 'address', hex: addressOfDid(issuer, curve).slice(2) }
  } catch (cause) {
    // A public key that is no point of the curve: no one can have signed with it.
    throw new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause })
  }
}

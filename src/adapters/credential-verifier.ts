import { DidAuthError } from '../errors.js'
import type { CredentialVerifier, Curve, Turns } from '../ports.js'
import { parseCredential, signerAddresses, type UnprovedCredential } from '../protocol/credential.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import type { IssuerKeys } from './cached-issuer-keys.js'

/** Keys of an issuer that are tried, one after the other; its document is its own, and may be as long as it likes. */
const MAX_KEYS = 10

const EIP_155_ACCOUNT = /^(?:eip155:\d+:(0x[0-9a-f]{40})|(0x[0-9a-f]{40})@eip155(?::\d+)?)$/i

interface VerifierParts {
  curve: Curve
  turns: Turns
  issuerKeys: IssuerKeys
  /** True: the address in a did:ethr issuer proves it, without a network. */
  provesByAddress: boolean
}

/**
 * Verifies credentials: form, subject and dates by the protocol, then the signature by the issuer's keys.
 *
 * did-jwt is asked one question only, whether a key made this signature; what a credential says is read from the very
 * bytes that were signed.
 */
export function credentialVerifier(parts: VerifierParts): CredentialVerifier {
  const keysOf = async ({ credential: { issuer } }: UnprovedCredential): Promise<Record<string, unknown>[]> =>
    parts.provesByAddress && isEthrDid(issuer)
      ? [{ ethereumAddress: addressOfDid(issuer) }]
      : parts.issuerKeys.keysOf(issuer)

  const assertSigned = async (
    { credential, parsed }: UnprovedCredential,
    keys: Record<string, unknown>[]
  ): Promise<void> => {
    if (keys.length === 0) throw new DidAuthError('ERR_CREDENTIAL_ISSUER')
    await parts.turns.take()
    const addresses = new Set(keys.flatMap(addressOfKey))
    if (addresses.size > 0 && signerAddresses(parts.curve, parsed).some((address) => addresses.has(address))) return
    const others = keys.filter((key) => addressOfKey(key).length === 0).slice(0, MAX_KEYS)
    if (!(await isSignedByOneOf(others, credential.jwt))) throw new DidAuthError('ERR_CREDENTIAL')
  }

  return {
    async verify(jwts, userDid, nowSeconds) {
      const unproved = jwts.map((jwt) => parseCredential(jwt, userDid, nowSeconds))
      const asked = await Promise.all(unproved.map(async (one) => ({ one, keys: await keysOf(one) })))
      // One after the other: what follows the first bad one costs its sender nothing, so it must not cost us anything.
      for (const { one, keys } of asked) await assertSigned(one, keys)
      return unproved.map(({ credential }) => credential)
    }
  }
}

/** The address that a verification method stands for, in lower case, or nothing when it holds a key or is malformed. */
function addressOfKey({ blockchainAccountId, ethereumAddress }: Record<string, unknown>): string[] {
  if (typeof ethereumAddress === 'string') return [ethereumAddress.toLowerCase()]
  if (typeof blockchainAccountId !== 'string') return []
  const match = EIP_155_ACCOUNT.exec(blockchainAccountId)
  const address = match?.[1] ?? match?.[2]
  return address === undefined ? [] : [address.toLowerCase()]
}

async function isSignedByOneOf(keys: readonly Record<string, unknown>[], jwt: string): Promise<boolean> {
  if (keys.length === 0) return false
  const { verifyJWS } = await import('did-jwt')
  return keys.some((key) => {
    try {
      verifyJWS(jwt, key as unknown as Parameters<typeof verifyJWS>[1])
      return true
    } catch {
      // One by one: a key that did-jwt cannot read must not spoil the one after it.
      return false
    }
  })
}

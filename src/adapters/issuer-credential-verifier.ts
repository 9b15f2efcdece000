import { DidAuthError } from '../errors.js'
import type { CredentialVerifier, Curve } from '../ports.js'
import { isSignedByAddress, parseCredential, type UnprovedCredential } from '../protocol/credential.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import type { IssuerKeys } from './cached-did-resolver.js'

interface VerifierParts {
  curve: Curve
  issuerKeys: IssuerKeys
  /** True: the address in a did:ethr issuer proves it, without a network. */
  provesByAddress: boolean
}

/**
 * Verifies credentials: form, subject and dates by the protocol, then the signature by the issuer's keys.
 *
 * did-jwt is asked one question only, whether one of these keys made this signature; what a credential says is read
 * from the very bytes that were signed.
 */
export function issuerCredentialVerifier(parts: VerifierParts): CredentialVerifier {
  const assertProved = async ({ credential, parsed }: UnprovedCredential): Promise<void> => {
    if (parts.provesByAddress && isEthrDid(credential.issuer)) {
      const isProved = isSignedByAddress(parts.curve, parsed, addressOfDid(credential.issuer))
      if (!isProved) throw new DidAuthError('ERR_CREDENTIAL')
      return
    }
    const { methods } = await parts.issuerKeys.keysOf(credential.issuer)
    const { verifyJWS } = await import('did-jwt')
    try {
      verifyJWS(credential.jwt, methods as unknown as Parameters<typeof verifyJWS>[1])
    } catch (cause) {
      throw new DidAuthError(methods.length === 0 ? 'ERR_CREDENTIAL_ISSUER' : 'ERR_CREDENTIAL', { cause })
    }
  }

  return {
    async verify(jwts, userDid, nowSeconds) {
      const unproved = jwts.map((jwt) => parseCredential(jwt, userDid, nowSeconds))
      await Promise.all(unproved.map(assertProved))
      return unproved.map(({ credential }) => credential)
    }
  }
}

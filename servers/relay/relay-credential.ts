import { DidAuthError } from 'express-did-auth'
import { MAX_CREDENTIAL_BYTES, parseCredential, parseJwt, type ParsedJwt } from 'express-did-auth/protocol'

const CREDENTIALS_V1 = 'https://www.w3.org/2018/credentials/v1'

/** Libraries write the time into it unasked, by the clock of a phone; its challenge is what says how fresh it is. */
const TOLERANCE_SECONDS = 60

/** A login credential whose form and dates are good. Neither its challenge nor its signature is verified yet. */
export interface LoginCredential {
  /** `iss`: the user, whatever other fields say. */
  userDid: string
  challenge: string
  parsed: ParsedJwt
}

/**
 * Parses the credential of a login: the JWT of a W3C credential whose only claim is the challenge.
 *
 * Published clients give it no `nbf` or `aud`, and either no subject or the service as its subject. Where a subject is
 * named, it has to be the issuer itself or this service, and an audience this relay: another one may have passed our
 * challenge on. It may begin up to 60 s ahead.
 *
 * @param service - this relay: its DID and its URL
 * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED
 * @see specification, "Relay authentication credential and token"
 */
export function parseLoginCredential(
  jwt: string,
  service: { did: string; url: string },
  nowSeconds: number
): LoginCredential {
  const iss = parseJwt(jwt, MAX_CREDENTIAL_BYTES)?.payload.iss
  if (typeof iss !== 'string') throw new DidAuthError('ERR_CREDENTIAL')
  const { credential, parsed } = parseCredential(jwt, [iss, service.did], nowSeconds, TOLERANCE_SECONDS)
  const challenge = challengeIn(credential.credentialSubject.claims)
  if (!isOurAlgorithm(parsed) || !isOurAudience(parsed.payload.aud, service.url) || challenge === undefined) {
    throw new DidAuthError('ERR_CREDENTIAL')
  }
  const context: unknown = credential.vc['@context']
  if (!Array.isArray(context) || !context.includes(CREDENTIALS_V1)) throw new DidAuthError('ERR_CREDENTIAL')
  return { userDid: iss, challenge, parsed }
}

/** The two whose signature tells the address of its key. */
function isOurAlgorithm({ header }: ParsedJwt): boolean {
  return header.alg === 'ES256K' || header.alg === 'ES256K-R'
}

function isOurAudience(aud: unknown, serviceUrl: string): boolean {
  return aud === undefined || aud === serviceUrl || (Array.isArray(aud) && aud.includes(serviceUrl))
}

function challengeIn(claims: unknown): string | undefined {
  const claim: unknown = Array.isArray(claims) && claims.length === 1 ? claims[0] : undefined
  if (typeof claim !== 'object' || claim === null) return undefined
  if (!('claimType' in claim) || claim.claimType !== 'challenge' || !('claimValue' in claim)) return undefined
  return typeof claim.claimValue === 'string' ? claim.claimValue : undefined
}

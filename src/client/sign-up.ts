import { signUpMessage } from '../protocol/login-message.js'
import { PROTOCOL } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { isText, parseFields } from './json.js'
import { askJson } from './request.js'
import { decodeJwt } from './session-keeper.js'
import { parseChallenge, signIn, type LogInOptions, type SignedIn, type SignInParts } from './sign-in.js'

/** A claim of the user, as sign up sends it. */
export interface ClientClaim {
  readonly claimType: string
  readonly claimValue: string
}

/** What the service asks for at sign up. */
export interface DisclosureRequest {
  /** The service's DID. */
  readonly issuer: string
  /** Schemas of credentials. */
  readonly credentials: readonly string[]
  readonly claims: readonly (ClientClaim & { readonly essential?: boolean; readonly reason?: string })[]
  /** The request as it came, signed by the service. */
  readonly jwt: string
}

/** Credentials (compact JWTs) and claims to sign up with. */
export interface Disclosure {
  readonly credentials?: readonly string[]
  readonly claims?: readonly ClientClaim[]
}

export interface SignUpOptions extends Omit<LogInOptions, 'message'>, Disclosure {
  /** Picks what to answer with. Called where the service asks for something. */
  readonly onDisclosure?: ((request: DisclosureRequest) => Disclosure | Promise<Disclosure>) | undefined
}

/**
 * Signs up, with the credentials and claims that the caller gives or picks. Apart from the client, which loads it when
 * it is wanted: most users of a page have signed up before.
 */
export function signUp(parts: SignInParts, options: SignUpOptions): Promise<SignedIn> {
  const { loginDomain, paths } = parts
  return signIn(parts, paths.signup, options, async (did) => {
    const body = await askJson(parts, { path: paths.requestSignup, body: { did }, signal: options.signal })
    const { sdr } = parseFields(body)
    const picked = isText(sdr) ? await options.onDisclosure?.(parseDisclosureRequest(sdr)) : undefined
    const { credentials = [], claims = [] } = picked ?? options
    return [signUpMessage(loginDomain, parseChallenge(body), credentials), { credentials, claims }]
  })
}

function parseDisclosureRequest(jwt: string): DisclosureRequest {
  const { issuer, credentials, claims } = decodeJwt(jwt)
  if (!isText(issuer) || !Array.isArray(credentials) || !Array.isArray(claims)) {
    throw new DidAuthClientError(PROTOCOL)
  }
  return { issuer, credentials, claims, jwt }
}

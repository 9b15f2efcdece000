import { loginMessage, signUpMessages } from '../protocol/login-message.js'
import { ChallengeError, ProtocolError } from './errors.js'
import { callService, type Service } from './service-calls.js'
import { decodeJwt } from './session-record.js'
import { connectWallet, didOfWallet, fieldOf, type ConnectedWallet, type Wallet } from './wallet.js'

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

export interface LogInOptions {
  /** In place of the client's own. */
  readonly wallet?: Wallet | undefined
  /** Ends the login; a window that the wallet has open stays open. */
  readonly signal?: AbortSignal | undefined
}

export interface SignUpOptions extends LogInOptions, Disclosure {
  /** Picks what to answer with. Called where the service asks for something. */
  readonly onDisclosure?: ((request: DisclosureRequest) => Disclosure | Promise<Disclosure>) | undefined
}

export interface SignInParts {
  readonly service: Service
  readonly domain: string
  readonly network: string | undefined
  readonly paths: {
    readonly requestAuth: string
    readonly auth: string
    readonly requestSignup: string
    readonly signup: string
  }
}

/** A challenge that was asked for ahead of the click. */
export interface PreparedChallenge {
  readonly did: string
  readonly challenge: string
  /** By the monotonic clock. */
  readonly goodUntil: number
}

/** What a login answered, and the wallet that it was done with. */
export interface SignedIn {
  readonly body: unknown
  readonly did: string
}

/** Asks for a login challenge. @throws UnavailableError, RateLimitedError, ProtocolError, or the signal's reason */
export async function prepareChallenge(
  { service, paths }: SignInParts,
  did: string,
  signal?: AbortSignal
): Promise<PreparedChallenge> {
  const { body, headers } = await callService(service, { path: paths.requestAuth, body: { did }, signal })
  const expiresIn = Number(headers.get('Challenge-Expires-In') ?? Infinity)
  return { did, challenge: challengeOf(body), goodUntil: service.timer.nowSeconds() + expiresIn }
}

/** Asks for the challenge, signs it, and logs in. */
export function logIn(
  parts: SignInParts,
  { wallet, signal }: LogInOptions,
  takePrepared: (did: string) => PreparedChallenge | undefined
): Promise<SignedIn> {
  return signIn(parts, { wallet, signal }, async (signer, did) => {
    const { challenge } = takePrepared(did) ?? (await prepareChallenge(parts, did, signal))
    const sig = await signer.signMessage(loginMessage(parts.domain, challenge), signal)
    return { path: parts.paths.auth, body: { did, sig } }
  })
}

/** Signs up, with the credentials and claims that the caller gives or picks. */
export function signUp(parts: SignInParts, options: SignUpOptions): Promise<SignedIn> {
  const { signal, onDisclosure } = options
  return signIn(parts, options, async (signer, did) => {
    const { body } = await callService(parts.service, { path: parts.paths.requestSignup, body: { did }, signal })
    const challenge = challengeOf(body)
    const jwt = fieldOf(body, 'sdr')
    const picked = typeof jwt === 'string' && onDisclosure ? await onDisclosure(parseDisclosureRequest(jwt)) : options
    const { credentials = [], claims = [] } = picked
    const message = signUpMessages(parts.domain, challenge, credentials)[0] ?? ''
    const sig = await signer.signMessage(message, signal)
    return { path: parts.paths.signup, body: { did, sig, credentials, claims } }
  })
}

/** Once more by itself where the challenge was out of date, as after a long look at the wallet's window. */
async function signIn(
  { service, network }: SignInParts,
  { wallet, signal }: LogInOptions,
  prove: (signer: ConnectedWallet, did: string) => Promise<{ path: string; body: object }>
): Promise<SignedIn> {
  const signer = await connectWallet(wallet, signal)
  const did = didOfWallet(signer, network)
  const attempt = async (): Promise<SignedIn> => {
    const { body } = await callService(service, { ...(await prove(signer, did)), signal })
    return { body, did }
  }
  try {
    return await attempt()
  } catch (error) {
    const isOutdated = error instanceof ChallengeError && /_(?:EXPIRED|USED)$/.test(error.serverCode ?? '')
    if (!isOutdated) throw error
    return attempt()
  }
}

function challengeOf(body: unknown): string {
  const challenge = fieldOf(body, 'challenge')
  if (typeof challenge !== 'string') throw new ProtocolError({ message: 'The service sent no challenge' })
  return challenge
}

function parseDisclosureRequest(jwt: string): DisclosureRequest {
  const payload = decodeJwt(jwt)
  const [issuer, credentials, claims] = ['issuer', 'credentials', 'claims'].map((name) => fieldOf(payload, name))
  if (typeof issuer !== 'string' || !Array.isArray(credentials) || !Array.isArray(claims)) {
    throw new ProtocolError({ message: 'The service sent a disclosure request of another kind' })
  }
  return { issuer, credentials, claims, jwt } as DisclosureRequest
}

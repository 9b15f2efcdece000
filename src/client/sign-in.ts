import { loginMessage } from '../protocol/login-message.js'
import { PROTOCOL } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { isText, parseFields } from './json.js'
import { withLock, type LockParts } from './lock.js'
import { ask, askJson, isOutdated, jsonOf, type Call, type Service } from './request.js'
import { connectWallet, type Wallet } from './wallet.js'

/** `login` is this protocol's own text of two lines, `siwe` that of EIP-4361, for a service with `siwe`. */
export type SignInText = 'login' | 'siwe'

export interface LogInOptions {
  /** In place of the client's own. */
  readonly wallet?: Wallet | undefined
  /** Which text to sign, in place of the client's own. */
  readonly message?: SignInText | undefined
  /** Ends the login; a window that the wallet has open stays open. */
  readonly signal?: AbortSignal | undefined
}

export interface SignInParts extends Service, LockParts {
  readonly usesCookies: boolean
  readonly nowSeconds: () => number
  /** The text after `Login to `. */
  readonly loginDomain: string
  readonly network?: string | undefined
  readonly paths: Readonly<Record<'requestAuth' | 'auth' | 'requestSignup' | 'signup', string>>
}

/** A challenge that was asked for ahead of the click. */
export interface PreparedChallenge {
  readonly did: string
  readonly challenge: string
  /** By the monotonic clock. */
  readonly goodUntil: number
}

/** What a login answered, and whose it is. */
export interface SignedIn {
  readonly body: unknown
  readonly did: string
}

/** Requests a challenge. @throws DidAuthClientError UNAVAILABLE, RATE_LIMITED, PROTOCOL, or the signal's reason */
export async function prepareChallenge(
  parts: SignInParts,
  did: string,
  signal?: AbortSignal
): Promise<PreparedChallenge> {
  const answer = await ask(parts, { path: parts.paths.requestAuth, body: { did }, signal })
  const expiresIn = Number(answer.response.headers.get('Challenge-Expires-In') ?? Infinity)
  return { did, challenge: parseChallenge(jsonOf(answer)), goodUntil: parts.nowSeconds() + expiresIn }
}

/** Asks for the challenge, unless the prepared one is still good, signs it, and logs in. */
export function logIn(parts: SignInParts, options: LogInOptions, prepared: PreparedChallenge[]): Promise<SignedIn> {
  return signIn(parts, parts.paths.auth, options, async (did) => {
    const unused = prepared.pop()
    const isGood = unused?.did === did && unused.goodUntil > parts.nowSeconds()
    const { challenge } = isGood ? unused : await prepareChallenge(parts, did, options.signal)
    return [loginMessage(parts.loginDomain, challenge)]
  })
}

/** Signs and sends; once more where the challenge was out of date, as after a long look at the wallet. */
export async function signIn(
  parts: SignInParts,
  path: string,
  { wallet, signal }: LogInOptions,
  prepare: (did: string) => Promise<[message: string, more?: object]>
): Promise<SignedIn> {
  const { did, signMessage } = await connectWallet(wallet, parts.network, signal)
  const attempt = async (): Promise<SignedIn> => {
    const [message, more] = await prepare(did)
    const sig = await signMessage(message)
    return { body: await sendProof(parts, { path, body: { did, sig, ...more }, signal }), did }
  }
  return orOnceMore(attempt)
}

/** Exchanges a signature for a session. */
export function sendProof(parts: SignInParts, call: Call): Promise<unknown> {
  const send = () => askJson(parts, call)
  // The late answer to a refresh would put the cookies of the session before over the new ones.
  return parts.usesCookies ? withLock(parts, send) : send()
}

/** Tries a login again where its challenge or nonce was out of date. */
export async function orOnceMore<T>(attempt: () => Promise<T>): Promise<T> {
  return attempt().catch((error: unknown) => {
    if (isOutdated(error)) return attempt()
    throw error
  })
}

/** @throws DidAuthClientError PROTOCOL */
export function parseChallenge(body: unknown): string {
  const { challenge } = parseFields(body)
  if (!isText(challenge)) throw new DidAuthClientError(PROTOCOL, { message: 'No challenge' })
  return challenge
}

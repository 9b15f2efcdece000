import type { Settings } from '../config/settings.js'
import { assertAllowed, assertOptions, type AllowUser, type DidAuthInfo } from '../did-auth-info.js'
import { DidAuthError } from '../errors.js'
import { admitUser } from '../flows/authenticate.js'
import type { Caller, Quotas } from '../flows/limits.js'
import type { Parts } from '../flows/parts.js'
import type { HttpRequest } from '../http-messages.js'
import type { AuthenticatedUser } from '../ports.js'
import { assertSameSite, isSafeMethod } from '../protocol/cross-origin.js'
import { channels, trace } from '../tracing.js'
import type { AnswerError } from './answer-error.js'
import { isForeignPage } from './client-network.js'
import { assertDevice } from './session-binding.js'
import type { TokenTransport } from './token-transport.js'

/** Dependencies of the endpoints. Settings and quotas are used before a request has its deadline. */
export interface HttpParts {
  settings: Settings
  quotas: Quotas
  /**
   * Returns the parts of a request, whose deadline starts now. Waits until signature library and signer are ready. With
   * an id, the log lines of the parts contain it.
   */
  parts: (requestId?: string) => Promise<Parts>
  callerOf: (request: HttpRequest) => Caller
  transport: TokenTransport
  answerError: AnswerError
}

/** Options of a guard. */
export interface GuardOptions {
  /**
   * Also asks the store whether the session of the access token was ended, so that logout and revocation count at once.
   * It costs one more read from the store. A token without session is refused. Default false.
   */
  checkSession?: boolean | undefined
  /**
   * Also asks for a `DPoP` proof by the device of the session, with the hash of the access token (RFC 9449). A token of
   * a session that is not bound to a device is refused, and so are tokens in cookies of a page: it cannot read them.
   * Default false.
   */
  deviceProof?: boolean | undefined
  /**
   * Lets a request without token pass, with `req.user` undefined, and checks nothing else of it. `Authorization` with
   * another scheme is no token. An invalid token is still refused. Default false.
   */
  optional?: boolean | undefined
  /**
   * Decides whether the user may make the request, after every other check: anything but `true` is 403 ERR_FORBIDDEN.
   * It is not called for a request without a user, which `optional` accepts. Default: every user may.
   */
  allow?: AllowUser
}

/** Names of all options of a guard. */
export const guardOptionNames: Readonly<Record<keyof GuardOptions, true>> = {
  checkSession: true,
  deviceProof: true,
  optional: true,
  allow: true
}

/** The user of a request with a valid access token. */
export interface Authentication {
  /** The DID as received at login. Look accounts up by `auth.canonicalDid`; ban keys by `auth.address`. */
  user: { did: string }
  /** Session, claims and comparable forms of the DID. */
  auth: DidAuthInfo
}

/** Options of a guard, and whether the origin of every request is checked: see {@link assertSameSite}. */
interface PassOptions extends GuardOptions {
  isUnsafe?: true | undefined
}

/** The user of a request, and the parts for the rest of the request, which have its deadline. */
interface Admission {
  parts: Parts
  user: AuthenticatedUser
  /** Information that a guard adds to the request. */
  auth: DidAuthInfo
}

/** Whether a request has a token, valid or not. A guard with `optional` lets others pass. */
export function hasToken({ transport }: HttpParts, request: Pick<HttpRequest, 'headers'>): boolean {
  return transport.hasTokenHeader(request) || transport.hasTokenCookie(request)
}

/** Refuses a request that cookies may authenticate and another site made. @throws DidAuthError ERR_CROSS_ORIGIN */
export function assertNotForged({ transport, settings }: HttpParts, request: HttpRequest, isUnsafe?: true): void {
  // A foreign page cannot make a request with a token in the header and no cookie. Browsers add passwords (`Basic`).
  if (transport.useCookies && (transport.hasTokenCookie(request) || !transport.hasTokenHeader(request))) {
    assertSameSite(request, settings.trustedOrigins, isUnsafe)
  }
}

/**
 * Finds the user of a request with a valid access token. Cross-site forgery is checked first, then {@link admitUser},
 * then the device proof, so that a refused one is charged to the user.
 * @param countedAuth - information that an earlier guard added to this request. With the same token, it is returned
 * @throws DidAuthError ERR_CROSS_ORIGIN, ERR_DUPLICATE_COOKIE, as `admitUser`; ERR_DEVICE_PROOF, ERR_DEVICE_NONCE
 */
export function passWithDid(
  http: HttpParts,
  request: HttpRequest,
  options: PassOptions = {},
  countedAuth?: DidAuthInfo
): Promise<Admission> {
  if (channels.guard?.hasSubscribers !== true) return findUser(http, request, options, countedAuth)
  const message = { serviceUrl: http.settings.serviceUrl }
  const run = (): Promise<Admission> => findUser(http, request, options, countedAuth)
  return trace('guard', message, run, ({ user }) => ({ did: user.claims.sub }))
}

async function findUser(
  http: HttpParts,
  request: HttpRequest,
  { checkSession = false, deviceProof = false, isUnsafe }: PassOptions,
  countedAuth: DidAuthInfo | undefined
): Promise<Admission> {
  const { transport, settings } = http
  const resourceToken = transport.readResourceToken(request)
  if (resourceToken === undefined) assertNotForged(http, request, isUnsafe)
  const parts = await http.parts(request.id)
  const accessToken = resourceToken === undefined ? transport.readAccessToken(request) : undefined
  const user = await admitUser(parts, {
    accessToken,
    resourceToken,
    checkSession,
    countedClaims: countedAuth?.claims,
    isForeignRead: isForeignPage(request, settings.trustedOrigins) && isSafeMethod(request.method)
  })
  if (deviceProof) assertDevice(parts, user, request, accessToken)
  const { claims, canonicalDid, address } = user
  const isCounted = countedAuth?.claims === claims
  return { parts, user, auth: isCounted ? countedAuth : { sessionId: claims.sid, canonicalDid, address, claims } }
}

/** Finds the user of a request that passes no guard; undefined for a request without token, with `optional`. */
export type Authenticate = (
  native: object,
  request: HttpRequest,
  options: GuardOptions,
  /** Information that a guard added to this request. */
  guardAuth?: DidAuthInfo
) => Promise<Authentication | undefined>

/** Differences between the frameworks of applications. */
interface AuthenticatorOptions {
  /** Whether the origin of every request is checked, because a safe method may open a connection. */
  isUnsafe?: true
  /** Runs the check of a request that has a token. */
  run: <T>(request: HttpRequest, check: () => Promise<T>) => Promise<T>
}

/**
 * Creates the function that authenticates a request by the rules of a guard. It remembers what was charged, by the
 * request of the framework, so that a second call charges nothing.
 */
export function createAuthenticator(http: HttpParts, { isUnsafe, run }: AuthenticatorOptions): Authenticate {
  const counted = new WeakMap<object, DidAuthInfo>()
  return async (native, request, options, guardAuth) => {
    const countedAuth = counted.get(native) ?? guardAuth
    assertOptions(options, guardOptionNames)
    if (options.optional === true && !hasToken(http, request)) return undefined
    const check = (): Promise<Admission> => passWithDid(http, request, { ...options, isUnsafe }, countedAuth)
    const { user, auth } = await run(request, check).catch(throwDidAuthError)
    counted.set(native, auth)
    await assertAllowed(options.allow, auth)
    return { user: { did: user.claims.sub }, auth }
  }
}

function throwDidAuthError(error: unknown): never {
  throw error instanceof DidAuthError ? error : new DidAuthError('ERR_INTERNAL', { cause: error })
}

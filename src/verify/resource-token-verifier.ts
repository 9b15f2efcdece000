import { pureCurve } from '../adapters/curve-pure.js'
import { createResourceIssuer } from '../adapters/resource-issuer.js'
import { assertOptions } from '../did-auth-info.js'
import { DidAuthError } from '../errors.js'
import type { IssuerEndedSessionsOptions, ResourceKey, WaitUntil } from '../ports.js'
import { isUserNetwork, toNetwork } from '../protocol/did.js'
import { findEndedSessionsProblem } from '../protocol/ended-sessions.js'
import { isObject } from '../protocol/json.js'
import { isP256Key } from '../protocol/p256-key.js'
import { isSecureUrl } from '../protocol/parse-url.js'
import { systemClock, toWholeSeconds } from '../time.js'
import type { VerifiedToken } from './access-token-verifier.js'
import { createConfigError, createWarningLogger } from './issuer-keys.js'
import { readHeader, type TokenRequest } from './token-request.js'

const BEARER = /^Bearer +([^ ]+)$/i

/** Options of {@link resourceTokenVerifier}. */
export interface ResourceVerifierOptions {
  /** `serviceUrl` of the service that issues the tokens: https, or this machine. A last slash makes no difference. */
  issuer: string
  /** URL of this service, as the issuer lists it in `resources`: a slash after the origin makes no difference. */
  audience: string
  /**
   * Whether to refuse tokens of sessions that were logged out or revoked, about 2 s after that. The issuer publishes
   * their list (option `endedSessions` of `setupDidAuth`). `true` sets the defaults. Default: tokens are valid until
   * their `exp`. Tokens of machines have no session.
   */
  endedSessions?: boolean | IssuerEndedSessionsOptions | undefined
  /** Keys of the issuer (P-256, JWK), if it runs in the same process. Default: they are fetched from the issuer. */
  keys?: readonly ResourceKey[] | undefined
  /** Accepted networks of users' `did:ethr`, such as `['rsk', '']`; `''` or `ethereum` is Ethereum. Default: any. */
  networks?: readonly string[] | undefined
  /** Clock of the verifier, for tests. Default: the clock of this machine. */
  clock?: { nowSeconds(): number } | undefined
}

const optionNames: Readonly<Record<keyof ResourceVerifierOptions, true>> = {
  issuer: true,
  audience: true,
  endedSessions: true,
  keys: true,
  networks: true,
  clock: true
}

/** Verifier of the resource tokens of one issuer. */
export interface ResourceTokenVerifier {
  /**
   * Verifies a token. The user of a machine's token has no `sessionId`.
   * @throws DidAuthError ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_DID_UNSUPPORTED, ERR_KEYS; with
   * `endedSessions` ERR_SESSION_ENDED, ERR_ENDED_SESSIONS
   */
  (token: unknown): Promise<VerifiedToken>
  /**
   * Verifies the token of a request, from the header `Authorization: Bearer`. Cookies are not read.
   *
   * @param context - `waitUntil` keeps fetches alive after the response, as Workers need
   * @throws DidAuthError as above; also ERR_ACCESS_TOKEN_MISSING
   * @see RFC 6750, section 2.1
   */
  request(request: TokenRequest, context?: { waitUntil?: WaitUntil | undefined }): Promise<VerifiedToken>
  /** URL of this service: the `aud` of its tokens. */
  readonly audience: string
}

/**
 * Creates a verifier of resource tokens: those that a service of this package issues to users and machines for other
 * services (RFC 9068, ES256). It fetches the issuer's keys with the first token, after 10 min, and for an unknown key.
 *
 * It runs in Node, Workers and browsers. Without `endedSessions`, a token stays valid until its `exp`, at most 300 s.
 *
 * @throws DidAuthError ERR_CONFIG; TypeError for an unknown option
 * @example
 * const verify = resourceTokenVerifier({ issuer: 'https://auth.example', audience: 'https://orders.example' })
 * app.get('/orders', requireToken(verify), (req, res) => res.json(ordersOf(req.auth.canonicalDid)))
 */
export function resourceTokenVerifier(options: ResourceVerifierOptions): ResourceTokenVerifier {
  assertOptions(options, optionNames)
  const problem = findProblem(options)
  if (problem !== undefined) throw createConfigError(problem)
  const { issuer, audience, endedSessions, keys, clock = systemClock } = options
  const networks = options.networks?.map(toNetwork)
  const verifyToken = createResourceIssuer({
    ...{ issuer, audience, endedSessions, keys, networks, clock: toWholeSeconds(clock), logger: createWarningLogger() },
    loadCurve: async () => pureCurve
  })
  const verify = async (token: unknown, waitUntil?: WaitUntil): Promise<VerifiedToken> => {
    if (typeof token !== 'string') throw refuse('form', 'a compact JWT')
    const { claims, canonicalDid, address } = await verifyToken(token, waitUntil)
    return { did: claims.sub, sessionId: claims.sid, canonicalDid, address, claims }
  }
  return Object.assign((token: unknown) => verify(token), {
    request: async (request: TokenRequest, { waitUntil }: { waitUntil?: WaitUntil | undefined } = {}) =>
      verify(readBearerToken(request), waitUntil),
    audience
  })
}

function readBearerToken(request: TokenRequest): string {
  const authorization = readHeader(request, 'authorization')
  if (authorization === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
  const token = BEARER.exec(authorization)?.[1]
  if (token === undefined) throw refuse('Authorization', 'Bearer <token>')
  return token
}

function refuse(check: string, expected: string): DidAuthError {
  return new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check, expected } })
}

/** Finds the first problem of the options; undefined if they are valid. */
function findProblem(options: { readonly [Name in keyof ResourceVerifierOptions]?: unknown }): string | undefined {
  const { issuer, audience, endedSessions, keys, networks, clock } = options
  if (!isSecureUrl(issuer))
    return 'issuer: give the serviceUrl of the service that issues the tokens, https or on this machine'
  if (typeof audience !== 'string' || !/^[\x21\x23-\x5b\x5d-\x7e]+$/.test(audience))
    return 'audience: give the URL of this service, as the issuer lists it in resources'
  const sessionsProblem = findEndedSessionsProblem(endedSessions)
  if (sessionsProblem !== undefined) return `endedSessions: ${sessionsProblem}`
  if (keys !== undefined && !isFilledList(keys, (key) => isP256Key(key)))
    return 'keys: give an array of keys of P-256 as JWK'
  if (networks !== undefined && !isFilledList(networks, isUserNetwork))
    return 'networks: give an array of networks such as "rsk", "" for Ethereum'
  if (clock !== undefined && !(isObject(clock) && typeof clock.nowSeconds === 'function'))
    return 'clock: give an object with a method nowSeconds'
  return undefined
}

function isFilledList(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(isItem)
}

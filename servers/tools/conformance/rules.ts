import { NOT_BEFORE_TOLERANCE_SECONDS } from 'express-did-auth/protocol'
import { RESOURCE_TOKEN_SECONDS } from 'express-did-auth/server-kit'
import { describe, type Exchange, type ServiceUnderTest } from '../service-under-test.js'

/** Number of copies of one request that compete in a race. */
const RACERS = 8
export const MAX_ACCESS_TOKEN_SECONDS = 900
/** Time after a logout in which the list of ended sessions has to contain the session, in seconds. */
export const MAX_LISTING_SECONDS = 5
export const FOREIGN_ORIGIN = 'https://other.example'

/** Rules of the HTTP protocol by their stable ids, in the order in which they are checked. */
export const rules = {
  'challenge-post': 'POST with a DID returns a challenge in JSON: one line of text',
  'challenge-get': 'GET with the DID in the path also returns a challenge',
  'challenge-of-sign-up': 'a sign-up challenge may come with an sdr, a JWT that names the service and the DID',
  'challenge-of-one-did': 'two DIDs get different challenges',
  'challenge-headers': 'a challenge has the headers Cache-Control: no-store and Challenge-Expires-In',
  'challenge-needs-did': 'a missing or malformed DID gets 401',
  'sign-up': 'if the service sends no sdr, a signed login message also signs a user up',
  'sign-up-third-line': 'if the service sends no sdr, a third line without credentials is also accepted',
  'sign-up-wrong-signature': 'a sign-up that another wallet signed gets 401',
  'sign-up-single-use': 'a signature signs a user up only once',

  login: 'a signed challenge logs a user in and returns both tokens',
  'login-response-form': 'the body { response: { did, sig } } also logs a user in',
  'login-one-form': 'a body with did and sig both at its top level and in response gets 401',
  'login-single-use': 'a signature opens one session: a repeated login gets 401',
  'login-race': `of ${RACERS} simultaneous copies of a login, exactly one succeeds`,
  'login-wrong-signature': 'a login that another wallet signed gets 401',
  'login-other-did': 'a valid signature gets 401 for a DID that did not request the challenge',
  'login-wrong-domain': 'a message that names another domain gets 401',
  'login-wrong-challenge': 'a message with a challenge that the service did not issue gets 401',
  'login-malleable-signature': 'the malleable form of a valid signature, with a high s, gets 401',
  'login-missing-fields': 'a login with a missing field or a field of a wrong type gets 401',
  'broken-json': 'malformed JSON gets 400',
  'large-body': 'a body of 1 MiB gets 413',

  'access-token-form': 'an access token is an ES256K JWT with iss, aud, sub, exp, nbf, iat; sub is the DID as received',
  'access-token-life': `an access token is valid for at most ${MAX_ACCESS_TOKEN_SECONDS / 60} minutes`,
  'access-token-signature': 'the key of the DID in iss signed the access token',
  'guard-accepts': 'the protected route accepts a valid access token',
  'guard-scheme': 'the scheme in Authorization: DIDAuth is case-insensitive, and another scheme gets 401',
  'guard-missing-token': 'the protected route answers 401 without an access token',
  'guard-alg-none': 'an unsigned token, with alg none, gets 401',
  'guard-changed-token': 'a token whose payload was changed gets 401',
  'guard-foreign-key': 'a token with valid claims that another key signed gets 401',
  'guard-no-other-token': 'a refresh token, or text that is not a JWT, gets 401 as an access token',
  'guard-expired-token': 'an expired access token gets 401 with the text "Expired access token"',

  refresh: 'a refresh returns a new token pair with the same iss, aud and sub, and another refresh token',
  'refresh-single-use': 'a refresh token is valid once: the old one gets 401, the new one is accepted',
  'refresh-race': `of ${RACERS} simultaneous uses of a refresh token, exactly one succeeds`,
  'refresh-repeat': 'a repeated refresh with the same Idempotency-Key returns the same refresh token',
  'refresh-unknown': 'a missing, malformed or unknown refresh token gets 401',
  logout: 'a logout answers 200 with an empty body, also when it is repeated',
  'logout-ends-refresh': 'after a logout, the refresh token gets 401',
  'logout-one-session': "a logout ends only its own session, not the user's other sessions",
  'logout-needs-token': 'a logout without a token, or with a forged token, gets 401',

  'cookie-attributes': 'cookies are Secure; HttpOnly; SameSite=Strict; Path=/, without Domain, and the body is empty',
  'cookie-cross-origin': 'with cookies, a request from a page of another site gets 403',
  'cookie-logout': 'a logout clears both cookies',
  cors: 'a page of another origin may not read responses to requests with credentials',
  'problem-json':
    'with Accept: application/problem+json, an error follows RFC 9457 with status, title and a stable code',
  clock: `the clock of the service differs by at most ${NOT_BEFORE_TOLERANCE_SECONDS} s from the clock of this machine`,
  // Each of the following rules applies to all responses that the earlier checks received.
  'no-store': 'every response with a token has Cache-Control: no-store',
  'www-authenticate': 'every 401 has WWW-Authenticate: DIDAuth with a realm',
  'plain-text-errors': 'an error is one short line as text/plain with X-Content-Type-Options: nosniff',
  'no-leaks': 'no response shows a stack trace, an HTML page or a file path',
  'no-server-errors': 'no response to these checks has status 429 or 5xx'
}

/** Rules of the list of ended sessions. They are checked if the discovery document has `ended_sessions_uri`. */
export const endedRules = {
  'ended-sessions-logout': `the list of ended sessions contains a session at most ${MAX_LISTING_SECONDS} s after its logout`,
  'ended-sessions-form': 'the list is a JWT of the service for itself, as ended-sessions+jwt, valid for at most 60 s',
  'ended-sessions-signature': 'the key of the DID of the service signed the list',
  'ended-sessions-cors': 'pages of every origin may read the list',
  'ended-sessions-after': 'a malformed after gets 400',
  'ended-sessions-etag': 'a request with the ETag of the list gets 304'
}

/** Rules of device proofs (RFC 9449). They are checked if the discovery document announces the algorithm ES256. */
export const deviceRules = {
  'device-bound-login': 'a login with a device proof binds the access token to the key, by the claim cnf',
  'device-refresh': 'the device of a bound session can refresh it again and again',
  'device-copied-token': 'a copied refresh token gets 401 at another device, and stays valid at its own',
  'device-invalid-proof': 'a login with an invalid device proof gets 401, and consumes no challenge',
  'device-nonce': 'a device proof without a nonce gets 401 with a new nonce, and consumes no challenge'
}

/** Rules of the login of machines (RFC 7523). They are checked if the discovery document names a token endpoint. */
export const machineRules = {
  'machine-login': `a machine gets a token for a resource: with its DID, for at most ${RESOURCE_TOKEN_SECONDS} s, without a session`,
  'machine-single-use': `of ${RACERS} simultaneous copies of an assertion, exactly one gets a token, and a later copy none`,
  'machine-wrong-signature': 'an assertion of another key or algorithm, or without signature, is invalid_client',
  'machine-wrong-claims': 'an assertion for another audience or DID, without jti, or not in force is invalid_client',
  'machine-wrong-request': 'an unknown resource or grant and a doubled parameter are refused, and use no assertion up',
  'machine-metadata': 'the metadata of RFC 8414 names the same URLs as the discovery document'
}

/** Rules about the pages of an origin. Each of them is checked for each `--origin`, and by `doctor`. */
export const pageRules = {
  'page-cors': 'the browser lets the page send all headers of this protocol, and read responses with their headers',
  'page-site': 'with cookies, the page and the service are on the same site',
  'page-trusted': 'the service accepts requests of a page on its own site',
  'page-login': 'users may sign login messages that name the host of the page',
  'page-siwe': 'users may sign EIP-4361 messages that name the host of the page'
}

/** Rules of EIP-4361 for any backend. Services of this protocol are also checked for them if they issue nonces. */
export const siweRules = {
  'siwe-nonce': 'EIP-4361: each request gets a new nonce, with Cache-Control: no-store',
  'siwe-login': 'EIP-4361: a signed message logs a user in',
  'siwe-single-use': 'EIP-4361: a message opens one session: a repeated login is refused, also with the same cookies',
  'siwe-race': `EIP-4361: of ${RACERS} simultaneous copies of a login, exactly one succeeds`,
  'siwe-wrong-signer': 'EIP-4361: a message that another wallet signed is refused',
  'siwe-burnt-nonce': 'EIP-4361: a refused signature of another wallet does not use up the nonce',
  'siwe-own-nonce': 'EIP-4361: a nonce that the client invented is refused',
  'siwe-wrong-domain': 'EIP-4361: a message for another domain is refused',
  'siwe-wrong-uri': 'EIP-4361: a message whose URI belongs to another site is refused',
  'siwe-ended': 'EIP-4361: a message whose Expiration Time has passed is refused',
  'siwe-not-yet': 'EIP-4361: a message whose Not Before is in the future is refused',
  'siwe-other-text': 'EIP-4361: a message with additional text at its end is refused',
  'siwe-csrf': 'EIP-4361: with cookies, a page of another site cannot log its visitor in (login CSRF)',
  'siwe-cookies': 'EIP-4361: cookies are HttpOnly and SameSite=Lax or Strict, and over https also Secure'
}

export type RuleId =
  | keyof typeof rules
  | keyof typeof endedRules
  | keyof typeof deviceRules
  | keyof typeof machineRules
  | keyof typeof siweRules
export type PageRuleId = keyof typeof pageRules

/** Checks a service for one rule. @throws Violation */
export type Check = (service: ServiceUnderTest) => Promise<unknown>

/** Result of a check. `id` is stable. `detail` says why the check failed, or why it does not apply and was skipped. */
export type CheckResult = { id: string; rule: string; outcome: 'passed' | 'failed' | 'skipped'; detail?: string }

/** Error for a rule that does not apply to this service, such as a rule about cookies. */
export class NotApplicable extends Error {
  override readonly name = 'NotApplicable'
}

/** Error for a rule that the service violates. */
export class Violation extends Error {
  override readonly name = 'Violation'
  /** All problems of the service, each in a sentence without a full stop. */
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('; '))
    this.problems = problems
  }
}

/** @throws Violation with the message if the condition is false */
export function assertThat(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Violation([message])
}

/** Asserts the status of a response. @param request - describes the request in the message of a failure */
export function assertStatus(exchange: Exchange, expected: number, request: string): void {
  assertThat(exchange.status === expected, `${request}: ${describe(exchange)}, expected ${expected}`)
}

/**
 * Sends copies of a request in parallel.
 * @param copies - describes the copies in the message of a failure
 * @throws Violation unless exactly one of them succeeds
 */
export async function assertOneWins(copies: string, send: () => Promise<Exchange>, isSuccess = is200): Promise<void> {
  const successes = (await Promise.all(Array.from({ length: RACERS }, send))).filter(isSuccess)
  assertThat(successes.length === 1, `${successes.length} of ${RACERS} ${copies} succeeded, expected 1`)
}

const is200 = ({ status }: Exchange): boolean => status === 200

/** Whether CORS lets a page of another site send the visitor's cookies and read the responses. */
export function allowsForeignPage(headers: Headers): boolean {
  const isAllowed = ['*', FOREIGN_ORIGIN].includes(headers.get('access-control-allow-origin') ?? '')
  return isAllowed && headers.get('access-control-allow-credentials') === 'true'
}

/** @throws Violation if a cache may store the response */
export function assertNotStored(exchange: Exchange): void {
  const control = exchange.headers.get('cache-control') ?? ''
  assertThat(/\bno-store\b/i.test(control), `${describe(exchange)} with Cache-Control "${control}"`)
}

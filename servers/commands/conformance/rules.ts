import { describe, type Exchange, type ServiceUnderTest } from '../service-under-test.js'

/** Copies of one request that compete in a race. */
const RACERS = 8
export const MAX_ACCESS_TOKEN_SECONDS = 900
export const FOREIGN_ORIGIN = 'https://other.example'

/** The rules of the wire, by stable ids, in the order in which they are asked. */
export const rules = {
  'challenge-post': 'POST of a DID answers a challenge in JSON, one line of text',
  'challenge-get': 'GET with the DID in the path answers a challenge as well',
  'challenge-of-sign-up': 'the challenge of a sign up is alone, or with the sdr as a JWT that names service and user',
  'challenge-of-one-did': 'two DIDs get two challenges',
  'challenge-headers': 'a challenge comes with Cache-Control: no-store and Challenge-Expires-In',
  'challenge-needs-did': 'a missing or malformed DID is 401',
  'sign-up': 'without an sdr, the message of a login signs up',
  'sign-up-third-line': 'without an sdr, a third line with no credentials after its prefix signs up as well',
  'sign-up-wrong-signature': 'a sign up with a signature of another wallet is 401',
  'sign-up-single-use': 'one signature signs up once',

  login: 'a signed challenge logs in, and both tokens come back',
  'login-response-form': 'the body { response: { did, sig } } logs in as well',
  'login-one-form': 'both forms of the body at once are 401',
  'login-single-use': 'one signature opens one session: the same login again is 401',
  'login-race': `of ${RACERS} copies of a login that arrive at once, one succeeds`,
  'login-wrong-signature': 'a signature of another wallet is 401',
  'login-other-did': 'a good signature is 401 for another DID than the one that asked for its challenge',
  'login-wrong-domain': 'a message that names another domain is 401',
  'login-wrong-challenge': 'a message with a challenge that the service did not give is 401',
  'login-malleable-signature': 'the second spelling of a good signature, with a high s, is 401',
  'login-missing-fields': 'a login without one of its fields, or with one of another type, is 401',
  'broken-json': 'JSON that does not parse is 400',
  'large-body': 'a body of 1 MiB is 413',

  'access-token-form': 'an access token is an ES256K JWT of iss, aud, sub, exp, nbf, iat; sub is the DID as received',
  'access-token-life': `an access token is good for at most ${MAX_ACCESS_TOKEN_SECONDS / 60} minutes`,
  'access-token-signature': 'the key of the DID in iss made the signature of the access token',
  'guard-accepts': 'the guarded route accepts a good access token',
  'guard-scheme': 'Authorization: DIDAuth is compared without case, and another scheme is 401',
  'guard-missing-token': 'the guarded route is 401 without an access token',
  'guard-alg-none': 'an unsigned token, with alg none, is 401',
  'guard-changed-token': 'a token whose payload was changed is 401',
  'guard-foreign-key': 'a token with the claims of a good one, signed by another key, is 401',
  'guard-no-other-token': 'a refresh token, and text that is no JWT, are no access tokens: 401',
  'guard-expired-token': 'an expired access token is 401 with the text "Expired access token"',

  refresh: 'a refresh answers a new pair: the same user, service and session data, another refresh token',
  'refresh-single-use': 'a refresh token is good once: the old one is 401, the new one is good',
  'refresh-race': `of ${RACERS} simultaneous uses of a refresh token, one wins`,
  'refresh-repeat': 'with one Idempotency-Key, a repeated refresh answers the same refresh token',
  'refresh-unknown': 'a missing, malformed or unknown refresh token is 401',
  logout: 'a logout is 200 without content, and twice as well',
  'logout-ends-refresh': 'after a logout the refresh token is 401',
  'logout-one-session': "a logout ends that session, and none of the user's others",
  'logout-needs-token': 'a logout without token, or with one that is none, is 401',

  'cookie-attributes': 'cookies are Secure; HttpOnly; SameSite=Strict; Path=/, without Domain, and the body is empty',
  'cookie-cross-origin': 'with cookies, a request that a page of another site makes the browser send is 403',
  'cookie-logout': 'a logout clears both cookies',
  cors: 'a page of any other origin may not read answers with credentials',
  'problem-json': 'with Accept: application/problem+json, an error is RFC 9457 with status, title and a stable code',
  // These look at all that the service has answered so far.
  'no-store': 'every answer with a token has Cache-Control: no-store',
  'www-authenticate': 'every 401 has WWW-Authenticate: DIDAuth with a realm',
  'plain-text-errors': 'errors are one short line as text/plain, which no browser takes for something else',
  'no-leaks': 'no answer shows a stack, a page of HTML or a path',
  'no-server-errors': 'nothing that was asked here is answered with 500 or above, or with 429'
}

/** The rules of EIP-4361 for any backend, asked also where a service of this protocol gives nonces for it. */
export const siweRules = {
  'siwe-nonce': 'EIP-4361: each request gets another nonce, with Cache-Control: no-store',
  'siwe-login': 'EIP-4361: a signed message logs in',
  'siwe-single-use': 'EIP-4361: one message opens one session: the same again is refused, with the same cookies too',
  'siwe-race': `EIP-4361: of ${RACERS} copies of a login that arrive at once, one succeeds`,
  'siwe-wrong-signer': 'EIP-4361: a message that another wallet signed is refused',
  'siwe-burnt-nonce': 'EIP-4361: a signature of another wallet leaves the nonce good',
  'siwe-own-nonce': 'EIP-4361: a nonce that the client made is refused',
  'siwe-wrong-domain': 'EIP-4361: a message for another domain is refused',
  'siwe-wrong-uri': 'EIP-4361: a message whose URI is of another site is refused',
  'siwe-ended': 'EIP-4361: a message whose Expiration Time is over is refused',
  'siwe-not-yet': 'EIP-4361: a message whose Not Before is ahead is refused',
  'siwe-other-text': 'EIP-4361: text behind the message is refused',
  'siwe-csrf': 'EIP-4361: with cookies, a page of another site logs its visitor in to no account',
  'siwe-cookies': 'EIP-4361: cookies are HttpOnly and SameSite=Lax or Strict, and behind https Secure'
}

export type RuleId = keyof typeof rules | keyof typeof siweRules

/** Check of whether a service follows a rule. @throws if it does not */
export type Ask = (service: ServiceUnderTest) => Promise<unknown>

/** Result of a check. `id` is stable. `detail` says why the check failed, or why it does not apply and was skipped. */
export type CheckResult = { id: string; rule: string; outcome: 'passed' | 'failed' | 'skipped'; detail?: string }

/** Error for a rule that does not apply to this service, such as a rule about cookies. */
export class NotApplicable extends Error {
  override readonly name = 'NotApplicable'
}

/** @throws Error with what was received */
export function assertThat(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise)
}

/** @param what - what was sent, for the reader of a failure */
export function assertStatus(exchange: Exchange, expected: number, what: string): void {
  assertThat(exchange.status === expected, `${what}: ${describe(exchange)} instead of ${expected}`)
}

/** Sends copies of a request in parallel. @throws Error unless one of them succeeds */
export async function assertOneWins(what: string, send: () => Promise<Exchange>, isGood = is200): Promise<void> {
  const good = (await Promise.all(Array.from({ length: RACERS }, send))).filter(isGood)
  assertThat(good.length === 1, `${good.length} of ${RACERS} ${what} succeeded`)
}

const is200 = ({ status }: Exchange): boolean => status === 200

/** Whether a page of another site may send requests with the cookies of its visitor, and read the answers. */
export function allowsForeignPage(headers: Headers): boolean {
  const isAllowed = ['*', FOREIGN_ORIGIN].includes(headers.get('access-control-allow-origin') ?? '')
  return isAllowed && headers.get('access-control-allow-credentials') === 'true'
}

/** @throws Error where a cache may keep the answer */
export function assertNotStored(exchange: Exchange): void {
  const control = exchange.headers.get('cache-control') ?? ''
  assertThat(/\bno-store\b/i.test(control), `${describe(exchange)} with Cache-Control "${control}"`)
}

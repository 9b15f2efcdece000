import { usesDisclosure, type SiweSettings } from '../config/settings.js'
import type { BindSession } from '../flows/complete-login.js'
import { describeCause } from '../flows/describe-cause.js'
import { assertProofBudget, type Caller } from '../flows/limits.js'
import { logIn, signUp } from '../flows/log-in.js'
import { logInWithSiwe } from '../flows/log-in-with-siwe.js'
import { logOutByRefreshToken } from '../flows/manage-sessions.js'
import type { Parts } from '../flows/parts.js'
import type { Tokens } from '../flows/tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { trace } from '../tracing.js'
import type { HttpParts } from './guard.js'
import { isTokenRefusal } from './log-out.js'
import { MAX_BODY_BYTES, readLogin, readSignUp, readSiweLogin } from './read-request.js'
import { bindSession } from './session-binding.js'

/** Maximum body of a sign up in bytes: it has up to 20 credentials of 16 KiB. */
const MAX_SIGN_UP_BODY_BYTES = 512 * 1024

/** Answers `POST /auth` with tokens. */
export function answerLogIn(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  return answerProof(http, request, {
    name: 'login',
    read: () => readLogin(request),
    logIn: async (parts, login) => ({ did: login.did, tokens: await logIn(parts, login) })
  })
}

/** Answers `POST /signup` with tokens. */
export function answerSignUp(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const maxBytes = usesDisclosure(http.settings) ? MAX_SIGN_UP_BODY_BYTES : MAX_BODY_BYTES
  return answerProof(http, request, {
    name: 'signup',
    read: () => readSignUp(request, maxBytes),
    logIn: async (parts, login) => ({ did: login.did, tokens: await signUp(parts, login) })
  })
}

/** Answers `POST /siwe/verify` with tokens and the user, for a signed EIP-4361 message. */
export function answerSiweLogIn(http: HttpParts, siwe: SiweSettings, request: HttpRequest): Promise<HttpAnswer> {
  return answerProof(http, request, {
    name: 'siwe',
    read: () => readSiweLogin(request),
    logIn: async (parts, login) => {
      const { user, tokens } = await logInWithSiwe(parts, siwe, login)
      return { did: user.did, tokens, user }
    }
  })
}

/** The steps in which the kinds of login differ. */
interface LoginKind<Login> {
  /** Name in messages of the tracing channel. */
  name: 'login' | 'signup' | 'siwe'
  read: () => Promise<Login>
  /** Logs the user in. `user`: further fields of the answer. */
  logIn: (parts: Parts, login: Login & Sender) => Promise<{ did: string; tokens: Tokens; user?: object }>
}

/** Sender of a login. */
interface Sender {
  client: Caller
  bindSession: BindSession
}

/** Answers a proof of a DID with tokens. The client's budget of proofs is checked before the body is read. */
async function answerProof<Login extends object>(
  http: HttpParts,
  request: HttpRequest,
  kind: LoginKind<Login>
): Promise<HttpAnswer> {
  const client = http.callerOf(request)
  assertProofBudget(http, client)
  const received = await kind.read()
  // The deadline starts after the body has arrived, which may take 30 s.
  const parts = await http.parts()
  const login = { ...received, client, bindSession: () => bindSession(parts, request) }
  const message = { serviceUrl: parts.settings.serviceUrl, kind: kind.name }
  const { tokens, user } = await trace(
    'login',
    message,
    () => kind.logIn(parts, login),
    ({ did }) => ({ did })
  )
  await endReplacedSession(http, parts, request)
  return http.transport.answerTokens(parts, tokens, { user })
}

/**
 * Ends the session of the refresh cookie, which the cookies of a login replace. No client could use or end it later. A
 * failure is only logged, because the user is logged in.
 */
async function endReplacedSession(
  { transport }: Pick<HttpParts, 'transport'>,
  parts: Parts,
  request: HttpRequest
): Promise<void> {
  try {
    const refreshToken = transport.readRefreshCookie(request)
    if (refreshToken !== undefined) await logOutByRefreshToken(parts, refreshToken)
  } catch (error) {
    if (isTokenRefusal(error)) return
    const cause = describeCause(error, { hasStack: false })
    parts.logger.warn({ event: 'replaced-session', cause }, 'the session that a login replaced was not ended')
  }
}

import type { NewSession } from '../ports.js'
import type { JsonObject } from '../protocol/json.js'
import type { LoginProof } from '../protocol/login-proof.js'
import { consumeUse, type VerifiedUse } from './challenge-uses.js'
import { charge, type Caller } from './limits.js'
import type { LoginParts } from './parts.js'
import { runBusinessLogic } from './run-business-logic.js'
import { issueFirstTokens, type Tokens } from './tokens.js'
import type { ProvedUser } from './user.js'

/**
 * Returns the claims that bind the session of a login to its request, such as to the key of a device; undefined if the
 * request binds none.
 * @throws DidAuthError ERR_DEVICE_PROOF, ERR_DEVICE_NONCE
 */
export type BindSession = () => JsonObject | undefined

/** A login whose proof is valid, and not consumed yet. */
export interface VerifiedLogin {
  event: 'login' | 'signup'
  user: ProvedUser
  client: Caller
  proof: LoginProof
  /** Binds the session. Undefined: the session is not bound. */
  bindSession: BindSession | undefined
  /** Use of the challenge or nonce. Undefined for a challenge that may be repeated: `replayProtection: 'window'`. */
  use: VerifiedUse | undefined
  /** Undefined: every user who proves control may log in. */
  logic: (() => unknown) | undefined
  /** Claims of the login method, which business logic cannot replace. */
  claims?: JsonObject
}

/**
 * Completes every kind of login, in this order: binds the session, charges the budget of logins, consumes
 * the proof of the DID, asks the business logic, opens the session. Of simultaneous logins with one proof, exactly one
 * succeeds.
 * @throws DidAuthError ERR_DEVICE_PROOF, ERR_DEVICE_NONCE, ERR_TOO_MANY_REQUESTS, ERR_CHALLENGE_USED, ERR_STORE, any
 * code of `runBusinessLogic` and `openSession`
 */
export async function completeLogin(parts: LoginParts, login: VerifiedLogin): Promise<Tokens> {
  const { event, user, client, proof, use, logic, claims } = login
  const binding = login.bindSession?.()
  await charge(parts, client, 'logins')
  if (use !== undefined) await consumeUse(parts, use)
  const logicClaims = logic && (await runBusinessLogic(parts, logic))
  const hasOwnClaims = claims !== undefined || binding !== undefined
  const tokenClaims = hasOwnClaims ? { ...logicClaims, ...claims, ...binding } : logicClaims
  return openSession(parts, user, { event, proof, tokenClaims, description: client.describe?.() })
}

/**
 * Opens a session and issues its first tokens. The access token is signed first, so that a failing signer leaves no
 * orphaned session. With `didControl: 'document'`, the session stores the address that signed.
 * @throws DidAuthError ERR_SIGNER, ERR_STORE
 */
async function openSession(
  parts: LoginParts,
  user: ProvedUser,
  session: Pick<VerifiedLogin, 'event' | 'proof'> & Pick<NewSession, 'tokenClaims' | 'description'>
): Promise<Tokens> {
  const { settings, clock, store, logger, report } = parts
  const { event, proof, description } = session
  const nowSeconds = clock.nowSeconds()
  const tokenClaims =
    settings.didControl === 'document' ? { ...session.tokenClaims, ctl: user.address } : session.tokenClaims
  const { sessionId, refreshToken, accessToken } = await issueFirstTokens(parts, user, tokenClaims, nowSeconds)
  const { expiresAtSeconds } = refreshToken
  const evicted = await store.createSession({
    service: settings.serviceUrl,
    sessionId,
    did: user.did,
    refreshTokenHash: refreshToken.hash,
    tokenClaims,
    nowSeconds,
    expiresAtSeconds,
    description
  })
  if (evicted > 0) {
    logger.warn({ event: 'sessions-evicted', count: evicted }, 'the store is full: sessions were evicted')
    report?.({ type: 'sessions-evicted', count: evicted })
  }
  report?.({ type: event, did: user.did, sessionId, ...(settings.loginProofs && { proof }) })
  return { accessToken, refreshToken: refreshToken.token, refreshTokenSeconds: expiresAtSeconds - nowSeconds }
}

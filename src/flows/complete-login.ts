import type { JsonObject } from '../protocol/json.js'
import type { LoginProof } from '../protocol/login-proof.js'
import { openSession, type Tokens } from './issue-tokens.js'
import { charge, type Caller } from './limits.js'
import type { LoginParts } from './parts.js'
import { runBusinessLogic } from './run-business-logic.js'
import type { ProvedUser } from './user.js'

/** A login whose proof is valid, and not consumed yet. */
export interface VerifiedLogin {
  event: 'login' | 'signup'
  user: ProvedUser
  client: Caller
  proof: LoginProof
  /** Consumes the challenge or nonce. Of simultaneous logins with one proof, exactly one succeeds. */
  consume: () => Promise<void>
  /** Undefined: every user who proves control may log in. */
  logic: (() => unknown) | undefined
  /** Claims of the login method, which business logic cannot replace. */
  claims?: JsonObject
}

/**
 * Completes every kind of login, in this order: charges the budget of logins, consumes the proof, asks the business
 * logic, opens the session.
 * @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_CHALLENGE_USED, ERR_STORE, any code of `runBusinessLogic` and
 * `openSession`
 */
export async function completeLogin(parts: LoginParts, login: VerifiedLogin): Promise<Tokens> {
  const { event, user, proof, logic, claims } = login
  await charge(parts, login.client, 'logins')
  await login.consume()
  const logicClaims = logic && (await runBusinessLogic(parts, logic))
  const tokenClaims = claims === undefined ? logicClaims : { ...logicClaims, ...claims }
  return openSession(parts, user, { event, proof, tokenClaims })
}

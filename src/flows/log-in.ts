import { loginMessage } from '../protocol/login-message.js'
import { openSession, type Tokens } from './issue-tokens.js'
import type { LoginClient, Parts } from './parts.js'
import { runBusinessLogic } from './run-business-logic.js'
import { consumeVerifiedChallenge, verifyControl } from './verify-control.js'

/** The body of a login, and who sent it. */
export interface LoginRequest {
  did: string
  sig: unknown
  client: LoginClient
}

/** What a login and a sign up work with. */
export type LoginParts = Pick<
  Parts,
  | 'settings'
  | 'clock'
  | 'random'
  | 'curve'
  | 'issueJwt'
  | 'store'
  | 'scheduler'
  | 'deadline'
  | 'verifiedTokens'
  | 'logger'
  | 'report'
>

/**
 * Logs a user in: verifies control of the DID, consumes the challenge, asks the business logic, opens a session.
 *
 * @throws DidAuthError any code of `verifyControl`, `LoginClient`, `consumeVerifiedChallenge`, `runBusinessLogic` and
 * `openSession`
 * @see specification, "Endpoints", note 3
 */
export async function logIn(parts: LoginParts, request: LoginRequest): Promise<Tokens> {
  const { did, sig, client } = request
  const verified = await verifyControl(parts, {
    did,
    sig,
    client,
    flow: 'logIn',
    messagesFor: (...line) => [loginMessage(...line)]
  })
  await client.chargeLogin()
  await consumeVerifiedChallenge(parts, verified)
  const { identity } = verified
  const logic = parts.settings.authenticationBusinessLogic
  const tokenClaims = logic && (await runBusinessLogic(parts, () => logic(did, { ...identity })))
  return openSession(parts, { did, ...identity }, { event: 'login', tokenClaims, nowSeconds: parts.clock.nowSeconds() })
}

import { loginMessage } from '../protocol/login-message.js'
import { openSession, type Tokens } from './issue-tokens.js'
import type { Parts } from './parts.js'
import { proveControl, spendChallenge } from './prove-control.js'
import { runBusinessLogic } from './run-business-logic.js'

/** The body of a login. */
export interface LoginRequest {
  did: string
  sig: unknown
}

/**
 * Logs a user in: proves control of the DID, spends the challenge, asks the business logic, opens a session.
 *
 * @throws DidAuthError any code of `proveControl`, `spendChallenge`, `runBusinessLogic` and `openSession`
 * @see specification, "Endpoints", note 3
 */
export async function logIn(
  parts: Pick<
    Parts,
    'settings' | 'clock' | 'random' | 'curve' | 'serviceKey' | 'store' | 'turns' | 'deadline' | 'verifiedTokens'
  >,
  request: LoginRequest
): Promise<Tokens> {
  const { did, sig } = request
  const proved = await proveControl(parts, {
    did,
    sig,
    flow: 'logIn',
    messagesFor: (domain, challenge) => [loginMessage(domain, challenge)]
  })
  await spendChallenge(parts, proved)
  const logic = parts.settings.authenticationBusinessLogic
  const tokenClaims = logic && (await runBusinessLogic(parts, () => logic(did)))
  return openSession(parts, { did, tokenClaims }, parts.clock.nowSeconds())
}

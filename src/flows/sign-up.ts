import { DidAuthError } from '../errors.js'
import type { Settings } from '../config/settings.js'
import { signUpMessages } from '../protocol/login-message.js'
import { missingFrom, type Claim, type SelectiveDisclosureResponse } from '../protocol/selective-disclosure.js'
import { openSession, type Tokens } from './issue-tokens.js'
import type { LoginParts, LoginRequest } from './log-in.js'
import type { Parts } from './parts.js'
import { runBusinessLogic } from './run-business-logic.js'
import { consumeVerifiedChallenge, verifyControl } from './verify-control.js'

/** The body of a sign up, and who sent it. */
export interface SignUpRequest extends LoginRequest {
  credentialJwts: string[]
  claims: Claim[]
}

/** Whether a service looks at what a user discloses: else nothing of it is verified, and nothing resolved. */
export function usesDisclosure({ required, signupBusinessLogic }: Settings): boolean {
  return required.credentials.length > 0 || required.claims.length > 0 || signupBusinessLogic !== undefined
}

/**
 * Signs a user up: verifies control of the DID over the disclosed credentials, verifies them, consumes the challenge,
 * asks the business logic, opens a session.
 *
 * Credentials come before the challenge is consumed, so that an issuer's chain out of reach (503) costs the user nothing.
 *
 * @throws DidAuthError any code of `verifyControl`, `LoginClient`, `CredentialVerifier`, `consumeVerifiedChallenge`,
 * `runBusinessLogic` and `openSession`; ERR_DISCLOSURE_MISSING when something requested is absent and no business logic
 * decides
 * @see specification, "Endpoints", note 3
 */
export async function signUp(
  parts: LoginParts & Pick<Parts, 'credentialVerifier'>,
  request: SignUpRequest
): Promise<Tokens> {
  const { settings, clock } = parts
  const { did, sig, client, credentialJwts, claims } = request
  const verified = await verifyControl(parts, {
    did,
    sig,
    client,
    flow: 'signUp',
    messagesFor: (domain, challenge, dialect) => signUpMessages(domain, challenge, credentialJwts, dialect)
  })
  const disclosed = usesDisclosure(settings) ? credentialJwts : []
  const credentials = await parts.credentialVerifier.verify(disclosed, { did, client }, clock.nowSeconds())
  const response: SelectiveDisclosureResponse = {
    issuer: did,
    subject: settings.serviceDid,
    claims,
    credentials,
    missing: missingFrom({ claims, credentials }, settings.required)
  }
  const logic = settings.signupBusinessLogic
  if (logic === undefined) assertNothingMissing(response)
  await client.chargeLogin()
  await consumeVerifiedChallenge(parts, verified)
  const { identity } = verified
  const tokenClaims = logic && (await runBusinessLogic(parts, () => logic(response, { ...identity })))
  return openSession(parts, { did, ...identity }, { event: 'signup', tokenClaims, nowSeconds: clock.nowSeconds() })
}

function assertNothingMissing({ missing }: SelectiveDisclosureResponse): void {
  if (missing.credentials.length + missing.claims.length > 0) throw new DidAuthError('ERR_DISCLOSURE_MISSING')
}

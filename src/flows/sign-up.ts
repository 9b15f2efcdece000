import { DidAuthError } from '../errors.js'
import { signUpMessages } from '../protocol/login-message.js'
import { missingFrom, type Claim, type SelectiveDisclosureResponse } from '../protocol/selective-disclosure.js'
import { openSession, type Tokens } from './issue-tokens.js'
import type { Parts } from './parts.js'
import { proveControl, spendChallenge } from './prove-control.js'
import { runBusinessLogic } from './run-business-logic.js'

/** The body of a sign up. */
export interface SignUpRequest {
  did: string
  sig: unknown
  credentialJwts: string[]
  claims: Claim[]
}

/**
 * Signs a user up: proves control of the DID over the disclosed credentials, verifies them, spends the challenge, asks
 * the business logic, opens a session.
 *
 * Credentials come before the challenge is spent, so that an issuer's chain out of reach (503) costs the user nothing.
 *
 * @throws DidAuthError any code of `proveControl`, `CredentialVerifier`, `spendChallenge`, `runBusinessLogic` and
 * `openSession`; ERR_DISCLOSURE_MISSING when something requested is absent and no business logic decides
 * @see specification, "Endpoints", note 3
 */
export async function signUp(
  parts: Pick<
    Parts,
    | 'settings'
    | 'clock'
    | 'random'
    | 'curve'
    | 'serviceKey'
    | 'store'
    | 'turns'
    | 'deadline'
    | 'verifiedTokens'
    | 'credentialVerifier'
  >,
  request: SignUpRequest
): Promise<Tokens> {
  const { settings, clock } = parts
  const { did, sig, credentialJwts, claims } = request
  const proved = await proveControl(parts, {
    did,
    sig,
    flow: 'signUp',
    messagesFor: (domain, challenge) => signUpMessages(domain, challenge, credentialJwts)
  })
  const credentials = await parts.credentialVerifier.verify(credentialJwts, did, clock.nowSeconds())
  const response: SelectiveDisclosureResponse = {
    issuer: did,
    subject: settings.serviceDid,
    claims,
    credentials,
    missing: missingFrom({ claims, credentials }, settings.required)
  }
  const logic = settings.signupBusinessLogic
  if (logic === undefined) assertNothingMissing(response)
  await spendChallenge(parts, proved)
  const tokenClaims = logic && (await runBusinessLogic(parts, () => logic(response)))
  return openSession(parts, { did, tokenClaims }, clock.nowSeconds())
}

function assertNothingMissing({ missing }: SelectiveDisclosureResponse): void {
  if (missing.credentials.length + missing.claims.length > 0) throw new DidAuthError('ERR_DISCLOSURE_MISSING')
}

import { DidAuthError } from '../errors.js'
import { usesDisclosure } from '../config/settings.js'
import type { ChallengeFlow, UserIdentity } from '../ports.js'
import { challengeWindow, explainRefusal, findSignedMessage } from '../protocol/challenge.js'
import { parseSignature } from '../protocol/personal-sign.js'
import { listAcceptedMessages } from '../protocol/login-message.js'
import { findMissing, type Claim, type SelectiveDisclosureResponse } from '../protocol/selective-disclosure.js'
import { countUses, type VerifiedUse } from './challenge-uses.js'
import { completeLogin, type BindSession } from './complete-login.js'
import { charge, chargeRefusal, type Caller } from './limits.js'
import type { LoginParts, Parts } from './parts.js'
import type { Tokens } from './tokens.js'
import { findControllers, identifyKeyUser, type ProvedUser } from './user.js'

/** The body of a login, and its sender. */
export type LoginRequest = { did: string; sig: unknown; client: Caller; bindSession?: BindSession }

/** The body of a sign up, and its sender. */
export interface SignUpRequest extends LoginRequest {
  credentialJwts: string[]
  claims: Claim[]
}

/**
 * Logs a user in: verifies control of the DID, consumes the challenge, runs the business logic, opens a session.
 * @throws DidAuthError ERR_DID_UNSUPPORTED, ERR_SIGNATURE, ERR_CHALLENGE, ERR_CHALLENGE_EXPIRED, ERR_CHALLENGE_USED,
 * ERR_TOO_MANY_REQUESTS, ERR_BUSY, ERR_STORE, any code of `completeLogin`
 * @see specification, "Endpoints", note 3
 */
export async function logIn(parts: LoginParts, request: LoginRequest): Promise<Tokens> {
  const { authenticationBusinessLogic: logic } = parts.settings
  return prove(parts, request, {
    flow: 'logIn',
    credentialJwts: undefined,
    prepare: async () => logic && ((user) => logic(request.did, user))
  })
}

/**
 * Signs a user up: verifies control of the DID, verifies the credentials, consumes the challenge, runs the business
 * logic, opens a session. Credentials are verified before the challenge is consumed, so that a user can send the same
 * signature again after an unavailable resolver or status list (503). Their status is checked last, so that only proved
 * issuers choose the addresses of lists.
 * @throws DidAuthError as `logIn`, any code of `CredentialVerifier` and `AssertCredentials`; ERR_DISCLOSURE_MISSING if
 * requested data is absent and there is no business logic to decide
 * @see specification, "Endpoints", note 3
 */
export async function signUp(
  parts: LoginParts & Pick<Parts, 'credentialVerifier' | 'assertCredentials'>,
  request: SignUpRequest
): Promise<Tokens> {
  const { settings, clock } = parts
  const { did, client, credentialJwts, claims } = request
  const { signupBusinessLogic: logic, serviceDid } = settings
  return prove(parts, request, {
    flow: 'signUp',
    credentialJwts,
    prepare: async () => {
      const usedJwts = usesDisclosure(settings) ? credentialJwts : []
      const user = { did, client: { ...client, chargeKey: () => charge(parts, client, 'failedProofs') } }
      const credentials = await parts.credentialVerifier.verify(usedJwts, user, clock.nowSeconds(), parts.deadline)
      const missing = findMissing({ claims, credentials }, settings.required)
      const response: SelectiveDisclosureResponse = { issuer: did, subject: serviceDid, claims, credentials, missing }
      const isMissing = missing.credentials.length + missing.claims.length > 0
      if (logic === undefined && isMissing) throw new DidAuthError('ERR_DISCLOSURE_MISSING')
      await parts.assertCredentials?.(credentials, user.client, parts.deadline)
      return logic && ((user) => logic(response, user))
    }
  })
}

/** The steps in which login and sign up differ. */
interface Proof {
  flow: ChallengeFlow
  /** Credentials that the signed message of a sign up contains. */
  credentialJwts: readonly string[] | undefined
  /** Verifies the rest of the request before anything changes, and returns the business logic. */
  prepare: () => Promise<((user: UserIdentity) => unknown) | undefined>
}

async function prove(parts: LoginParts, request: LoginRequest, proof: Proof): Promise<Tokens> {
  try {
    const { user, use, message } = await verifyControl(parts, request, proof)
    const logic = await proof.prepare()
    const { canonicalDid, address } = user
    return await completeLogin(parts, {
      event: proof.flow === 'logIn' ? 'login' : 'signup',
      user,
      client: request.client,
      proof: { message, signature: String(request.sig) },
      bindSession: request.bindSession,
      use,
      logic: logic && (() => logic({ canonicalDid, address }))
    })
  } catch (error) {
    await chargeRefusal(parts, request, error)
    throw error
  }
}

/** Verifies that the signer of `sig` controls the DID. It changes nothing. The user's address is the signer's. */
async function verifyControl(
  parts: LoginParts,
  { did, sig, client }: LoginRequest,
  { flow, credentialJwts }: Proof
): Promise<{ user: ProvedUser; use: VerifiedUse | undefined; message: string }> {
  const { settings, curve, scheduler } = parts
  const { loginDomains, loginDialects } = settings
  const user = identifyKeyUser(settings, curve, did)
  const signature = parseSignature(sig, user.chainId)
  const window = challengeWindow(parts.clock.nowSeconds(), settings.challengeWindowSeconds)
  const controllers = await findControllers(parts, user, client)
  const useCount = await countUses(parts, user.canonicalDid, window, flow)
  await scheduler.yield(client)
  const forms = { domains: loginDomains, dialects: loginDialects, credentialJwts }
  const response = { controllers, signature, messagesOver: listAcceptedMessages.bind(undefined, forms) }
  const expected = { did, secret: settings.challengeSecret, window, useCount }
  const { message, signer, recovered } = findSignedMessage(curve, response, expected)
  // A message of two lines is valid for a login and for a sign up without credentials.
  const consumesBoth = message?.split('\n').length === 2
  if (message !== undefined && signer !== undefined) {
    const expiresAtSeconds = Math.ceil((window + 1) * settings.challengeWindowSeconds)
    const use = { did: user.canonicalDid, flow, window, useCount, consumesBoth, expiresAtSeconds }
    return { user: { ...user, address: signer }, use: settings.singleUse ? use : undefined, message }
  }

  // Recoveries that only explain a refusal run in the background, after waiting logins.
  const mayExplain = await scheduler.yield(client, 'background').then(
    () => true,
    () => false
  )
  const previousUseCount = mayExplain ? await countUses(parts, user.canonicalDid, window - 1, flow) : 0
  const code = mayExplain ? explainRefusal(curve, response, expected, previousUseCount) : 'ERR_CHALLENGE'
  if (code !== 'ERR_CHALLENGE') throw new DidAuthError(code)
  const reason = {
    check: 'signer',
    expected:
      'an address that controls the DID, recovered over a message with an accepted domain and the current challenge',
    acceptedDomains: loginDomains,
    // The usual form of the message is tried first, so these addresses are in the order of the domains.
    recoveredAddresses: recovered.slice(0, loginDomains.length * loginDialects.length)
  }
  throw new DidAuthError(code, { reason })
}

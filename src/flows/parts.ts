import type { Settings } from '../config/settings.js'
import type {
  Clock,
  CredentialClient,
  CredentialVerifier,
  Curve,
  Deadline,
  Logger,
  Random,
  SecurityEvent,
  ServiceKey,
  SignatureCache,
  Store,
  Scheduler,
  VerifiedTokens
} from '../ports.js'
import type { JsonObject } from '../protocol/json.js'

/** All that the flows work with, wired in `setup-did-auth.ts`. A flow asks for the narrowest `Pick`. */
export interface Parts {
  settings: Settings & { readonly serviceDid: string }
  clock: Clock
  random: Random
  curve: Curve
  serviceKey: ServiceKey
  /** Signs a payload as JWT with the service's key. @throws DidAuthError ERR_SIGNER */
  issueJwt: (payload: JsonObject & { iss: string; iat: number }) => Promise<string>
  store: Store
  verifiedTokens: VerifiedTokens
  disclosureRequests: SignatureCache
  credentialVerifier: CredentialVerifier
  scheduler: Scheduler
  deadline: Deadline
  logger: Logger
  /** Hands an event to the application, with the time added. Never throws. */
  report: (event: Omit<SecurityEvent, 'atSeconds'>) => void
}

/** The client of a login or sign up. */
export interface LoginClient extends CredentialClient {
  /** Counts a login that succeeds against the budget of the client's network. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  chargeLogin(): Promise<void>
}

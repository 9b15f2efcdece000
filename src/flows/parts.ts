import type { Settings } from '../config.js'
import type {
  Clock,
  CredentialVerifier,
  Curve,
  Deadline,
  Logger,
  Random,
  ServiceKey,
  Store,
  Turns,
  VerifiedTokens
} from '../ports.js'

/** All that the flows work with, wired in `setup-did-auth.ts`. A flow asks for the narrowest `Pick`. */
export interface Parts {
  settings: Settings
  clock: Clock
  random: Random
  curve: Curve
  serviceKey: ServiceKey
  store: Store
  verifiedTokens: VerifiedTokens
  credentialVerifier: CredentialVerifier
  turns: Turns
  deadline: Deadline
  logger: Logger
}

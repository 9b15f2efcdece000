export { setupDidAuth, type ExpressApp, type RequireDid, type Sessions } from './setup-did-auth.js'
export type { DidAuthConfig } from './config-options.js'
export { DidAuthError, errorTexts, type DidAuthErrorCode, type DidAuthErrorOptions } from './errors.js'
export { errorStatuses } from './http/send-error.js'
export { loadCurve } from './adapters/curve.js'
export { didOfPrivateKey, es256kSigner } from './adapters/es256k-signer.js'
export { MemoryStore, type MemoryStoreOptions } from './adapters/memory-store.js'
export type { DidAuthInfo } from './http/express-types.js'
export type {
  AuthenticationBusinessLogic,
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  Clock,
  DidResolver,
  Logger,
  NewSession,
  QuotaCharge,
  QuotaState,
  Rotation,
  Signer,
  SignupBusinessLogic,
  Store
} from './ports.js'
export type { AccessTokenClaims } from './protocol/access-token.js'
export type { VerifiedCredential } from './protocol/credential.js'
export type { Curve } from './protocol/curve.js'
export { canonicalDid } from './protocol/did.js'
export type { JsonObject, JsonValue } from './protocol/json.js'
export type { Claim, SelectiveDisclosureResponse } from './protocol/selective-disclosure.js'
export type { RefreshVerdict, Session } from './protocol/session.js'

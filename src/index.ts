export { setupDidAuth, type Guard, type RequireDid, type Sessions } from './setup-did-auth.js'
export { defaultPaths, type DidAuthConfig, type SiweOptions } from './config/options.js'
export { DidAuthError, errorStatuses, errorTexts, type DidAuthErrorCode, type DidAuthErrorOptions } from './errors.js'
export { withClient } from './http/client-network.js'
export type { ExpressApp } from './http/routes.js'
export { sendErrorAnswer, type ErrorAnswer, type ErrorAnswerOptions } from './error-answer.js'
export { loadCurve } from './adapters/curve.js'
export { didOfPrivateKey, es256kSigner, isPrivateKey } from './adapters/es256k-signer.js'
export type { DescribeRequest, GuardOptions } from './http/require-did.js'
export type { DidAuthInfo } from './express-types.js'
export type {
  AuthenticationBusinessLogic,
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  ChallengeUseStore,
  Clock,
  ContractVerifier,
  DidResolver,
  Logger,
  LoginIdentity,
  NewSession,
  OnSecurityEvent,
  QuotaCharge,
  QuotaState,
  QuotaStore,
  RefreshBusinessLogic,
  ResourceKey,
  Rotation,
  SecurityEvent,
  SessionStore,
  Signer,
  SignupBusinessLogic,
  SiweDetails,
  Store,
  StoreLifecycle,
  UserIdentity
} from './ports.js'
export type { AccessTokenClaims } from './protocol/access-token.js'
export type { VerifiedCredential } from './protocol/credential.js'
export type { Curve } from './protocol/curve.js'
export { canonicalDid } from './protocol/did.js'
export type { JsonObject, JsonValue } from './protocol/json.js'
export type { Claim, SelectiveDisclosureResponse } from './protocol/selective-disclosure.js'
export type { PresentedRefreshToken, RefreshVerdict, ReplacedToken } from './protocol/session.js'
export type { Session, StoredSession } from './protocol/session.js'
export { combineStores, type StoreParts } from './stores/combine.js'
export { memoryStore, type MemoryStoreOptions } from './stores/memory/index.js'

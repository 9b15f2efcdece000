/** The protocol as pure functions, without clock, network or Express, for wallets, tests, stores and servers. */
export { DidAuthError, errorTexts, type DidAuthErrorCode, type DidAuthErrorOptions } from '../errors.js'
export {
  assertInForce,
  MAX_ACCESS_TOKEN_BYTES,
  NOT_BEFORE_TOLERANCE_SECONDS,
  verifyAccessToken,
  type AccessTokenClaims,
  type AccessTokenExpectation
} from './access-token.js'
export * from './challenge.js'
export { MAX_CREDENTIAL_BYTES, MAX_CREDENTIALS, parseCredential, signerAddresses } from './credential.js'
export type { UnprovedCredential, VerifiedCredential } from './credential.js'
export { verifyApproval, type ApprovalProof } from './approval.js'
export { addressOfPublicKey, checksumAddress, hashPersonalMessage, recoverPersonalSigner } from './curve.js'
export type { Curve, RecoverableSignature } from './curve.js'
export * from './did.js'
export { parseSignature } from './personal-sign.js'
export type { ApprovedRequest } from './format-siwe-message.js'
export type { JsonObject, JsonValue } from './json.js'
export { isPlainEs256kHeader, isSignedBy, parseJwt, type ParsedJwt } from './jwt.js'
export {
  acceptedLoginDomains,
  isLoginDialect,
  loginMessage,
  MAX_LOGIN_DOMAINS,
  signUpMessages,
  type LoginDialect
} from './login-message.js'
export { verifyLoginProof, type LoginProof } from './login-proof.js'
export type { Claim, RequiredDisclosure, SelectiveDisclosureResponse } from './selective-disclosure.js'
export { judgeRefresh, MAX_REPLACED_TOKENS, MAX_SESSIONS_PER_DID, isTokenOf } from './session.js'
export type { PresentedRefreshToken, RefreshVerdict, ReplacedToken, Session, StoredSession } from './session.js'

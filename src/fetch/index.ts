export { createDidAuth, type AuthenticateOptions, type Authentication, type DidAuth } from '../create-did-auth.js'
export type { OptionalAuthenticateOptions, RequestContext } from '../create-did-auth.js'
export type { Sessions } from '../compose-service.js'
export type { DidAuthConfig } from '../config/options.js'
export type { DidAuthInfo } from '../did-auth-info.js'
export { DidAuthError, errorStatuses, type DidAuthErrorCode, type DidAuthErrorOptions } from '../errors.js'
// Also in `express-did-auth`, whose types need those of Express.
export { didOfPrivateKey, es256kSigner } from '../adapters/service-key.js'
export { memoryStore, type MemoryStoreOptions } from '../stores/memory/index.js'

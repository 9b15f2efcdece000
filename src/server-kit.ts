/**
 * Internal exports for the package express-did-auth-servers. They are not part of the documented API: their names may
 * change with a minor version.
 */

// Time and waiting.
export { systemClock, waitAtMost, within } from './time.js'
export { limitMilliseconds, limitOrder } from './time-limits.js'
export { createLazy, createSingleFlight, type Lazy } from './lazy.js'
export { ConcurrencyLimiter } from './adapters/concurrency-limiter.js'
export { NetworkShares } from './adapters/network-shares.js'
export { readBounded, separateUser } from './adapters/read-bounded.js'

// Tokens of a trusted auth server.
export { RESOURCE_TOKEN_SECONDS } from './protocol/access-token.js'
export { curveWithPreviousKeys, parseNamedKeys, type IsSigned } from './adapters/named-keys.js'
export { fetchIssuerKeys, findListPublisher, createResourceIssuer } from './adapters/resource-issuer.js'
export type { ResourceIssuerParts } from './adapters/resource-issuer.js'
export { computeSessionTag, ENDED_LIST_SECONDS, MAX_ENDED_LIST_BYTES } from './protocol/ended-sessions.js'
export { parseEndedSessions, type EndedListExpectation, type UnverifiedList } from './protocol/ended-sessions.js'

// Refusals of credentials.
export { createRefusal as createCredentialRefusal } from './protocol/credential.js'

// Text of EIP-4361 messages.
export { formatSiweMessage, type SiweMessage } from './protocol/format-siwe-message.js'

// Requests and answers.
export { createCallerFinder, computeClientNetwork } from './http/client-network.js'
export { consumeOnce } from './flows/challenge-uses.js'
export { charge, chargeUser, createServiceQuotas } from './flows/limits.js'
export type { Budget, Caller, Quota, Quotas } from './flows/limits.js'
export { readBearerToken } from './http/token-transport.js'
export { JSON_TYPE, readBody, type Body } from './http/read-request.js'
export { listsEntityTag, normalizeEntityTag } from './protocol/entity-tag.js'
export { hasTokenScheme, readHeaderToken } from './protocol/authorization.js'
export { isBytes } from './protocol/is-bytes.js'
export { readField, isObject } from './protocol/json.js'
export { isLoopbackHost, isOwnAudience, isSecureUrl, parseHttpUrl } from './protocol/parse-url.js'
export { createErrorSender, type SendError } from './express/send-error.js'
export { ExpressRequest, findRequestId, setRequestId } from './express/express-routes.js'
export type { ErrorAnswererOptions, FailedRequest } from './http/answer-error.js'
export type { HttpAnswer, HttpRequest, RequestHeaders } from './http-messages.js'
export type { RefusalReason } from './errors.js'
export { findErrorCode, type ErrorAnswer, type ErrorAnswerOptions } from './error-answer.js'
export type { Clock, EthrNetwork, Logger, QuotaCharge, QuotaStore, ResourceIssuer } from './ports.js'

// Headers of CORS.
export { CORS_ALLOWED_HEADERS, CORS_EXPOSED_HEADERS, CORS_MAX_AGE_SECONDS } from './config/cors-options.js'

// Rules of options that are also rules of variables.
export { defaultNetworks } from './config/check-options.js'
export { defaults as optionDefaults } from './config/options.js'
export { describe as describeValue, isAnyOrigin, isOrigin, isPrintable } from './config/rules.js'
export { addScheme } from './config/settings.js'
export { isUserNetwork, toNetwork } from './protocol/did.js'

// Stores and further SQL tables in the library's database. The connection to PostgreSQL is in `stores/postgres`.
export { limitStoreTime } from './stores/with-deadline.js'
export { postgresDialect, sqliteDialect, type Dialect } from './stores/sql/dialect.js'
export { collectVerbs, verb } from './stores/sql/query.js'
export type { RunVerb, SqlQuery, SqlResult, SqlRow, SqlStatement, SqlVerb, VerbQuery } from './stores/sql/query.js'
export { SweepClock } from './stores/sweep-clock.js'
export { openThreadDatabase, serveParentThread, serveSqlite } from './stores/sqlite/serve-sqlite.js'
export type { ServedVerbs, ThreadDatabase } from './stores/sqlite/serve-sqlite.js'
export { chooseEngine as chooseSqliteEngine, isDamaged, getSqliteCode } from './stores/sqlite/sqlite-engine.js'
export { openConnection as openSqliteConnection } from './stores/sqlite/sqlite-engine.js'
export type { ConnectionOptions, EngineName, SqliteConnection, SqliteValue } from './stores/sqlite/sqlite-engine.js'
export type { SqliteRow, SqliteStatement } from './stores/sqlite/sqlite-engine.js'
export { prepareFile as prepareSqliteFile, type OpenedFile } from './stores/sqlite/prepare-tables.js'
export { startWorker as startSqliteWorker } from './stores/sqlite/start-worker.js'
export { startSqliteThreads, type SqliteThreadsOptions, type ThreadRole } from './stores/sqlite/sqlite-thread.js'

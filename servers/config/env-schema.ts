import { z } from 'zod'
import { forms } from './variable-forms.js'

const MEBIBYTE = 1_048_576
const DAY_SECONDS = 86_400
/** A quarter of the budget for uploads, which is what one user may upload at once: a larger body would never fit. */
const MAX_UPLOAD_BYTES = 64 * MEBIBYTE

const uploadBytes = forms.bytes.refine((value) => value <= MAX_UPLOAD_BYTES, `give at most ${MAX_UPLOAD_BYTES}`)

/** Every variable of the servers, with how it is parsed. An absent one without default stays undefined. */
export const variables = z.object({
  PORT: forms.port.optional(),
  HOST: forms.text.default('127.0.0.1'),
  SERVICE_URL: forms.serviceUrl.optional(),
  PRIVATE_KEY: forms.privateKey.optional(),
  CHALLENGE_SECRET: forms.secret.optional(),
  SERVICE_DID: forms.did.optional(),
  NETWORK_NAME: forms.network.optional(),
  RPC_URL: forms.httpUrl.optional(),
  REGISTRY: forms.address.optional(),
  DATA_DIR: forms.text.default('./data'),
  DATABASE_URL: forms.databaseUrl.optional(),
  DATABASE_POOL_SIZE: forms.connections.default(10),
  DATABASE_PREPARE: forms.truth.default(true),
  DATABASE_MIGRATE: forms.truth.default(true),
  DATABASE_SSL_CA: forms.text.optional(),
  REDIS_URL: forms.redisUrl.optional(),
  S3_ENDPOINT: forms.bucketUrl.optional(),
  S3_BUCKET: forms.bucket.optional(),
  S3_REGION: forms.region.default('us-east-1'),
  S3_ACCESS_KEY_ID: forms.accessKeyId.optional(),
  S3_SECRET_ACCESS_KEY: forms.text.optional(),
  S3_FORCE_PATH_STYLE: forms.truth.default(true),
  USE_COOKIES: forms.truth.optional(),
  TRUSTED_ORIGINS: forms.origins.default([]),
  CORS_ORIGINS: forms.origins.default([]),
  TRUST_PROXY: forms.trustProxy.default(false),
  LOG_LEVEL: forms.logLevel.default('info'),
  LOG_FORMAT: forms.logFormat.optional(),
  METRICS_PORT: forms.port.optional(),
  METRICS_HOST: forms.text.default('127.0.0.1'),
  MAX_CONNECTIONS: forms.connections.default(4_096),
  DRAIN_SECONDS: forms.secondsOrNone.default(0),
  PAGE: forms.truth.default(true),
  REPLAY_PROTECTION: forms.replayProtection.optional(),
  REFRESH_REUSE_GRACE_SECONDS: forms.secondsOrNone.optional(),
  LOGIN_DOMAINS: forms.loginDomains.optional(),
  LOGIN_DIALECTS: forms.loginDialects.optional(),
  NETWORKS: forms.networks.optional(),
  COOKIE_PREFIX: forms.cookiePrefix.optional(),
  ABSOLUTE_SESSION_DURATION_IN_HOURS: forms.hours.optional(),
  ERROR_FORMAT: forms.errorFormat.optional(),
  MAX_REQUESTS_PER_TIME_SLOT: forms.requests.optional(),
  TIME_SLOT_IN_SECONDS: forms.seconds.optional(),
  CHALLENGE_EXPIRATION_TIME_IN_SECONDS: forms.seconds.optional(),
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: forms.seconds.optional(),
  USER_SESSION_DURATION_IN_HOURS: forms.hours.optional(),
  IPFS_API_URL: forms.httpUrl.optional(),
  IPFS_ALLOW_INSECURE: forms.truth.default(false),
  RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS: forms.seconds.default(600),
  RELAY_MAX_FILE_BYTES: uploadBytes.default(8 * MEBIBYTE),
  RELAY_MAX_MEMORY_BYTES: forms.bytes.default(64 * MEBIBYTE),
  RELAY_MAX_BYTES_PER_DID: forms.bytes.default(64 * MEBIBYTE),
  RELAY_FILE_TTL_SECONDS: forms.seconds.default(7 * DAY_SECONDS),
  RELAY_MAX_STORE_BYTES: forms.bytes.default(8_192 * MEBIBYTE),
  VAULT_MAX_CONTENT_BYTES: uploadBytes.default(MEBIBYTE),
  VAULT_MAX_BYTES_PER_DID: forms.bytes.default(64 * MEBIBYTE),
  VAULT_MAX_ENTRIES_PER_DID: forms.entries.default(10_000),
  VAULT_MAX_STORE_BYTES: forms.bytes.optional()
})

/** Names of all variables, for the test that compares the README with them. */
export const variableNames: readonly string[] = Object.keys(variables.shape)

/**
 * Secrets: never shown, and also read from the file that `<NAME>_FILE` names. The address of a node or a database often
 * carries a key.
 */
export const secretVariables: readonly string[] = [
  'PRIVATE_KEY',
  'CHALLENGE_SECRET',
  'RPC_URL',
  'IPFS_API_URL',
  'DATABASE_URL',
  'REDIS_URL',
  'S3_ACCESS_KEY_ID',
  'S3_SECRET_ACCESS_KEY'
]

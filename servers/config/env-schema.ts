import { isIP } from 'node:net'
import { isPrivateKey, type DidAuthConfig } from 'express-did-auth'
import { isEthrNetwork, isKeyDid, isLoginDialect, isMachineDid, type LoginDialect } from 'express-did-auth/protocol'
import { isAnyOrigin, isOrigin, isPrintable, isSecureUrl, parseHttpUrl, toNetwork } from 'express-did-auth/server-kit'
import { z } from 'zod'

const MEBIBYTE = 1_048_576
const DAY_SECONDS = 86_400
/** Maximum upload: a quarter of the memory budget for uploads, which is the share of one user. */
const MAX_UPLOAD_BYTES = 64 * MEBIBYTE
/** The longest time that the library accepts, in seconds or hours. */
const MAX_TIME = 1e9

// Parsers for the kinds of variables. Each message is the remedy that the operator reads.
const text = z.string()
const port = createNumber('give a port, 0 to 65535', 0, 65_535)
const seconds = createNumber('give a number of seconds, 1 to 1000000000', 1, MAX_TIME)
const secondsOrNone = createNumber('give a number of seconds, 0 to 1000000000', 0, MAX_TIME)
const hours = createNumber('give a number of hours above 0', Number.MIN_VALUE, MAX_TIME, /^\d{1,10}(?:\.\d{1,10})?$/)
const bytes = createNumber('give a number of bytes, at least 1')
const uploadBytes = bytes.refine((value) => value <= MAX_UPLOAD_BYTES, `give at most ${MAX_UPLOAD_BYTES}`)
const connections = createNumber('give a number of connections, at least 1')
const boolean = z.enum(['true', 'false'], { error: 'give true or false' }).transform((value) => value === 'true')
const httpUrl = text
  .refine(isHttpUrl, 'give an http(s) URL')
  .refine(hasReadableUser, 'write % in the user or password of the URL as %25')
const SECURE = 'https or on this machine'
const list = text.transform(splitEntries)
/** List of keys, separated by commas, spaces or line breaks. */
const keys = text.transform((value) => value.split(/[\s,]+/).filter((key) => key !== ''))
/** Remedy for `mainnet`. */
const NO_MAINNET = 'give ethereum for the main network of Ethereum, whose DIDs name no network: did:ethr:0x…'
const ORIGINS = 'give origins separated by commas, such as https://app.example'

/** Options of the library, by the parsers of the variables that set them. */
const options = new Map<z.ZodType, keyof DidAuthConfig>()

/** Creates the parser of an optional variable that sets an option of the library. */
function sets<Option extends keyof DidAuthConfig, Form extends z.ZodType<DidAuthConfig[Option]>>(
  option: Option,
  form: Form
): z.ZodOptional<Form> {
  const parser = form.optional()
  options.set(parser, option)
  return parser
}

/** Parsers of all variables. An absent variable without a default stays undefined. */
export const variables = z.object({
  PORT: port.optional(),
  HOST: text.default('127.0.0.1'),
  SERVICE_URL: sets('serviceUrl', text.refine(isPrintable, 'give a URL of printable ASCII without space')),
  PRIVATE_KEY: keys
    .refine((list) => list.length > 0 && list.every(isPrivateKey), 'give a private key of secp256k1, 64 hex digits')
    .optional(),
  CHALLENGE_SECRET: sets(
    'challengeSecret',
    text.refine((value) => Buffer.byteLength(value) >= 32, 'give 32 bytes or more')
  ),
  SERVICE_DID: sets('serviceDid', text.refine(isKeyDid, 'give a DID, such as did:ethr:rsk:0x… (40 hex digits)')),
  NETWORK_NAME: sets(
    'networkName',
    text.refine(isEthrNetwork, 'give a network, such as rsk, rsk:testnet or ethereum').refine(isNoMainnet, NO_MAINNET)
  ),
  RPC_URL: sets('rpcUrl', httpUrl),
  REGISTRY: sets('registry', text.regex(/^0x[0-9a-fA-F]{40}$/, 'give a contract address, 0x and 40 hex digits')),
  DATA_DIR: text.default('./data'),
  DATABASE_URL: text
    .refine(
      (value) => URL.canParse(value) && /^postgres(?:ql)?:$/.test(new URL(value).protocol),
      'give a URL such as postgres://user:password@host:5432/database'
    )
    .optional(),
  DATABASE_POOL_SIZE: connections.default(10),
  DATABASE_PREPARE: boolean.default(true),
  DATABASE_MIGRATE: boolean.default(true),
  DATABASE_SSL_CA: text.optional(),
  REDIS_URL: text
    // The store parses the rest of the URL and reports its errors.
    .regex(/^rediss?:\/\/\S+$/, 'give a URL such as redis://host:6379, or redis://host1:6379,host2:6379 of a cluster')
    .optional(),
  REDIS_SSL_CA: text.optional(),
  S3_ENDPOINT: text.refine(isBucketUrl, 'give https://host[:port], without user and query').optional(),
  S3_BUCKET: text.regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'give the name of a bucket').optional(),
  S3_REGION: text.regex(/^[\w-]{1,64}$/, 'give a region, such as eu-central-1').default('us-east-1'),
  // The key id is part of a header in which a slash separates fields, so it must not contain a slash.
  S3_ACCESS_KEY_ID: text.regex(/^[\w.:@+-]{1,128}$/, 'give the name of a key, without spaces').optional(),
  S3_SECRET_ACCESS_KEY: text.optional(),
  S3_FORCE_PATH_STYLE: boolean.default(true),
  USE_COOKIES: sets('useCookies', boolean),
  TRUSTED_ORIGINS: list
    .refine((entries) => entries.every(isAnyOrigin), ORIGINS)
    .refine((entries) => entries.every(isOrigin), 'give http(s) origins only, and those of apps as CORS_ORIGINS')
    .default([]),
  CORS_ORIGINS: list.refine((entries) => entries.every(isAnyOrigin), ORIGINS).default([]),
  TRUST_PROXY: text
    .refine(
      (value) => /^(?:off|false|true|\d{1,3})$/.test(value) || splitEntries(value).every(isProxy),
      'give off, a number of proxies, or their addresses separated by commas'
    )
    .transform((value) => {
      if (/^(?:off|false|true)$/.test(value)) return value === 'true'
      return /^\d+$/.test(value) ? Number(value) : splitEntries(value)
    })
    .default(false),
  LOG_LEVEL: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], { error: 'give debug, info, warn, error or silent' })
    .default('info'),
  LOG_FORMAT: z.enum(['pretty', 'json'], { error: 'give pretty or json' }).optional(),
  METRICS_PORT: port.optional(),
  METRICS_HOST: text.default('127.0.0.1'),
  MAX_CONNECTIONS: connections.default(4_096),
  DRAIN_SECONDS: secondsOrNone.default(0),
  PAGE: boolean.default(true),
  REPLAY_PROTECTION: sets('replayProtection', z.enum(['single-use', 'window'], { error: 'give single-use or window' })),
  REFRESH_REUSE_GRACE_SECONDS: sets('refreshReuseGraceSeconds', secondsOrNone),
  LOGIN_DOMAINS: sets(
    'loginDomains',
    list.refine(
      (entries) => entries.every(isPrintable),
      'give domains of printable ASCII separated by commas, such as app.example'
    )
  ),
  LOGIN_DIALECTS: sets(
    'loginDialects',
    list.refine(
      (entries): entries is LoginDialect[] => entries.length > 0 && entries.every(isLoginDialect),
      'give login, url, or login,url'
    )
  ),
  NETWORKS: sets(
    'networks',
    list
      // Lists have no empty names, so DIDs without a network are called `ethereum`.
      .transform((names) => names.map(toNetwork))
      .refine((names) => names.every(isNoMainnet), NO_MAINNET)
      .refine(
        (names) => names.length > 0 && names.every(isEthrNetwork),
        'give networks separated by commas, such as rsk,ethereum (ethereum: DIDs without a network)'
      )
  ),
  SIWE: boolean.optional(),
  RESOURCES: list
    .refine(
      (urls) => urls.length <= 48 && urls.every(isSecureUrl),
      `give at most 48 URLs separated by commas, ${SECURE}`
    )
    .default([]),
  RESOURCE_KEY: keys
    .refine(
      // 0 is not a key of P-256, and most numbers from 0xffffffff… on exceed the order of the curve.
      (list) => list.length > 0 && list.every((key) => /^(?!f{8}|0{64})[0-9a-f]{64}$/i.test(key)),
      'give private keys of P-256, 64 hex digits each'
    )
    // The published key set must not contain a key twice.
    .transform((keys) => [...new Set(keys.map((key) => key.toLowerCase()))])
    .optional(),
  MACHINE_LOGIN: boolean.default(false),
  MACHINE_DIDS: list
    .refine(
      (dids) => dids.length > 0 && dids.every(isMachineDid),
      'give DIDs separated by commas, such as did:key:zDn… or did:jwk:ey…'
    )
    .optional(),
  ENDED_SESSIONS: boolean.default(true),
  ENDED_SESSIONS_WHEN_STALE: z.enum(['accept', 'refuse'], { error: 'give accept or refuse' }).default('accept'),
  DEVICE_BINDING: z.enum(['off', 'accepted', 'required'], { error: 'give off, accepted or required' }).optional(),
  TRUSTED_ISSUER: text.refine(isSecureUrl, `give the SERVICE_URL of an auth server, ${SECURE}`).optional(),
  COOKIE_PREFIX: sets('cookiePrefix', z.enum(['__Host-', '__Secure-'], { error: 'give __Host- or __Secure-' })),
  ABSOLUTE_SESSION_DURATION_IN_HOURS: sets('absoluteSessionDurationInHours', hours),
  ERROR_FORMAT: sets('errorFormat', z.enum(['text', 'problem'], { error: 'give text or problem' })),
  MAX_REQUESTS_PER_TIME_SLOT: sets('maxRequestsPerTimeSlot', createNumber('give a number of requests, at least 1')),
  TIME_SLOT_IN_SECONDS: sets('timeSlotInSeconds', seconds),
  CHALLENGE_EXPIRATION_TIME_IN_SECONDS: sets('challengeExpirationTimeInSeconds', seconds),
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: sets('accessTokenExpirationTimeInSeconds', seconds),
  USER_SESSION_DURATION_IN_HOURS: sets('userSessionDurationInHours', hours),
  IPFS_API_URL: httpUrl.optional(),
  IPFS_ALLOW_INSECURE: boolean.default(false),
  RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS: seconds.default(600),
  RELAY_MAX_FILE_BYTES: uploadBytes.default(8 * MEBIBYTE),
  RELAY_MAX_MEMORY_BYTES: bytes.default(64 * MEBIBYTE),
  RELAY_MAX_BYTES_PER_DID: bytes.default(64 * MEBIBYTE),
  RELAY_FILE_TTL_SECONDS: seconds.default(7 * DAY_SECONDS),
  RELAY_MAX_STORE_BYTES: bytes.default(8_192 * MEBIBYTE),
  RELAY_OPEN_READS: boolean.default(false),
  VAULT_MAX_CONTENT_BYTES: uploadBytes.default(MEBIBYTE),
  VAULT_MAX_BYTES_PER_DID: bytes.default(64 * MEBIBYTE),
  VAULT_MAX_ENTRIES_PER_DID: createNumber('give a number of entries, at least 1').default(10_000),
  VAULT_MAX_STORE_BYTES: bytes.optional()
})

/** Whether a network has another name than `mainnet`, which no DID contains. */
function isNoMainnet(name: string): boolean {
  return name.toLowerCase() !== 'mainnet'
}

/** Names of all variables. */
export const variableNames: readonly string[] = Object.keys(variables.shape)

/** Variables that set an option of the library, each with the option. */
export const optionVariables = Object.entries(variables.shape).flatMap(([variable, parser]) => {
  const option = options.get(parser)
  return option === undefined ? [] : [{ variable: variable as keyof typeof variables.shape, option }]
})

/**
 * Variables that are never shown, and that may also be read from the file in `<NAME>_FILE`. URLs of nodes and
 * databases often contain a key or a password.
 */
export const secretVariables: readonly string[] = [
  'PRIVATE_KEY',
  'CHALLENGE_SECRET',
  'RESOURCE_KEY',
  'RPC_URL',
  'IPFS_API_URL',
  'DATABASE_URL',
  'REDIS_URL',
  'S3_ACCESS_KEY_ID',
  'S3_SECRET_ACCESS_KEY'
]

function createNumber(remedy: string, min = 1, max = Infinity, form = /^\d{1,15}$/) {
  const isInRange = (value: number): boolean => value >= min && value <= max
  return text.regex(form, remedy).transform(Number).refine(isInRange, remedy)
}

/** Splits a list at commas and at line breaks, which the file in `<NAME>_FILE` may contain. */
function splitEntries(value: string): string[] {
  return value.split(/[,\r\n]/).flatMap((entry) => entry.trim() || [])
}

function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && parseHttpUrl(value) !== undefined
}

/** Whether user and password of a URL are percent-encoded correctly. */
function hasReadableUser(value: string): boolean {
  const { username = '', password = '' } = parseHttpUrl(value) ?? {}
  try {
    decodeURIComponent(username + password)
    return true
  } catch {
    return false
  }
}

function isBucketUrl(value: string): boolean {
  if (!isHttpUrl(value)) return false
  const { username, password, search, hash } = new URL(value)
  return username + password + search + hash === ''
}

/** Whether text is an IP address, a network such as `10.0.0.0/8`, or a network name of Express. */
function isProxy(value: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(value)) return true
  const [address = '', bits = '1', ...rest] = value.split('/')
  const version = isIP(address)
  const isLength = /^\d{1,3}$/.test(bits) && Number(bits) >= 1 && Number(bits) <= (version === 4 ? 32 : 128)
  return version !== 0 && isLength && rest.length === 0
}

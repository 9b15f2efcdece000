import { DidAuthError } from './errors.js'
import type {
  AuthenticationBusinessLogic,
  Clock,
  DidResolver,
  EthrNetwork,
  Logger,
  Signer,
  SignupBusinessLogic,
  Store
} from './ports.js'
import { isDid } from './protocol/did.js'
import { isObject } from './protocol/json.js'
import { acceptedLoginDomains, MAX_LOGIN_DOMAINS, parseHttpUrl } from './protocol/login-message.js'
import type { Claim, RequiredDisclosure } from './protocol/selective-disclosure.js'

/** The configuration of {@link setupDidAuth}: the specification's table, then what this package adds. */
export interface DidAuthConfig {
  /** Secret that challenges are computed from; 32 bytes or more. Instances of one service share it. */
  challengeSecret: string
  /** Audience (`aud`) of all tokens. An http(s) URL also names the login domain and a trusted origin. */
  serviceUrl: string
  /** DID whose key signs the tokens. */
  serviceDid: string
  /** Signs with the key of `serviceDid`: `es256kSigner(privateKey)` or any did-jwt ES256K signer. */
  serviceSigner: Signer
  /** True: tokens travel in cookies. Default false: in bodies and the Authorization header. */
  useCookies?: boolean
  /** Default `/request-signup`. Each challenge is served at POST `path` and GET `path/:did`. */
  requestSignupPath?: string
  /** Default `/signup`. */
  signupPath?: string
  /** Default `/request-auth`. */
  requestAuthPath?: string
  /** Default `/auth`. */
  authPath?: string
  /** Default `/logout`. */
  logoutPath?: string
  /** Default `/refresh-token`. */
  refreshTokenPath?: string
  /** Longest validity of a challenge, in seconds. Default 300. */
  challengeExpirationTimeInSeconds?: number
  /** Requests that one DID may make to protected routes per time slot. Default 20. */
  maxRequestsPerTimeSlot?: number
  /** Length of a time slot, in seconds. Default 600. */
  timeSlotInSeconds?: number
  /** Validity of each refresh token, in hours, fractions allowed. Default 168. */
  userSessionDurationInHours?: number
  /** Validity of each access token, in seconds. Default 600; more than 900 gives a warning. */
  accessTokenExpirationTimeInSeconds?: number
  /** RPC address for resolving did:ethr issuers of credentials. Default: both Rootstock networks. */
  rpcUrl?: string
  /** Network that `rpcUrl` serves (default `rsk`), or which of the default networks to keep. */
  networkName?: string
  /** Address of the DID registry contract. */
  registry?: string
  /** Runs at each login with a valid signature. */
  authenticationBusinessLogic?: AuthenticationBusinessLogic
  /** Names of credential schemas requested at sign up. */
  requiredCredentials?: string[]
  /** Claims requested at sign up. */
  requiredClaims?: Claim[]
  /** Runs at each sign up with a valid signature; decides about what was disclosed. */
  signupBusinessLogic?: SignupBusinessLogic

  /** Sessions, uses and quotas. Default: memory, which is bounded and forgets at restart. */
  store?: Store
  /** `single-use` (default): one signature opens one session. `window`: any number until its window ends. */
  replayProtection?: 'single-use' | 'window'
  /** Seconds in which a replaced refresh token is only refused, not taken for stolen. Default 10. */
  refreshReuseGraceSeconds?: number
  /** Further texts accepted after `Login to `. At most 6 with those of `serviceUrl`. */
  loginDomains?: string[]
  /** Further origins that may make unsafe requests with cookies. */
  trustedOrigins?: string[]
  /** Any did-resolver `Resolvable`; replaces `rpcUrl`, `networkName` and `registry`. */
  resolver?: DidResolver
  /** Default: warnings and errors go to the console. */
  logger?: Logger
  /** For tests. */
  clock?: Clock
}

/** Options that have a default. */
type Defaults = Required<
  Pick<
    DidAuthConfig,
    | 'useCookies'
    | 'requestSignupPath'
    | 'signupPath'
    | 'requestAuthPath'
    | 'authPath'
    | 'logoutPath'
    | 'refreshTokenPath'
    | 'challengeExpirationTimeInSeconds'
    | 'maxRequestsPerTimeSlot'
    | 'timeSlotInSeconds'
    | 'userSessionDurationInHours'
    | 'accessTokenExpirationTimeInSeconds'
    | 'registry'
    | 'replayProtection'
    | 'refreshReuseGraceSeconds'
    | 'loginDomains'
    | 'trustedOrigins'
    | 'requiredCredentials'
    | 'requiredClaims'
  >
>

/** Default of every option that has one. */
export const defaults: Readonly<Defaults> = {
  useCookies: false,
  requestSignupPath: '/request-signup',
  signupPath: '/signup',
  requestAuthPath: '/request-auth',
  authPath: '/auth',
  logoutPath: '/logout',
  refreshTokenPath: '/refresh-token',
  challengeExpirationTimeInSeconds: 300,
  maxRequestsPerTimeSlot: 20,
  timeSlotInSeconds: 600,
  userSessionDurationInHours: 168,
  accessTokenExpirationTimeInSeconds: 600,
  registry: '0xdca7ef03e98e0dc2b855be647c39abe984fcf21b',
  replayProtection: 'single-use',
  refreshReuseGraceSeconds: 10,
  loginDomains: [],
  trustedOrigins: [],
  requiredCredentials: [],
  requiredClaims: []
}

/** Networks that issuers are resolved on when no `rpcUrl` is given. */
export const defaultNetworks: readonly EthrNetwork[] = [
  { name: 'rsk', rpcUrl: 'https://public-node.rsk.co', chainId: 30 },
  { name: 'rsk:testnet', rpcUrl: 'https://public-node.testnet.rsk.co', chainId: 31 }
]

type CompleteConfig = DidAuthConfig & Defaults

/** The six configurable routes. */
export interface Paths {
  requestSignup: string
  signup: string
  requestAuth: string
  auth: string
  logout: string
  refreshToken: string
}

/** Where issuers of credentials are resolved. */
export type Resolution =
  | { kind: 'resolver'; resolver: DidResolver }
  | {
      kind: 'ethr'
      networks: readonly EthrNetwork[]
      registry: string
      /** No network was chosen: the address in a did:ethr proves its issuer by itself. */
      provesByAddress: boolean
    }

/** The complete configuration: every default applied, in the units of the code, frozen. */
export interface Settings {
  readonly challengeSecret: string
  readonly serviceUrl: string
  readonly serviceDid: string
  readonly serviceSigner: Signer
  readonly useCookies: boolean
  readonly paths: Readonly<Paths>
  /** Where a sign up is sent; undefined when `serviceUrl` is no URL. */
  readonly replyUrl: string | undefined
  readonly challengeWindowSeconds: number
  readonly maxRequestsPerTimeSlot: number
  readonly timeSlotSeconds: number
  readonly sessionSeconds: number
  readonly accessTokenSeconds: number
  readonly resolution: Resolution
  readonly authenticationBusinessLogic: AuthenticationBusinessLogic | undefined
  readonly signupBusinessLogic: SignupBusinessLogic | undefined
  readonly required: Readonly<RequiredDisclosure>
  readonly singleUse: boolean
  readonly refreshReuseGraceSeconds: number
  readonly loginDomains: readonly string[]
  readonly trustedOrigins: ReadonlySet<string>
  /** Options given that do not exist: a slip of the pen deserves a warning, a newer option no crash. */
  readonly unknownOptions: readonly string[]
}

interface Rule {
  holds: (value: unknown) => boolean
  remedy: string
  required?: true
}

const text: Rule = { holds: (value) => typeof value === 'string' && value !== '', remedy: 'give a non-empty string' }
const path: Rule = {
  // Without what would be a pattern to Express: a path is taken letter by letter, and a parameter would never match.
  holds: (value) => typeof value === 'string' && /^\/[^\s?#:*+!(){}[\]\\]*$/.test(value),
  remedy: 'give a path that starts with "/" and is no pattern'
}
const truth: Rule = { holds: (value) => typeof value === 'boolean', remedy: 'give true or false' }
const logic: Rule = { holds: (value) => typeof value === 'function', remedy: 'give a function' }
const object = (...methods: string[]): Rule => ({
  holds: (value) => isObject(value) && methods.every((method) => typeof value[method] === 'function'),
  remedy: `give an object with ${methods.join(', ')}`
})
const numberFrom = (least: number, unit: string): Rule => ({
  holds: (value) => typeof value === 'number' && value >= least && value <= Number.MAX_SAFE_INTEGER,
  remedy: `give a number of ${unit}, at least ${String(least)}`
})
const listOf = (holds: (value: unknown) => boolean, remedy: string): Rule => ({
  holds: (value) => Array.isArray(value) && value.every(holds),
  remedy
})
const isPrintable = (value: unknown): boolean => typeof value === 'string' && /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(value)
const isUrl = (value: unknown): boolean => typeof value === 'string' && parseHttpUrl(value) !== undefined
const isOrigin = (value: unknown): boolean =>
  typeof value === 'string' && URL.canParse(value) && new URL(value).origin === value
const isClaim = (value: unknown): boolean =>
  isObject(value) &&
  typeof value.claimType === 'string' &&
  typeof value.claimValue === 'string' &&
  (value.reason === undefined || typeof value.reason === 'string') &&
  (value.essential === undefined || typeof value.essential === 'boolean')

const storeVerbs = [
  'createSession',
  'findSession',
  'rotateRefreshToken',
  'endSession',
  'revokeSessions',
  'listSessions',
  'countChallengeUses',
  'useChallenge',
  'chargeQuota',
  'ping',
  'close'
] as const satisfies readonly (keyof Store)[]

const rules: Record<keyof DidAuthConfig, Rule> = {
  challengeSecret: { ...text, required: true },
  serviceUrl: {
    holds: isPrintable,
    remedy: 'give a URI of printable ASCII without space, double quote or backslash',
    required: true
  },
  serviceDid: { holds: isDid, remedy: 'give a DID, such as did:ethr:rsk:0x… (40 hex digits)', required: true },
  serviceSigner: {
    ...logic,
    remedy: 'give es256kSigner(privateKey) or another did-jwt ES256K signer',
    required: true
  },
  useCookies: truth,
  requestSignupPath: path,
  signupPath: path,
  requestAuthPath: path,
  authPath: path,
  logoutPath: path,
  refreshTokenPath: path,
  challengeExpirationTimeInSeconds: numberFrom(1, 'seconds'),
  maxRequestsPerTimeSlot: {
    holds: (value) => typeof value === 'number' && value >= 1,
    remedy: 'give a number of requests, at least 1 (Infinity for no limit)'
  },
  timeSlotInSeconds: numberFrom(1, 'seconds'),
  userSessionDurationInHours: {
    holds: (value) => typeof value === 'number' && value > 0 && value <= 1e9,
    remedy: 'give a number of hours above 0'
  },
  accessTokenExpirationTimeInSeconds: numberFrom(1, 'seconds'),
  rpcUrl: { holds: isUrl, remedy: 'give an http(s) URL' },
  networkName: text,
  registry: {
    holds: (value) => typeof value === 'string' && /^0x[0-9a-fA-F]{40}$/.test(value),
    remedy: 'give a contract address, 0x and 40 hex digits'
  },
  authenticationBusinessLogic: logic,
  requiredCredentials: listOf((value) => text.holds(value), 'give an array of schema names'),
  requiredClaims: listOf(isClaim, 'give an array of { claimType, claimValue, reason?, essential? }'),
  signupBusinessLogic: logic,
  store: object(...storeVerbs),
  replayProtection: {
    holds: (value) => value === 'single-use' || value === 'window',
    remedy: 'give "single-use" or "window"'
  },
  refreshReuseGraceSeconds: numberFrom(0, 'seconds'),
  loginDomains: listOf(isPrintable, 'give an array of domains, printable ASCII without space'),
  trustedOrigins: listOf(isOrigin, 'give an array of origins such as "https://app.example", without a path'),
  resolver: object('resolve'),
  logger: object('info', 'warn', 'error'),
  clock: object('nowSeconds')
}

/**
 * Checks a configuration once and completes it.
 *
 * @throws DidAuthError ERR_CONFIG, naming every problem at once: field, value received (never a secret) and remedy
 */
export function parseConfig(config: unknown): Settings {
  const problems = isObject(config)
    ? findProblems(config)
    : [`config: received ${describe('config', config)}; give an object`]
  if (problems.length > 0) {
    const message = `express-did-auth: invalid configuration\n${problems.map((problem) => `  - ${problem}`).join('\n')}`
    throw new DidAuthError('ERR_CONFIG', { message })
  }
  return Object.freeze(completed(config as DidAuthConfig))
}

function findProblems(config: Record<string, unknown>): string[] {
  const bad = Object.entries(rules).filter(([field, rule]) => {
    const value = config[field]
    return value === undefined ? rule.required === true : !rule.holds(value)
  })
  const problems = bad.map(([field, rule]) => `${field}: received ${describe(field, config[field])}; ${rule.remedy}`)
  const good = { ...defaults, ...parseGiven(config, new Set(bad.map(([field]) => field))) }
  return [...problems, ...relationProblems(good, config.rpcUrl !== undefined)]
}

/**
 * Problems that lie between fields which are good each for itself.
 *
 * @param config - without the fields that are not: some that are required may be absent
 */
function relationProblems(config: Partial<CompleteConfig> & Defaults, hasRpcUrl: boolean): string[] {
  const problems: string[] = []
  const { serviceUrl, networkName } = config
  const domains = serviceUrl === undefined ? config.loginDomains : acceptedLoginDomains(serviceUrl, config.loginDomains)
  if (domains.length > MAX_LOGIN_DOMAINS) {
    const most = String(MAX_LOGIN_DOMAINS)
    problems.push(
      `loginDomains: received ${describe('loginDomains', domains)}; give at most ${most} with those of serviceUrl`
    )
  }
  const { requestSignup, signup, requestAuth, auth, logout, refreshToken } = pathsOf(config)
  // As Express compares them: without case, and without a slash at the end.
  const paths = [requestSignup, signup, requestAuth, auth, logout, refreshToken].map((route) =>
    route.toLowerCase().replace(/(?<=.)\/$/, '')
  )
  const repeated = paths.filter((route, index) => paths.indexOf(route) !== index)
  problems.push(...repeated.map((route) => `paths: received ${route} twice; give each route its own path`))
  const isKnownNetwork = defaultNetworks.some(({ name }) => name === (networkName ?? name))
  if (!hasRpcUrl && config.resolver === undefined && !isKnownNetwork) {
    const received = describe('networkName', networkName)
    problems.push(`networkName: received ${received} without rpcUrl; give rpcUrl, or "rsk" or "rsk:testnet"`)
  }
  return problems
}

// The address of an RPC node often carries its customer's key.
const SECRET_FIELD = /secret|signer|rpcUrl|config/i
// A private key that came into the wrong field.
const KEY = /[0-9a-f]{64,}/gi
const MAX_SHOWN_LENGTH = 100

function describe(field: string, value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (Array.isArray(value)) return describeArray(field, value)
  const isSecret = SECRET_FIELD.test(field)
  if (!isSecret && (typeof value === 'number' || typeof value === 'boolean')) return String(value)
  if (isSecret || typeof value !== 'string') return `a value of type ${typeof value} (not shown)`
  const shown = value.replace(KEY, '(not shown)')
  return JSON.stringify(shown.length > MAX_SHOWN_LENGTH ? `${shown.slice(0, MAX_SHOWN_LENGTH)}…` : shown)
}

function describeArray(field: string, values: unknown[]): string {
  const shown = values.map((value) => (Array.isArray(value) ? 'an array' : describe(field, value))).join(', ')
  return `[${shown.length > MAX_SHOWN_LENGTH ? `${shown.slice(0, MAX_SHOWN_LENGTH)}…` : shown}]`
}

function completed(given: DidAuthConfig): Settings {
  const config: CompleteConfig = { ...defaults, ...parseGiven(given) }
  const url = parseHttpUrl(config.serviceUrl)
  return {
    challengeSecret: config.challengeSecret,
    serviceUrl: config.serviceUrl,
    serviceDid: config.serviceDid,
    serviceSigner: config.serviceSigner,
    useCookies: config.useCookies,
    paths: Object.freeze(pathsOf(config)),
    replyUrl: url === undefined ? undefined : config.serviceUrl.replace(/\/+$/, '') + config.signupPath,
    challengeWindowSeconds: config.challengeExpirationTimeInSeconds,
    maxRequestsPerTimeSlot: config.maxRequestsPerTimeSlot,
    timeSlotSeconds: Math.ceil(config.timeSlotInSeconds),
    // Rounded: 1.1 hours are 3960.0000000000005 seconds.
    sessionSeconds: Math.max(1, Math.round(config.userSessionDurationInHours * 3600)),
    accessTokenSeconds: Math.floor(config.accessTokenExpirationTimeInSeconds),
    resolution: resolutionOf(config),
    authenticationBusinessLogic: config.authenticationBusinessLogic,
    signupBusinessLogic: config.signupBusinessLogic,
    required: { credentials: [...config.requiredCredentials], claims: [...config.requiredClaims] },
    singleUse: config.replayProtection === 'single-use',
    refreshReuseGraceSeconds: config.refreshReuseGraceSeconds,
    loginDomains: acceptedLoginDomains(config.serviceUrl, config.loginDomains),
    trustedOrigins: new Set([...(url === undefined ? [] : [url.origin]), ...config.trustedOrigins]),
    unknownOptions: Object.keys(given).filter((option) => !Object.hasOwn(rules, option))
  }
}

function pathsOf(config: Defaults): Paths {
  return {
    requestSignup: config.requestSignupPath,
    signup: config.signupPath,
    requestAuth: config.requestAuthPath,
    auth: config.authPath,
    logout: config.logoutPath,
    refreshToken: config.refreshTokenPath
  }
}

function resolutionOf(config: CompleteConfig): Resolution {
  const { resolver, rpcUrl, networkName, registry } = config
  if (resolver !== undefined) return { kind: 'resolver', resolver }
  const networks =
    rpcUrl === undefined
      ? defaultNetworks.filter(({ name }) => name === (networkName ?? name))
      : [{ name: networkName ?? 'rsk', rpcUrl }]
  return { kind: 'ethr', networks, registry, provesByAddress: rpcUrl === undefined }
}

/** The options that are given, own or inherited. One that is undefined counts as not given. */
function parseGiven(config: object, bad: ReadonlySet<string> = new Set()): DidAuthConfig {
  const options = Object.keys(rules).map((option) => [option, (config as Record<string, unknown>)[option]] as const)
  const given = options.filter(([option, value]) => value !== undefined && !bad.has(option))
  return Object.fromEntries(given) as unknown as DidAuthConfig
}

/**
 * What is allowed and yet deserves a word in the log at setup.
 *
 * @param settings - complete configuration
 * @param environment - `hasOwnStore`: a store was given; `isProduction`: NODE_ENV
 */
export function configWarnings(
  settings: Settings,
  environment: { hasOwnStore: boolean; isProduction: boolean }
): string[] {
  const url = parseHttpUrl(settings.serviceUrl)
  const isLoopback = url !== undefined && /^(?:localhost|.*\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(url.hostname)
  const unknownOptions = settings.unknownOptions.map((option) => `${option} is no option, see the README's table`)
  const asksCredentials = settings.required.credentials.length > 0
  const warnings: [boolean, string][] = [
    [new TextEncoder().encode(settings.challengeSecret).length < 32, 'challengeSecret is shorter than 32 bytes'],
    [settings.accessTokenSeconds > 900, 'access tokens live longer than 900 s: logout leaves them good until then'],
    [url?.protocol === 'http:' && !isLoopback, 'serviceUrl is http: tokens travel readable to anybody on the way'],
    [environment.isProduction && !environment.hasOwnStore, 'sessions are in memory: a restart logs everybody out'],
    [
      asksCredentials && settings.resolution.kind === 'ethr' && settings.resolution.provesByAddress,
      'without rpcUrl or resolver a did:ethr issuer is proved by its address alone: a rotated key keeps signing'
    ]
  ]
  return [...warnings.flatMap(([applies, message]) => (applies ? [message] : [])), ...unknownOptions]
}

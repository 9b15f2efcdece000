import * as rules from './rules.js'
import { siweRules, type CompleteSiweOptions, type SiweOptions } from './siwe-options.js'
import type { AuthenticationBusinessLogic, DescribeSession } from '../ports.js'
import type { RefreshBusinessLogic, SignupBusinessLogic } from '../ports.js'
import type { Clock, IssuerEndedSessionsOptions, ContractVerifier, DidResolver, Logger } from '../ports.js'
import { storeVerbs, type ExternalResourceKey, type OnSecurityEvent, type ResourceKey } from '../ports.js'
import type { Signer, Store } from '../ports.js'
import { isDid, isKeyDid, isUserNetwork, toNetwork } from '../protocol/did.js'
import { isObject } from '../protocol/json.js'
import { isLoginDialect } from '../protocol/login-message.js'
import { isSecureUrl } from '../protocol/parse-url.js'
import { isClaim, type Claim } from '../protocol/selective-disclosure.js'

/**
 * Options of {@link setupDidAuth}: first those of the specification, then those that this package adds. An option that
 * is `undefined` counts as absent, so that values of `process.env` fit as they are.
 */
export interface DidAuthConfig {
  /** Secret from which challenges are computed, at least 32 bytes. All instances of a service share it. */
  challengeSecret: string
  /** Audience (`aud`) of all tokens. If it is an http(s) URL, its host is a login domain and its origin is trusted. */
  serviceUrl: string
  /** DID whose key signs the tokens. Default with `es256kSigner(privateKey)`: the DID of that key on `rsk`. */
  serviceDid?: string | undefined
  /**
   * Former DIDs (`did:ethr`) of the service after a change of its key, at most 10. Access tokens that they issued stay
   * valid until their `exp`; remove the DIDs after that.
   */
  previousServiceDids?: readonly string[] | undefined
  /** Signer with the key of `serviceDid`: `es256kSigner(privateKey)` or any did-jwt ES256K signer. */
  serviceSigner: Signer
  /** Whether tokens travel in cookies. Default false: in bodies and the Authorization header. */
  useCookies?: boolean | undefined
  /** Path of the challenge for a sign up: `POST <path>` and `GET <path>/:did`. Default `/request-signup`. */
  requestSignupPath?: string | undefined
  /** Path of the sign up. Default `/signup`. */
  signupPath?: string | undefined
  /** Path of the challenge for a login: `POST <path>` and `GET <path>/:did`. Default `/request-auth`. */
  requestAuthPath?: string | undefined
  /** Path of the login. Default `/auth`. */
  authPath?: string | undefined
  /** Path of the logout. Default `/logout`. */
  logoutPath?: string | undefined
  /** Path of the refresh. Default `/refresh-token`. */
  refreshTokenPath?: string | undefined
  /** Longest validity of a challenge, in seconds. Default 300. */
  challengeExpirationTimeInSeconds?: number | undefined
  /** Maximum number of requests of one DID to protected routes per time slot. Default 20. */
  maxRequestsPerTimeSlot?: number | undefined
  /** Length of a time slot, in seconds. Default 600. */
  timeSlotInSeconds?: number | undefined
  /** Validity of each refresh token, in hours, fractions allowed. Default 168. */
  userSessionDurationInHours?: number | undefined
  /** Validity of each access token, in seconds. Default 600; more than 900 gives a warning. */
  accessTokenExpirationTimeInSeconds?: number | undefined
  /** URL of the RPC node that resolves did:ethr. Default: public nodes of both Rootstock networks. */
  rpcUrl?: string | undefined
  /** Network of the node at `rpcUrl` (default `rsk`). Without `rpcUrl`: which of the two default networks to use. */
  networkName?: string | undefined
  /** Address of the DID registry contract, `0x` and 40 hex digits. Default: the registry of Rootstock. */
  registry?: string | undefined
  /** Business logic at each login with a valid signature. It may refuse the user and add claims. */
  authenticationBusinessLogic?: AuthenticationBusinessLogic | undefined
  /** Names of credential schemas requested at sign up. `trustedIssuers` or the business logic decides on issuers. */
  requiredCredentials?: readonly string[] | undefined
  /** Claims requested at sign up. Their values are unverified: no signed message contains them. */
  requiredClaims?: readonly Claim[] | undefined
  /** Business logic at each sign up with a valid signature. It decides on the disclosed credentials and claims. */
  signupBusinessLogic?: SignupBusinessLogic | undefined

  /** Store of sessions, challenge uses and quotas. Default: a bounded store in memory, which a restart empties. */
  store?: Store | undefined
  /** `single-use` (default): one signature opens one session. `window`: any number until its window ends. */
  replayProtection?: 'single-use' | 'window' | undefined
  /** Seconds after its replacement in which a refresh token is refused without counting as stolen. Default 10. */
  refreshReuseGraceSeconds?: number | undefined
  /** Maximum lifetime of a session in hours, however often it is refreshed; fractions allowed. Default: unlimited. */
  absoluteSessionDurationInHours?: number | undefined
  /** Business logic at each refresh. `false` or a DidAuthError revokes the session; any other error is a failure. */
  refreshBusinessLogic?: RefreshBusinessLogic | undefined
  /** Issuers whose credentials are accepted at sign up. They are checked before any DID is resolved. Default: any. */
  trustedIssuers?: readonly string[] | ((issuerDid: string) => unknown) | undefined
  /**
   * Whether a sign up refuses credentials that their issuer has revoked or suspended. `check` fetches the status lists
   * that trusted issuers name, and needs `trustedIssuers`. Default `ignore`.
   */
  credentialStatus?: 'ignore' | 'check' | undefined
  /** Further texts accepted after `Login to `. Together with those of `serviceUrl`, at most 6. */
  loginDomains?: readonly string[] | undefined
  /** Accepted first lines of a message: `login`, `Login to <domain>` (default); `url`, `URL: <domain>` of rLogin. */
  loginDialects?: readonly ('login' | 'url')[] | undefined
  /**
   * Clients for blockchain nodes, by chain id. Users whose account is a contract on one of these chains log in by
   * EIP-4361, as `did:ethr:0x<chain id>:<address>`; no key can log in with such a DID. Default: none, and a login makes
   * no blockchain request. See {@link ContractVerifier} for an example.
   */
  contractWallets?: Readonly<Record<number, ContractVerifier>> | undefined
  /**
   * Authority on the control of a DID. `address` (default): the key of the address in the DID controls it, and no
   * network request is made. `document`: each key that the DID document lists under `authentication` controls it. The
   * document is resolved at login and at each refresh, through `rpcUrl` or `resolver`.
   */
  didControl?: 'address' | 'document' | undefined
  /** Accepted networks of `did:ethr`, such as `['rsk', '']`; `''` or `ethereum` is Ethereum. Default: any. */
  networks?: readonly string[] | undefined
  /** Whether the security events `login` and `signup` contain the message that the user signed. Default false. */
  loginProofs?: boolean | undefined
  /** Login by EIP-4361 messages, as wallet modals sign them. `true` sets its defaults. Default: off. */
  siwe?: true | SiweOptions | undefined
  /** Further origins of your own pages. They may make unsafe requests with cookies. */
  trustedOrigins?: readonly string[] | undefined
  /** Prefix of both cookies' names. `__Host-` prevents sibling domains from setting them. Default: none. */
  cookiePrefix?: '' | '__Host-' | '__Secure-' | undefined
  /** Path of `GET` for the caller's session, such as `/session`. Default: no such route. */
  sessionPath?: string | undefined
  /** Path of `GET` for the list of the caller's sessions, and of `DELETE <path>/:id`. Default: no such routes. */
  sessionsPath?: string | undefined
  /** URLs of other services for which users get tokens: https or this machine, at most 50. Needs `resourceKeys`. */
  resources?: readonly string[] | undefined
  /** P-256 keys, as private JWK or external. The first signs tokens for `resources`; all public keys are published. */
  resourceKeys?: readonly (ResourceKey | ExternalResourceKey)[] | undefined
  /** Path of the tokens for `resources`. Default `/resource-token`. */
  resourceTokenPath?: string | undefined
  /**
   * Whether machines get tokens for `resources`: programs and agents that sign an assertion (RFC 7523) with the key of
   * their DID, a `did:key`, `did:jwk` or `did:ethr`. Needs `resources`, `resourceKeys`, and an http(s) `serviceUrl`.
   * `authenticationBusinessLogic` decides who may; without it, any DID gets a token. Default false.
   */
  machineLogin?: boolean | undefined
  /** Path of the tokens for machines, the token endpoint of OAuth 2.0. Default `/token`. */
  tokenPath?: string | undefined
  /**
   * Another service whose tokens are accepted here, sent after `Bearer`. `issuer` is its `serviceUrl`; `audience` is
   * the `serviceUrl` of this service by default. Its public keys are fetched from it unless `keys` contains them. With
   * `endedSessions`, tokens of sessions that ended there are refused about 2 s later; default: they are valid until
   * their `exp`.
   */
  resourceIssuer?:
    | {
        issuer: string
        audience?: string | undefined
        keys?: readonly ResourceKey[] | undefined
        endedSessions?: boolean | IssuerEndedSessionsOptions | undefined
      }
    | undefined
  /** Whether `/.well-known/did-auth.json` is published; with `resources` it always is. Default false. */
  discovery?: boolean | undefined
  /**
   * Whether `/.well-known/ended-sessions` lists the sessions that were logged out or revoked. Services that verify
   * tokens locally refuse them about 2 s later. The discovery document is published as well. The store needs the verb
   * `listEndedSessions`. Default false.
   */
  endedSessions?: boolean | undefined
  /**
   * Whether a login with a `DPoP` proof (RFC 9449) binds its session to the key of the device, so that a copy of its
   * refresh token is refused. `accepted`: a login may have a proof. `required`: each login needs one. `off` (default):
   * logins bind nothing; sessions that are bound stay so. Proofs name the origin of `serviceUrl` or one of
   * `trustedOrigins`.
   */
  deviceBinding?: 'off' | 'accepted' | 'required' | undefined
  /** Describes the client of a login for the list of the user's sessions: `Chrome on Windows`. Default: nothing. */
  describeSession?: DescribeSession | undefined
  /** Receives each event that operators may want to count or to be notified of. */
  onSecurityEvent?: OnSecurityEvent | undefined
  /** Format of error answers if `Accept` does not decide: `text` (default), or `problem` for RFC 9457. */
  errorFormat?: 'text' | 'problem' | undefined
  /** Any did-resolver `Resolvable`. It replaces `rpcUrl`, `networkName` and `registry`. */
  resolver?: DidResolver | undefined
  /** Receiver of log lines. Default: warnings and errors on the console. */
  logger?: Logger | undefined
  /** Clock of the service, for tests. Default: the clock of this machine. */
  clock?: Clock | undefined
}

/** Declarations of all options, in the order in which their problems are listed. */
export const declarations = {
  challengeSecret: { ...rules.text, required: true, isSetting: true },
  serviceUrl: {
    holds: rules.isPrintable,
    remedy: 'give a URI of printable ASCII without space, double quote or backslash',
    required: true,
    isSetting: true
  },
  serviceSigner: {
    ...rules.anyFunction,
    remedy: 'give es256kSigner(privateKey) or another did-jwt ES256K signer',
    required: true,
    isSetting: true
  },
  serviceDid: {
    holds: isKeyDid,
    remedy: 'give a DID, such as did:ethr:rsk:0x… (40 hex digits)',
    required: true,
    // Undefined in the settings: the DID of the signer's local key, which is computed once the curve is loaded.
    isSetting: true
  },
  previousServiceDids: {
    ...rules.acceptList(rules.isNamedKey, 'give an array of at most 10 DIDs of did:ethr, of earlier keys', 0, 10),
    default: [],
    isSetting: true
  },
  useCookies: { ...rules.boolean, default: false, isSetting: true },
  requestSignupPath: { ...rules.path, default: '/request-signup' },
  signupPath: { ...rules.path, default: '/signup' },
  requestAuthPath: { ...rules.path, default: '/request-auth' },
  authPath: { ...rules.path, default: '/auth' },
  logoutPath: { ...rules.path, default: '/logout' },
  refreshTokenPath: { ...rules.path, default: '/refresh-token' },
  challengeExpirationTimeInSeconds: { ...rules.acceptSeconds(1), default: 300 },
  maxRequestsPerTimeSlot: {
    ...rules.acceptNumber(1, Infinity, 'give a number of requests, at least 1 (Infinity for no limit)'),
    default: 20,
    isSetting: true
  },
  timeSlotInSeconds: { ...rules.acceptSeconds(1), default: 600 },
  userSessionDurationInHours: { ...rules.hours, default: 168 },
  accessTokenExpirationTimeInSeconds: { ...rules.acceptSeconds(1), default: 600 },
  rpcUrl: { holds: rules.isUrl, remedy: 'give an http(s) URL' },
  networkName: { ...rules.text, remedy: 'give a name such as "rsk" or "ethereum"' },
  registry: {
    holds: (value) => typeof value === 'string' && /^0x[0-9a-fA-F]{40}$/.test(value),
    remedy: 'give a contract address, 0x and 40 hex digits',
    default: '0xdca7ef03e98e0dc2b855be647c39abe984fcf21b'
  },
  authenticationBusinessLogic: { ...rules.anyFunction, isSetting: true },
  requiredCredentials: {
    ...rules.acceptList((value) => rules.text.holds(value), 'give an array of schema names'),
    default: []
  },
  requiredClaims: {
    ...rules.acceptList(isClaim, 'give an array of { claimType, claimValue, reason?, essential? }'),
    default: []
  },
  signupBusinessLogic: { ...rules.anyFunction, isSetting: true },
  store: rules.acceptObject(...Object.values(storeVerbs).flat(), 'ping', 'close'),
  absoluteSessionDurationInHours: rules.hours,
  refreshBusinessLogic: { ...rules.anyFunction, isSetting: true },
  trustedIssuers: {
    holds: (value) => typeof value === 'function' || (Array.isArray(value) && value.every(isDid)),
    remedy: 'give an array of DIDs, or a function of a DID'
  },
  credentialStatus: { ...rules.acceptValues('ignore', 'check'), default: 'ignore', isSetting: true },
  cookiePrefix: { ...rules.acceptValues('', '__Host-', '__Secure-'), default: '', isSetting: true },
  sessionPath: rules.path,
  sessionsPath: rules.path,
  resources: {
    ...rules.acceptList(isSecureUrl, 'give an array of at most 50 URLs, https or on this machine', 0, 50),
    default: [],
    isSetting: true
  },
  resourceKeys: {
    ...rules.acceptList(rules.isResourceKey, 'give an array of private keys of P-256 as JWK, or { publicKey, sign }'),
    default: [],
    isSetting: true
  },
  resourceTokenPath: { ...rules.path, default: '/resource-token' },
  machineLogin: { ...rules.boolean, default: false, isSetting: true },
  tokenPath: { ...rules.path, default: '/token' },
  resourceIssuer: {
    holds: rules.isTrustedIssuer,
    remedy:
      'give { issuer, audience?, keys?, endedSessions? }, the issuer as a URL, https or on this machine, keys of P-256 as JWK'
  },
  discovery: { ...rules.boolean, default: false },
  endedSessions: { ...rules.boolean, default: false },
  deviceBinding: { ...rules.acceptValues('off', 'accepted', 'required'), default: 'off' },
  describeSession: { ...rules.anyFunction, isSetting: true },
  onSecurityEvent: rules.anyFunction,
  errorFormat: { ...rules.acceptValues('text', 'problem'), default: 'text', isSetting: true },
  replayProtection: { ...rules.acceptValues('single-use', 'window'), default: 'single-use' },
  refreshReuseGraceSeconds: { ...rules.acceptSeconds(0), default: 10, isSetting: true },
  loginDomains: {
    ...rules.acceptList(rules.isPrintable, 'give an array of domains, printable ASCII without space'),
    default: []
  },
  loginDialects: {
    ...rules.acceptList(isLoginDialect, 'give an array of "login" and "url", at least one', 1),
    default: ['login'],
    normalize: (dialects) => [...new Set(dialects)],
    isSetting: true
  },
  contractWallets: {
    holds: (value) => isObject(value) && Object.entries(value).every(rules.isContractVerifier),
    remedy: 'give clients with verifyMessage, getCode and getChainId, each under the chain id that its chain.id names',
    isSetting: true
  },
  didControl: { ...rules.acceptValues('address', 'document'), default: 'address', isSetting: true },
  networks: {
    ...rules.acceptList(
      isUserNetwork,
      rules.toNetworkRemedy('give an array of networks such as "rsk", "" for Ethereum, at least one'),
      1
    ),
    normalize: (names) => names.map(toNetwork),
    isSetting: true
  },
  loginProofs: { ...rules.boolean, default: false, isSetting: true },
  siwe: {
    holds: (value) => value === true || isObject(value),
    remedy: `give true, or an object of ${Object.keys(siweRules).join(', ')}`
  },
  trustedOrigins: { ...rules.acceptList(rules.isOrigin, rules.correctOrigins), default: [] },
  resolver: rules.acceptObject('resolve'),
  logger: rules.acceptObject('info', 'warn', 'error'),
  clock: rules.acceptObject('nowSeconds')
} satisfies rules.Declarations<DidAuthConfig>

/** Options of the caller without those that are undefined. */
export type DefinedOptions = { [Option in keyof DidAuthConfig]: Exclude<DidAuthConfig[Option], undefined> }

/** Names of all options. */
export const optionNames: readonly string[] = Object.keys(declarations)

type OptionsWith<Member> = {
  [Option in keyof DidAuthConfig]-?: (typeof declarations)[Option] extends Member ? Option : never
}[keyof DidAuthConfig]

const entries = Object.entries<rules.Declaration>(declarations)

/** Default of every option that has one. */
export const defaults = Object.fromEntries(
  entries.flatMap(([option, declaration]) => ('default' in declaration ? [[option, declaration.default]] : []))
) as Required<Pick<DefinedOptions, OptionsWith<{ default: unknown }>>>

/** Options with every default applied, in the units of the caller. */
export type CompleteOptions = Omit<DefinedOptions, 'siwe'> & typeof defaults & { siwe: CompleteSiweOptions | undefined }

/** Options that the settings contain under their own name. */
type PlainSettings = Readonly<Pick<CompleteOptions, OptionsWith<{ isSetting: true }>>>

/** Returns the options that the settings contain under their own name. Lists are copied: the caller may change them. */
export function pickPlainSettings(options: CompleteOptions): PlainSettings {
  const copy = (value: unknown): unknown => (Array.isArray(value) ? [...(value as unknown[])] : value)
  const plainNames = new Set(entries.flatMap(([option, { isSetting }]) => (isSetting === true ? [option] : [])))
  const plainOptions = Object.entries(options).filter(([option]) => plainNames.has(option))
  return Object.fromEntries(plainOptions.map(([option, value]) => [option, copy(value)])) as PlainSettings
}

/** Default paths of the routes that accept POST. */
export const defaultPaths = {
  requestSignup: defaults.requestSignupPath,
  signup: defaults.signupPath,
  requestAuth: defaults.requestAuthPath,
  auth: defaults.authPath,
  refreshToken: defaults.refreshTokenPath,
  logout: defaults.logoutPath
} as const

import type { AuthenticationBusinessLogic, RefreshBusinessLogic, SignupBusinessLogic } from '../ports.js'
import type { Clock, ContractVerifier, DidResolver, EthrNetwork, Logger } from '../ports.js'
import type { OnSecurityEvent, ResourceKey, Signer, Store } from '../ports.js'
import { networkOfDid } from '../protocol/did.js'
import type { Claim } from '../protocol/selective-disclosure.js'

/** Options of the login by an EIP-4361 message. */
export interface SiweOptions {
  /** Path below which `nonce`, `verify` and `logout` are. Default `/siwe`. */
  path?: string | undefined
  /**
   * Network of these users' DIDs, `''` or `ethereum` for Ethereum, whatever chain a message names. Default: that of
   * `serviceDid`. The number of a chain of `contractWallets` is refused.
   */
  network?: string | undefined
  /** Validity of a nonce, in seconds, 30 to 3,600. Default 300. */
  nonceSeconds?: number | undefined
  /** Further hosts of pages whose messages are accepted, with their port. */
  domains?: readonly string[] | ((domain: string) => boolean) | undefined
}

/**
 * The configuration of {@link setupDidAuth}: the specification's table, then what this package adds. An option that is
 * undefined counts as absent, so that it may be taken directly from `process.env`.
 */
export interface DidAuthConfig {
  /** Secret that challenges are computed from; 32 bytes or more. Instances of one service share it. */
  challengeSecret: string
  /** Audience (`aud`) of all tokens. An http(s) URL also names the login domain and a trusted origin. */
  serviceUrl: string
  /** DID whose key signs the tokens. Default with `serviceSigner: es256kSigner(privateKey)`: that key's, on `rsk`. */
  serviceDid?: string | undefined
  /**
   * DIDs (`did:ethr`) that the service had before its key was replaced, at most 10: access tokens that they issued stay
   * valid until their `exp`. Remove them then.
   */
  previousServiceDids?: readonly string[] | undefined
  /** Signs with the key of `serviceDid`: `es256kSigner(privateKey)` or any did-jwt ES256K signer. */
  serviceSigner: Signer
  /** Whether tokens are sent in cookies. Default false: in bodies and the Authorization header. */
  useCookies?: boolean | undefined
  /** Default `/request-signup`. Each challenge is served at POST `path` and GET `path/:did`. */
  requestSignupPath?: string | undefined
  /** Default `/signup`. */
  signupPath?: string | undefined
  /** Default `/request-auth`. */
  requestAuthPath?: string | undefined
  /** Default `/auth`. */
  authPath?: string | undefined
  /** Default `/logout`. */
  logoutPath?: string | undefined
  /** Default `/refresh-token`. */
  refreshTokenPath?: string | undefined
  /** Longest validity of a challenge, in seconds. Default 300. */
  challengeExpirationTimeInSeconds?: number | undefined
  /** Requests that one DID may make to protected routes per time slot. Default 20. */
  maxRequestsPerTimeSlot?: number | undefined
  /** Length of a time slot, in seconds. Default 600. */
  timeSlotInSeconds?: number | undefined
  /** Validity of each refresh token, in hours, fractions allowed. Default 168. */
  userSessionDurationInHours?: number | undefined
  /** Validity of each access token, in seconds. Default 600; more than 900 gives a warning. */
  accessTokenExpirationTimeInSeconds?: number | undefined
  /** RPC address for resolving did:ethr issuers of credentials. Default: both Rootstock networks. */
  rpcUrl?: string | undefined
  /** Network that `rpcUrl` serves (default `rsk`; `ethereum`), or which of the default networks to keep. */
  networkName?: string | undefined
  /** Address of the DID registry contract. */
  registry?: string | undefined
  /** Runs at each login with a valid signature. */
  authenticationBusinessLogic?: AuthenticationBusinessLogic | undefined
  /** Names of credential schemas requested at sign up. `trustedIssuers` or the business logic decides on issuers. */
  requiredCredentials?: readonly string[] | undefined
  /** Claims requested at sign up. What a user answers is in no signed message: it is the user's own word. */
  requiredClaims?: readonly Claim[] | undefined
  /** Runs at each sign up with a valid signature; decides about what was disclosed. */
  signupBusinessLogic?: SignupBusinessLogic | undefined

  /** Sessions, uses and quotas. Default: memory, which is bounded and forgets at restart. */
  store?: Store | undefined
  /** `single-use` (default): one signature opens one session. `window`: any number until its window ends. */
  replayProtection?: 'single-use' | 'window' | undefined
  /** Seconds in which a replaced refresh token is only refused, and does not count as stolen. Default 10. */
  refreshReuseGraceSeconds?: number | undefined
  /** Hours after its login at which a session ends, however often it was refreshed; fractions count. Default: none. */
  absoluteSessionDurationInHours?: number | undefined
  /** Runs at each refresh; `false` or a DidAuthError revokes the session, and any other error is a failure. */
  refreshBusinessLogic?: RefreshBusinessLogic | undefined
  /** Issuers whose credentials are accepted at sign up, asked before anything is resolved. Default: any. */
  trustedIssuers?: readonly string[] | ((issuerDid: string) => unknown) | undefined
  /** Further texts accepted after `Login to `. At most 6 with those of `serviceUrl`. */
  loginDomains?: readonly string[] | undefined
  /** Accepted first lines of a message: `login`, `Login to <domain>` (default); `url`, `URL: <domain>`, of rLogin. */
  loginDialects?: readonly ('login' | 'url')[] | undefined
  /**
   * Clients of nodes by chain id: users whose account is a contract of such a chain log in by EIP-4361, as
   * `did:ethr:0x<chain id>:<address>`. No key logs in with such a DID. Default: none, and no chain is called at login.
   * {@link ContractVerifier} has the recipe.
   */
  contractWallets?: Readonly<Record<number, ContractVerifier>> | undefined
  /**
   * Authority on who controls a DID: `address` (default), the key of the address in it, offline; `document`, each key that its
   * document lists under `authentication`, asked at login and at each refresh from the resolver of `rpcUrl` or
   * `resolver`.
   */
  didControl?: 'address' | 'document' | undefined
  /** Networks of users' DIDs that are accepted, `''` or `ethereum` for Ethereum: `['rsk', '']`. Default: any. */
  networks?: readonly string[] | undefined
  /** Whether the security events `login` and `signup` contain the proof that the user signed. Default false. */
  loginProofs?: boolean | undefined
  /** Login by EIP-4361 messages, as wallet modals sign them: `true` for its defaults. Default: no such routes. */
  siwe?: true | SiweOptions | undefined
  /** Further origins of your own pages: they may make unsafe requests with cookies, and do not count as foreign. */
  trustedOrigins?: readonly string[] | undefined
  /** Prefix of both cookies' names. `__Host-` prevents sibling domains from setting them. Default: none. */
  cookiePrefix?: '' | '__Host-' | '__Secure-' | undefined
  /** Path of `GET` for the caller's own session, such as `/session`. Default: no such route. */
  sessionPath?: string | undefined
  /** Path of `GET` for the list of the caller's sessions, and of `DELETE <path>/:id`. Default: no such routes. */
  sessionsPath?: string | undefined
  /** URLs of other services that users get tokens for, https or on this machine, at most 50. Needs `resourceKeys`. */
  resources?: readonly string[] | undefined
  /** Private keys of P-256 as JWK: the first signs the tokens for `resources`, all are published. */
  resourceKeys?: readonly ResourceKey[] | undefined
  /** Default `/resource-token`. */
  resourceTokenPath?: string | undefined
  /**
   * `serviceUrl` of a service whose tokens are accepted here, after `Bearer`; `audience` is this service by default.
   * Its `resourceKeys` are fetched, unless `keys` has them: the public halves are enough.
   */
  resourceIssuer?:
    { issuer: string; audience?: string | undefined; keys?: readonly ResourceKey[] | undefined } | undefined
  /** Publishes `/.well-known/did-auth.json`, as `resources` does. Default false. */
  discovery?: boolean | undefined
  /** Receives each event that an operator may want to count, or to be notified of. */
  onSecurityEvent?: OnSecurityEvent | undefined
  /** Format of error answers when `Accept` does not decide: `text` (default), or `problem` for RFC 9457. */
  errorFormat?: 'text' | 'problem' | undefined
  /** Any did-resolver `Resolvable`; replaces `rpcUrl`, `networkName` and `registry`. */
  resolver?: DidResolver | undefined
  /** Default: warnings and errors go to the console. */
  logger?: Logger | undefined
  /** Clock that tests replace. */
  clock?: Clock | undefined
}

/** A configuration without the options that are undefined. */
export type GivenConfig = { [Option in keyof DidAuthConfig]: Exclude<DidAuthConfig[Option], undefined> }

/** Default of every option that has one. */
export const defaults = {
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
  loginDialects: ['login'],
  didControl: 'address',
  previousServiceDids: [],
  loginProofs: false,
  trustedOrigins: [],
  cookiePrefix: '',
  resources: [],
  resourceKeys: [],
  resourceTokenPath: '/resource-token',
  discovery: false,
  errorFormat: 'text',
  requiredCredentials: [],
  requiredClaims: []
} satisfies Partial<GivenConfig>

type Defaults = Required<Pick<GivenConfig, keyof typeof defaults>>

/** Networks that issuers are resolved on when no `rpcUrl` is given. */
export const defaultNetworks: readonly EthrNetwork[] = [
  { name: 'rsk', rpcUrl: 'https://public-node.rsk.co', chainId: 30 },
  { name: 'rsk:testnet', rpcUrl: 'https://public-node.testnet.rsk.co', chainId: 31 }
]

/** A configuration with every default applied. */
export type CompleteConfig = Omit<GivenConfig, 'siwe'> & Defaults & { siwe: CompleteSiwe | undefined }

/** Default paths of the routes that accept POST. */
export const defaultPaths = {
  requestSignup: defaults.requestSignupPath,
  signup: defaults.signupPath,
  requestAuth: defaults.requestAuthPath,
  auth: defaults.authPath,
  refreshToken: defaults.refreshTokenPath,
  logout: defaults.logoutPath
} as const

/** Returns the network as DIDs name it: `ethereum` is another name of `''`. */
export function toNetwork(name: string): string {
  return name.toLowerCase() === 'ethereum' ? '' : name
}

/** Completes the options of EIP-4361; undefined where it is off. */
export function completeSiwe({ siwe, serviceDid }: Pick<GivenConfig, 'siwe' | 'serviceDid'>): CompleteSiwe | undefined {
  if (siwe === undefined) return undefined
  const { path = '/siwe', network, nonceSeconds = 300, domains = [] } = siwe === true ? {} : siwe
  const ofService = serviceDid === undefined ? 'rsk' : networkOfDid(serviceDid)
  return {
    path: path.replace(/\/$/, ''),
    network: network === undefined ? ofService : toNetwork(network),
    nonceSeconds,
    domains
  }
}

/** Options of EIP-4361. The network is absent if none is given and the service's DID is not of did:ethr. */
export type CompleteSiwe = Required<Pick<SiweOptions, 'network'>> & {
  [Option in 'path' | 'nonceSeconds' | 'domains']: NonNullable<SiweOptions[Option]>
}

/** Lists the routes of a configuration; the last ones are off unless they are set. */
export function listPaths({ siwe, ...config }: Omit<CompleteConfig, 'serviceUrl'>): Paths {
  const hasResources = config.resources.length > 0
  return {
    requestSignup: config.requestSignupPath,
    signup: config.signupPath,
    requestAuth: config.requestAuthPath,
    auth: config.authPath,
    logout: config.logoutPath,
    refreshToken: config.refreshTokenPath,
    session: config.sessionPath,
    sessions: config.sessionsPath,
    siweNonce: siwe && `${siwe.path}/nonce`,
    siweVerify: siwe && `${siwe.path}/verify`,
    siweLogout: siwe && `${siwe.path}/logout`,
    resourceToken: hasResources ? config.resourceTokenPath : undefined,
    jwks: hasResources ? '/.well-known/jwks.json' : undefined,
    discovery: hasResources || config.discovery ? '/.well-known/did-auth.json' : undefined
  }
}

type OptionalPath =
  'session' | 'sessions' | 'siweNonce' | 'siweVerify' | 'siweLogout' | 'resourceToken' | 'jwks' | 'discovery'
type Paths = Record<keyof typeof defaultPaths, string> & Record<OptionalPath, string | undefined>

import type { AuthenticationBusinessLogic, RefreshBusinessLogic, SignupBusinessLogic } from '../ports.js'
import type { Clock, ContractVerifier, DidResolver, EthrNetwork, Logger } from '../ports.js'
import type { OnSecurityEvent, ResourceKey, Signer, Store } from '../ports.js'
import { networkOfDid } from '../protocol/did.js'
import type { Claim } from '../protocol/selective-disclosure.js'

/** Options of the login by an EIP-4361 message. */
export interface SiweOptions {
  /** Path prefix of the routes `nonce`, `verify` and `logout`. Default `/siwe`. */
  path?: string | undefined
  /**
   * Network in the DIDs of these users, whatever chain their messages name; `''` or `ethereum` for Ethereum. Default:
   * the network of `serviceDid`. It must not be the number of a chain in `contractWallets`.
   */
  network?: string | undefined
  /** Validity of a nonce, in seconds, 30 to 3,600. Default 300. */
  nonceSeconds?: number | undefined
  /**
   * Further hosts of pages whose messages are accepted, such as `app.example:8443`, or a synchronous function that
   * returns `true` for them. The hosts of `serviceUrl`, `loginDomains` and `trustedOrigins` are always accepted.
   */
  domains?: readonly string[] | ((domain: string) => boolean) | undefined
}

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
  /** Accepted networks of users' DIDs, such as `['rsk', '']`; `''` or `ethereum` is Ethereum. Default: any. */
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
  /** Private P-256 keys as JWK. The first signs the tokens for `resources`; all public keys are published. */
  resourceKeys?: readonly ResourceKey[] | undefined
  /** Path of the tokens for `resources`. Default `/resource-token`. */
  resourceTokenPath?: string | undefined
  /**
   * Another service whose tokens are accepted here, sent after `Bearer`. `issuer` is its `serviceUrl`; `audience` is
   * the `serviceUrl` of this service by default. Its public keys are fetched from it unless `keys` contains them.
   */
  resourceIssuer?:
    { issuer: string; audience?: string | undefined; keys?: readonly ResourceKey[] | undefined } | undefined
  /** Whether `/.well-known/did-auth.json` is published; with `resources` it always is. Default false. */
  discovery?: boolean | undefined
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

/** Options of the caller without those that are undefined. */
export type DefinedOptions = { [Option in keyof DidAuthConfig]: Exclude<DidAuthConfig[Option], undefined> }

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
} satisfies Partial<DefinedOptions>

type Defaults = Required<Pick<DefinedOptions, keyof typeof defaults>>

/** Networks on which DIDs are resolved if no `rpcUrl` is given. */
export const defaultNetworks: readonly EthrNetwork[] = [
  { name: 'rsk', rpcUrl: 'https://public-node.rsk.co', chainId: 30 },
  { name: 'rsk:testnet', rpcUrl: 'https://public-node.testnet.rsk.co', chainId: 31 }
]

/** Options with every default applied, in the units of the caller. */
export type CompleteOptions = Omit<DefinedOptions, 'siwe'> & Defaults & { siwe: CompleteSiweOptions | undefined }

/** Default paths of the routes that accept POST. */
export const defaultPaths = {
  requestSignup: defaults.requestSignupPath,
  signup: defaults.signupPath,
  requestAuth: defaults.requestAuthPath,
  auth: defaults.authPath,
  refreshToken: defaults.refreshTokenPath,
  logout: defaults.logoutPath
} as const

/** Returns the name of a network in DIDs: `ethereum` becomes `''`. */
export function toNetwork(name: string): string {
  return name.toLowerCase() === 'ethereum' ? '' : name
}

/** Completes the options of EIP-4361; undefined if it is off. */
export function completeSiwe({
  siwe,
  serviceDid
}: Pick<DefinedOptions, 'siwe' | 'serviceDid'>): CompleteSiweOptions | undefined {
  if (siwe === undefined) return undefined
  const { path = '/siwe', network, nonceSeconds = 300, domains = [] } = siwe === true ? {} : siwe
  const serviceNetwork = serviceDid === undefined ? 'rsk' : networkOfDid(serviceDid)
  return {
    path: path.replace(/\/$/, ''),
    network: network === undefined ? serviceNetwork : toNetwork(network),
    nonceSeconds,
    domains
  }
}

/** Complete options of EIP-4361. The network is undefined if none is given and `serviceDid` is not a did:ethr. */
export type CompleteSiweOptions = Required<Pick<SiweOptions, 'network'>> & {
  [Option in 'path' | 'nonceSeconds' | 'domains']: NonNullable<SiweOptions[Option]>
}

/** Returns the path of each route; undefined for a route that is off. */
export function listPaths({ siwe, ...config }: Omit<CompleteOptions, 'serviceUrl'>): Paths {
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

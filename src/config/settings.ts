import { createHmac } from 'node:crypto'
import { checkOptions, defaultNetworks, listPaths, type FindOwnSigner } from './check-options.js'
import { defaults, optionNames, pickPlainSettings, type CompleteOptions } from './options.js'
import { describe } from './rules.js'
import { DidAuthError } from '../errors.js'
import { RESOURCE_TOKEN_SECONDS } from '../protocol/access-token.js'
import { canonicalDid, toNetwork } from '../protocol/did.js'
import { readField, isObject } from '../protocol/json.js'
import { acceptedLoginDomains } from '../protocol/login-message.js'
import { isLoopbackHost, isSecureUrl, parseHttpUrl } from '../protocol/parse-url.js'

/** Time for which a nonce of device proofs outlives the access token that it came with, in seconds. */
const NONCE_EXTRA_SECONDS = 300

/** Complete configuration of a service: all defaults applied, in the units of the code, frozen. */
export type Settings = Readonly<ReturnType<typeof toSettings>>

/** Lifetime of nonces in seconds, and the key of their HMAC. */
export type NonceSettings = ReturnType<typeof createNonceSettings>

/** Settings of the login by an EIP-4361 message. */
export type SiweSettings = NonNullable<Settings['siwe']>

/** Checks and completes options. @throws DidAuthError ERR_CONFIG, which lists all problems and contains no secret */
export function parseConfig(config: unknown, findOwnSigner: FindOwnSigner = () => undefined): Settings {
  if (!isObject(config)) throw createConfigError([`config: received ${describe('config', config)}; give an object`])
  const { problems, options } = checkOptions(config, findOwnSigner)
  if (problems.length > 0) throw createConfigError(problems)
  const unknownOptions = Object.keys(config).filter((option) => !optionNames.includes(option))
  return Object.freeze(toSettings(options, unknownOptions))
}

function createConfigError(problems: string[]): DidAuthError {
  const lines = problems.map((problem) => `  - ${problem}`)
  const message = ['express-did-auth: invalid configuration', ...lines].join('\n')
  const error = new DidAuthError('ERR_CONFIG', { message })
  // The message says what to change. Lines of this library's code after it would only hide it.
  error.stack = `${error.name}: ${message}`
  return error
}

function toSettings(options: CompleteOptions, unknownOptions: string[]) {
  const { serviceUrl, resourceIssuer: trusted, absoluteSessionDurationInHours: absoluteHours = Infinity } = options
  const url = parseHttpUrl(serviceUrl)
  const ownOrigins = url === undefined ? [] : [url.origin]
  return {
    ...pickPlainSettings(options),
    paths: Object.freeze(listPaths(options)),
    challengeWindowSeconds: options.challengeExpirationTimeInSeconds,
    timeSlotSeconds: Math.ceil(options.timeSlotInSeconds),
    sessionSeconds: toSeconds(options.userSessionDurationInHours),
    /** Maximum lifetime of a session after its login. Infinity: unlimited. */
    absoluteSessionSeconds: toSeconds(absoluteHours),
    accessTokenSeconds: Math.floor(options.accessTokenExpirationTimeInSeconds),
    /** Time for which an ended session is listed: the longest life of its tokens, and 60 s. Undefined: it is not. */
    listedSeconds: options.endedSessions
      ? Math.max(Math.floor(options.accessTokenExpirationTimeInSeconds), RESOURCE_TOKEN_SECONDS) + 60
      : undefined,
    resolution: createResolution(options),
    isTrustedIssuer: createIssuerCheck(options),
    required: { credentials: [...options.requiredCredentials], claims: [...options.requiredClaims] },
    singleUse: options.replayProtection === 'single-use',
    loginDomains: acceptedLoginDomains(serviceUrl, options.loginDomains),
    /** Login by EIP-4361. Undefined: off. */
    siwe: createSiweSettings(options, url),
    /** Binding of sessions to devices, and the nonces of device proofs. */
    deviceBinding: Object.freeze({
      mode: options.deviceBinding,
      ...createNonceSettings(options, 'device-nonce', options.accessTokenExpirationTimeInSeconds + NONCE_EXTRA_SECONDS)
    }),
    trustedOrigins: new Set([...ownOrigins, ...options.trustedOrigins]) as ReadonlySet<string>,
    /** Another service whose tokens are accepted. Undefined: none. */
    resourceIssuer: trusted && { ...trusted, audience: trusted.audience ?? serviceUrl },
    /** Unknown names, which give a warning. They are no error, because a later version may have such an option. */
    unknownOptions
  }
}

/** Creates the settings of EIP-4361. Accepted domains come only from options, never from a request. */
function createSiweSettings(options: CompleteOptions, url: URL | undefined) {
  if (options.siwe === undefined) return undefined
  const { path, network = '', nonceSeconds, domains } = options.siwe
  const listed = [
    ...options.loginDomains.filter((domain) => !domain.includes('/')),
    ...(url === undefined ? [] : [url.host]),
    ...options.trustedOrigins.map((origin) => new URL(origin).host),
    ...(typeof domains === 'function' ? [] : domains)
  ]
  const acceptedDomains = new Set(listed.map((domain) => domain.toLowerCase()))
  return Object.freeze({
    path,
    network,
    ...createNonceSettings(options, 'siwe-nonce', nonceSeconds),
    /** Settings of nonces for approvals of requests. */
    approvals: Object.freeze(createNonceSettings(options, 'siwe-approval', nonceSeconds)),
    /** @param domain - lower case, with its port */
    // Only `true` accepts: the promise of an async function is truthy.
    isOwnDomain: (domain: string): boolean =>
      acceptedDomains.has(domain) || (typeof domains === 'function' && (domains(domain) as unknown) === true)
  })
}

/** Creates the settings of one kind of nonces. Each label has its own nonces. */
function createNonceSettings(
  { challengeSecret, serviceUrl }: Pick<CompleteOptions, 'challengeSecret' | 'serviceUrl'>,
  label: string,
  seconds: number
) {
  const nonceKey = createHmac('sha256', challengeSecret).update(`${label}\n${serviceUrl}`).digest()
  return { nonceSeconds: Math.floor(seconds), nonceKey }
}

/** Converts hours to whole seconds, at least 1. Rounding is needed: 1.1 × 3600 is 3960.0000000000005. */
function toSeconds(hours: number): number {
  return Math.max(1, Math.round(hours * 3600))
}

/** Creates the check of credential issuers; undefined: any issuer is accepted. The option's function may be async. */
function createIssuerCheck({ trustedIssuers }: CompleteOptions): ((issuerDid: string) => unknown) | undefined {
  if (trustedIssuers === undefined || typeof trustedIssuers === 'function') return trustedIssuers
  const canonical = new Set(trustedIssuers.map(canonicalDid))
  return (issuerDid) => canonical.has(canonicalDid(issuerDid))
}

/** Returns the settings for resolving DIDs: a resolver of the application, or networks of did:ethr. */
function createResolution(options: CompleteOptions) {
  const { resolver, rpcUrl, networkName, registry } = options
  if (resolver !== undefined) return { kind: 'resolver' as const, resolver }
  const networks =
    rpcUrl === undefined
      ? defaultNetworks.filter(({ name }) => name === (networkName ?? name))
      : // The name of Ethereum in resolvers is `mainnet`.
        [{ name: toNetwork(networkName ?? 'rsk') || 'mainnet', rpcUrl }]
  // The address in a did:ethr proves its issuer if there is no `rpcUrl`. No node is needed then.
  return { kind: 'ethr' as const, networks, registry, provesByAddress: rpcUrl === undefined }
}

/** Whether a service uses disclosed data. Otherwise no credential is verified and no issuer is resolved. */
export function usesDisclosure({
  required,
  signupBusinessLogic
}: Pick<Settings, 'required' | 'signupBusinessLogic'>): boolean {
  return required.credentials.length > 0 || required.claims.length > 0 || signupBusinessLogic !== undefined
}

/** Lists warnings about settings that are allowed but rarely intended. */
export function listConfigWarnings(
  settings: Settings,
  environment: { hasOwnStore: boolean; isProduction: boolean }
): string[] {
  const url = parseHttpUrl(settings.serviceUrl)
  const isLoopback = url !== undefined && isLoopbackHost(url.hostname)
  const unknownOptions = settings.unknownOptions.map((option) => `${option} is not an option, see src/config/README.md`)
  const requestsCredentials = settings.required.credentials.length > 0
  // Clients that still use CCIP-Read (EIP-3668).
  const clients = Object.entries(settings.contractWallets ?? {})
  const fetchingClients = clients.filter(([, client]) => 'ccipRead' in client && client.ccipRead !== false)
  const unencrypted = findUnencryptedNodes(settings)
  const warnings: [boolean, string][] = [
    [new TextEncoder().encode(settings.challengeSecret).length < 32, 'challengeSecret is shorter than 32 bytes'],
    [
      fetchingClients.length > 0,
      `contractWallets of chain ${fetchingClients.map(([id]) => id).join(', ')} without ccipRead: false: a contract can make this server fetch a URL`
    ],
    [
      settings.accessTokenSeconds > 900,
      'access tokens live longer than 900 s: they stay valid that long after a logout'
    ],
    [url?.protocol === 'http:' && !isLoopback, 'serviceUrl is http: tokens travel unencrypted'],
    [
      HOST.test(settings.serviceUrl),
      `serviceUrl "${settings.serviceUrl}" has no scheme: give the whole URL, such as ${addScheme(settings.serviceUrl)}`
    ],
    [
      unencrypted.length > 0,
      `${unencrypted.join(', ')}: with http, anyone on the network path can forge the node's answers; give https`
    ],
    [
      settings.machineLogin && settings.authenticationBusinessLogic === undefined,
      'machineLogin without authenticationBusinessLogic: any DID gets a token for every one of resources'
    ],
    [environment.isProduction && !environment.hasOwnStore, 'sessions are in memory: a restart ends all of them'],
    [
      requestsCredentials && settings.signupBusinessLogic === undefined && settings.isTrustedIssuer === undefined,
      'requiredCredentials without signupBusinessLogic or trustedIssuers: a user can issue them to themselves'
    ],
    [
      (requestsCredentials || settings.required.claims.length > 0) &&
        settings.authenticationBusinessLogic === undefined,
      'requiredCredentials or requiredClaims without authenticationBusinessLogic: users who never signed up can log in'
    ],
    [
      settings.credentialStatus === 'check' && !usesDisclosure(settings),
      'credentialStatus has no effect: without requiredCredentials, requiredClaims or signupBusinessLogic, credentials are ignored'
    ],
    [
      requestsCredentials && settings.resolution.kind === 'ethr' && settings.resolution.provesByAddress,
      'without rpcUrl or resolver, only the address in a did:ethr proves a credential issuer: a replaced key stays valid'
    ],
    [
      requestsCredentials && settings.didControl === 'address' && isChosenWithoutEffect(settings.resolution),
      'registry and networkName have no effect without rpcUrl: a did:ethr issuer is proved by its address'
    ]
  ]
  return [...warnings.flatMap(([applies, message]) => (applies ? [message] : [])), ...unknownOptions]
}

/** A URL without a scheme: a host with a port or a dot, or `localhost`, and optionally a path. */
const HOST = /^(?:localhost(?::\d+)?|[\w-]+(?:\.[\w-]+)+(?::\d+)?|(?:[\w-]+|\[[\da-f:.]+\]):\d+)(?:\/.*)?$/i

/** Adds the scheme that was probably forgotten to a host: http for this machine, https otherwise. */
export function addScheme(host: string): string {
  const url = parseHttpUrl(`http://${host}`)
  return `${url !== undefined && isLoopbackHost(url.hostname) ? 'http' : 'https'}://${host}`
}

/**
 * Returns the options that use http to reach a node on another machine. It finds the URL only in clients that expose
 * it, as viem's do. It returns no URL, because a URL may contain a key.
 */
function findUnencryptedNodes({ resolution, contractWallets = {} }: Settings): string[] {
  const networks = resolution.kind === 'ethr' ? resolution.networks : []
  const clients = Object.entries(contractWallets).map(([id, client]): [string, unknown[]] => {
    const transport = readField(client, 'transport')
    const fallbacks = readField(transport, 'transports')
    const values = Array.isArray(fallbacks) ? fallbacks.map((fallback) => readField(fallback, 'value')) : []
    return [`contractWallets of chain ${id}`, [transport, ...values].map((value) => readField(value, 'url'))]
  })
  const nodes: [string, unknown[]][] = [['rpcUrl', networks.map(({ rpcUrl }) => rpcUrl)], ...clients]
  const isUnencrypted = (url: unknown): boolean =>
    typeof url === 'string' && parseHttpUrl(url)?.protocol === 'http:' && !isSecureUrl(url)
  return nodes.flatMap(([name, urls]) => (urls.some(isUnencrypted) ? [name] : []))
}

/** Whether the caller chose a registry or a default network, but no node is ever called. */
function isChosenWithoutEffect(resolution: Settings['resolution']): boolean {
  if (resolution.kind !== 'ethr' || !resolution.provesByAddress) return false
  return resolution.registry !== defaults.registry || resolution.networks.length < defaultNetworks.length
}

import { createHmac } from 'node:crypto'
import { defaultNetworks, defaults, listPaths, toNetwork, type CompleteConfig } from './options.js'
import { checkOptions, describe, optionNames, type FindOwnSigner } from './rules.js'
import { DidAuthError } from '../errors.js'
import { canonicalDid } from '../protocol/did.js'
import { readField, isObject } from '../protocol/json.js'
import { acceptedLoginDomains } from '../protocol/login-message.js'
import { isLoopbackHost, isSecureUrl, parseHttpUrl } from '../protocol/parse-url.js'

/** The complete configuration: every default applied, in the units of the code, frozen. */
export type Settings = Readonly<ReturnType<typeof addDefaults>>

/** Settings of the login by an EIP-4361 message. */
export type SiweSettings = NonNullable<Settings['siwe']>

/** Checks and completes a configuration. @throws DidAuthError ERR_CONFIG, naming all problems at once, and no secret */
export function parseConfig(config: unknown, findOwnSigner: FindOwnSigner = () => undefined): Settings {
  if (!isObject(config)) throw createConfigError([`config: received ${describe('config', config)}; give an object`])
  const { problems, complete } = checkOptions(config, findOwnSigner)
  if (problems.length > 0) throw createConfigError(problems)
  const unknownOptions = Object.keys(config).filter((option) => !optionNames.includes(option))
  return Object.freeze(addDefaults(complete, unknownOptions))
}

function createConfigError(problems: string[]): DidAuthError {
  const lines = problems.map((problem) => `  - ${problem}`)
  return new DidAuthError('ERR_CONFIG', { message: ['express-did-auth: invalid configuration', ...lines].join('\n') })
}

function addDefaults(config: CompleteConfig, unknownOptions: string[]) {
  const { serviceUrl, resourceIssuer: trusted, absoluteSessionDurationInHours: absoluteHours = Infinity } = config
  const url = parseHttpUrl(serviceUrl)
  const ownOrigins = url === undefined ? [] : [url.origin]
  return {
    challengeSecret: config.challengeSecret,
    serviceUrl,
    /** Undefined: the DID of this service's own key, which is known once the curve is loaded. */
    serviceDid: config.serviceDid,
    previousServiceDids: [...config.previousServiceDids],
    serviceSigner: config.serviceSigner,
    useCookies: config.useCookies,
    paths: Object.freeze(listPaths(config)),
    challengeWindowSeconds: config.challengeExpirationTimeInSeconds,
    maxRequestsPerTimeSlot: config.maxRequestsPerTimeSlot,
    timeSlotSeconds: Math.ceil(config.timeSlotInSeconds),
    sessionSeconds: toSeconds(config.userSessionDurationInHours),
    /** Maximum lifetime of a session after its login; Infinity: unlimited. */
    absoluteSessionSeconds: toSeconds(absoluteHours),
    accessTokenSeconds: Math.floor(config.accessTokenExpirationTimeInSeconds),
    resolution: createResolution(config),
    authenticationBusinessLogic: config.authenticationBusinessLogic,
    signupBusinessLogic: config.signupBusinessLogic,
    refreshBusinessLogic: config.refreshBusinessLogic,
    isTrustedIssuer: createIssuerCheck(config),
    required: { credentials: [...config.requiredCredentials], claims: [...config.requiredClaims] },
    singleUse: config.replayProtection === 'single-use',
    refreshReuseGraceSeconds: config.refreshReuseGraceSeconds,
    loginDomains: acceptedLoginDomains(serviceUrl, config.loginDomains),
    loginDialects: [...new Set(config.loginDialects)],
    /** Undefined: contracts cannot log in. */
    contractWallets: config.contractWallets,
    didControl: config.didControl,
    loginProofs: config.loginProofs,
    /** Networks whose DIDs may log in. Undefined: any. */
    networks: config.networks,
    /** Login by EIP-4361. Undefined: off. */
    siwe: createSiweSettings(config, url),
    trustedOrigins: new Set([...ownOrigins, ...config.trustedOrigins]) as ReadonlySet<string>,
    cookiePrefix: config.cookiePrefix,
    resources: [...config.resources],
    resourceKeys: [...config.resourceKeys],
    /** Other service whose tokens are accepted. Undefined: none. */
    resourceIssuer: trusted && { issuer: trusted.issuer, audience: trusted.audience ?? serviceUrl, keys: trusted.keys },
    errorFormat: config.errorFormat,
    /** Names that are not options: a typing error deserves a warning, an option of a later version no crash. */
    unknownOptions
  }
}

/** Creates the settings of EIP-4361. No part of a request decides which pages belong to this service. */
function createSiweSettings(config: CompleteConfig, url: URL | undefined) {
  if (config.siwe === undefined) return undefined
  const { path, network = '', nonceSeconds, domains } = config.siwe
  const listed = [
    ...config.loginDomains.filter((domain) => !domain.includes('/')),
    ...(url === undefined ? [] : [url.host]),
    ...config.trustedOrigins.map((origin) => new URL(origin).host),
    ...(typeof domains === 'function' ? [] : domains)
  ]
  const known = new Set(listed.map((domain) => domain.toLowerCase()))
  /** @returns how long nonces are valid, and the key of the HMAC in each: a nonce of one label is none of another */
  const createNonceSettings = (label: string) => ({
    nonceSeconds: Math.floor(nonceSeconds),
    nonceKey: createHmac('sha256', config.challengeSecret).update(`${label}\n${config.serviceUrl}`).digest()
  })
  return Object.freeze({
    path,
    network,
    ...createNonceSettings('siwe-nonce'),
    /** Nonces of approvals of requests. */
    approvals: Object.freeze(createNonceSettings('siwe-approval')),
    /** @param domain - lower case, with its port */
    // A promise, as an async function returns, does not count as a yes.
    isOwnDomain: (domain: string): boolean =>
      known.has(domain) || (typeof domains === 'function' && (domains(domain) as unknown) === true)
  })
}

/** Converts hours to whole seconds: 1.1 hours are 3960.0000000000005 seconds. */
function toSeconds(hours: number): number {
  return Math.max(1, Math.round(hours * 3600))
}

/** Whether credentials of an issuer are accepted; undefined: of any. The application's own function may be async. */
function createIssuerCheck({ trustedIssuers }: CompleteConfig): ((issuerDid: string) => unknown) | undefined {
  if (trustedIssuers === undefined || typeof trustedIssuers === 'function') return trustedIssuers
  const canonical = new Set(trustedIssuers.map(canonicalDid))
  return (issuerDid) => canonical.has(canonicalDid(issuerDid))
}

/** Returns how DIDs of credential issuers are resolved. */
function createResolution(config: CompleteConfig) {
  const { resolver, rpcUrl, networkName, registry } = config
  if (resolver !== undefined) return { kind: 'resolver' as const, resolver }
  const networks =
    rpcUrl === undefined
      ? defaultNetworks.filter(({ name }) => name === (networkName ?? name))
      : // Resolvers call Ethereum `mainnet`.
        [{ name: toNetwork(networkName ?? 'rsk') || 'mainnet', rpcUrl }]
  // If no network was chosen, the address in a did:ethr proves its issuer by itself.
  return { kind: 'ethr' as const, networks, registry, provesByAddress: rpcUrl === undefined }
}

/** Warnings at setup: settings that are allowed, and rarely meant. */
export function listConfigWarnings(
  settings: Settings,
  environment: { hasOwnStore: boolean; isProduction: boolean }
): string[] {
  const url = parseHttpUrl(settings.serviceUrl)
  const isLoopback = url !== undefined && isLoopbackHost(url.hostname)
  const unknownOptions = settings.unknownOptions.map((option) => `${option} is not an option, see src/config/README.md`)
  const asksCredentials = settings.required.credentials.length > 0
  // Clients whose CCIP-Read (EIP-3668) is not turned off.
  const clients = Object.entries(settings.contractWallets ?? {})
  const fetching = clients.filter(([, client]) => 'ccipRead' in client && client.ccipRead !== false)
  const unencrypted = findUnencryptedNodes(settings)
  const warnings: [boolean, string][] = [
    [new TextEncoder().encode(settings.challengeSecret).length < 32, 'challengeSecret is shorter than 32 bytes'],
    [
      fetching.length > 0,
      `contractWallets of chain ${fetching.map(([id]) => id).join(', ')} without ccipRead: false: a contract can make this server fetch a URL`
    ],
    [settings.accessTokenSeconds > 900, 'access tokens live longer than 900 s: logout leaves them good until then'],
    [url?.protocol === 'http:' && !isLoopback, 'serviceUrl is http: tokens travel unencrypted'],
    [
      HOST.test(settings.serviceUrl),
      `serviceUrl "${settings.serviceUrl}" has no scheme: give the whole URL, such as ${addScheme(settings.serviceUrl)}`
    ],
    [
      unencrypted.length > 0,
      `${unencrypted.join(', ')}: http, so that anybody on the way to the node decides who a user is; give https`
    ],
    [environment.isProduction && !environment.hasOwnStore, 'sessions are in memory: a restart ends all of them'],
    [
      asksCredentials && settings.signupBusinessLogic === undefined && settings.isTrustedIssuer === undefined,
      'requiredCredentials without signupBusinessLogic or trustedIssuers: a user can issue them to themselves'
    ],
    [
      (asksCredentials || settings.required.claims.length > 0) && settings.authenticationBusinessLogic === undefined,
      'requirements at sign up without authenticationBusinessLogic: users who never signed up can log in'
    ],
    [
      asksCredentials && settings.resolution.kind === 'ethr' && settings.resolution.provesByAddress,
      'without rpcUrl or resolver a did:ethr issuer is proved by its address alone: a key that was rotated out still counts'
    ],
    [
      asksCredentials && settings.didControl === 'address' && isChosenWithoutEffect(settings.resolution),
      'registry and networkName have no effect without rpcUrl: a did:ethr issuer is proved by its address'
    ]
  ]
  return [...warnings.flatMap(([applies, message]) => (applies ? [message] : [])), ...unknownOptions]
}

/** A URL without scheme: a host with a port or a dot, or `localhost`, and maybe a path. */
const HOST = /^(?:localhost(?::\d+)?|[\w-]+(?:\.[\w-]+)+(?::\d+)?|(?:[\w-]+|\[[\da-f:.]+\]):\d+)(?:\/.*)?$/i

/** Adds the scheme that a service at this host should have. */
function addScheme(host: string): string {
  const url = parseHttpUrl(`http://${host}`)
  return `${url !== undefined && isLoopbackHost(url.hostname) ? 'http' : 'https'}://${host}`
}

/**
 * Returns the options whose nodes are asked over http on another machine, as far as a client tells: viem's does. No URL
 * is shown: it may contain a key.
 */
function findUnencryptedNodes({ resolution, contractWallets = {} }: Settings): string[] {
  const networks = resolution.kind === 'ethr' ? resolution.networks : []
  const clients = Object.entries(contractWallets).map(([id, client]): [string, unknown[]] => {
    const transport = readField(client, 'transport')
    const fallbacks = readField(transport, 'transports')
    const values = Array.isArray(fallbacks) ? fallbacks.map((one) => readField(one, 'value')) : []
    return [`contractWallets of chain ${id}`, [transport, ...values].map((value) => readField(value, 'url'))]
  })
  const nodes: [string, unknown[]][] = [['rpcUrl', networks.map(({ rpcUrl }) => rpcUrl)], ...clients]
  const isUnencrypted = (url: unknown): boolean =>
    typeof url === 'string' && parseHttpUrl(url)?.protocol === 'http:' && !isSecureUrl(url)
  return nodes.flatMap(([name, urls]) => (urls.some(isUnencrypted) ? [name] : []))
}

/** Whether a registry or a default network was chosen that is never asked. */
function isChosenWithoutEffect(resolution: Settings['resolution']): boolean {
  if (resolution.kind !== 'ethr' || !resolution.provesByAddress) return false
  return resolution.registry !== defaults.registry || resolution.networks.length < defaultNetworks.length
}

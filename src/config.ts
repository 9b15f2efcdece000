import {
  defaultNetworks,
  defaults,
  pathsOf,
  type CompleteConfig,
  type DidAuthConfig,
  type Paths
} from './config-options.js'
import { describe, findProblems, optionNames, parseGiven } from './config-rules.js'
import { DidAuthError } from './errors.js'
import type { AuthenticationBusinessLogic, DidResolver, EthrNetwork, Signer, SignupBusinessLogic } from './ports.js'
import { isObject } from './protocol/json.js'
import { acceptedLoginDomains, parseHttpUrl } from './protocol/login-message.js'
import type { RequiredDisclosure } from './protocol/selective-disclosure.js'

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
    unknownOptions: Object.keys(given).filter((option) => !optionNames.includes(option))
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
    ],
    [
      asksCredentials && isChosenInVain(settings.resolution),
      'registry and networkName are of no use without rpcUrl: no network is asked about a did:ethr issuer'
    ]
  ]
  return [...warnings.flatMap(([applies, message]) => (applies ? [message] : [])), ...unknownOptions]
}

/** A registry or one of the default networks was chosen, and nothing that would be asked there. */
function isChosenInVain(resolution: Resolution): boolean {
  if (resolution.kind !== 'ethr' || !resolution.provesByAddress) return false
  return resolution.registry !== defaults.registry || resolution.networks.length < defaultNetworks.length
}

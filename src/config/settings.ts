import { defaultNetworks, defaults, type CompleteConfig, type DidAuthConfig } from './options.js'
import { pathsOf, type Paths } from './paths.js'
import { describe } from './describe.js'
import { findProblems, optionNames, parseGiven, type FindOwnSigner } from './rules.js'
import { DidAuthError } from '../errors.js'
import type {
  AuthenticationBusinessLogic,
  DidResolver,
  EthrNetwork,
  RefreshBusinessLogic,
  Signer,
  SignupBusinessLogic
} from '../ports.js'
import { canonicalDid } from '../protocol/did.js'
import { isObject } from '../protocol/json.js'
import { acceptedLoginDomains, parseHttpUrl, type LoginDialect } from '../protocol/login-message.js'
import type { RequiredDisclosure } from '../protocol/selective-disclosure.js'

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
  /** Undefined: the DID of the own signer's key, which is known once the curve is loaded. */
  readonly serviceDid: string | undefined
  readonly serviceSigner: Signer
  readonly useCookies: boolean
  readonly paths: Readonly<Paths>
  readonly challengeWindowSeconds: number
  readonly maxRequestsPerTimeSlot: number
  readonly timeSlotSeconds: number
  readonly sessionSeconds: number
  /** How long after its login a session ends at the latest; Infinity for no such end. */
  readonly absoluteSessionSeconds: number
  readonly accessTokenSeconds: number
  readonly resolution: Resolution
  readonly authenticationBusinessLogic: AuthenticationBusinessLogic | undefined
  readonly signupBusinessLogic: SignupBusinessLogic | undefined
  readonly refreshBusinessLogic: RefreshBusinessLogic | undefined
  /** Whether credentials of an issuer are accepted; undefined: of any. May be async, as the application's own function. */
  readonly isTrustedIssuer: ((issuerDid: string) => unknown) | undefined
  readonly required: Readonly<RequiredDisclosure>
  readonly singleUse: boolean
  readonly refreshReuseGraceSeconds: number
  readonly loginDomains: readonly string[]
  readonly loginDialects: readonly LoginDialect[]
  /** Undefined: any. */
  readonly networks: readonly string[] | undefined
  readonly trustedOrigins: ReadonlySet<string>
  readonly cookiePrefix: string
  readonly errorFormat: 'text' | 'problem'
  /** Names that are not options: a typing error deserves a warning, an option of a later version no crash. */
  readonly unknownOptions: readonly string[]
}
/**
 * Checks a configuration once and completes it.
 *
 * @throws DidAuthError ERR_CONFIG, naming every problem at once: field, value received (never a secret) and remedy
 */
export function parseConfig(config: unknown, findOwnSigner: FindOwnSigner = () => undefined): Settings {
  const problems = isObject(config)
    ? findProblems(config, findOwnSigner)
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
    absoluteSessionSeconds:
      config.absoluteSessionDurationInHours === undefined
        ? Infinity
        : Math.max(1, Math.round(config.absoluteSessionDurationInHours * 3600)),
    accessTokenSeconds: Math.floor(config.accessTokenExpirationTimeInSeconds),
    resolution: resolutionOf(config),
    authenticationBusinessLogic: config.authenticationBusinessLogic,
    signupBusinessLogic: config.signupBusinessLogic,
    refreshBusinessLogic: config.refreshBusinessLogic,
    isTrustedIssuer: isTrustedIssuerOf(config),
    required: { credentials: [...config.requiredCredentials], claims: [...config.requiredClaims] },
    singleUse: config.replayProtection === 'single-use',
    refreshReuseGraceSeconds: config.refreshReuseGraceSeconds,
    loginDomains: acceptedLoginDomains(config.serviceUrl, config.loginDomains),
    loginDialects: [...new Set(config.loginDialects)],
    networks: config.networks,
    trustedOrigins: new Set([...(url === undefined ? [] : [url.origin]), ...config.trustedOrigins]),
    cookiePrefix: config.cookiePrefix,
    errorFormat: config.errorFormat,
    unknownOptions: Object.keys(given).filter((option) => !optionNames.includes(option))
  }
}

function isTrustedIssuerOf({ trustedIssuers }: CompleteConfig): Settings['isTrustedIssuer'] {
  if (trustedIssuers === undefined || typeof trustedIssuers === 'function') return trustedIssuers
  const canonical = new Set(trustedIssuers.map(canonicalDid))
  return (issuerDid) => canonical.has(canonicalDid(issuerDid))
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
 * Warnings at setup: settings that are allowed, and rarely meant.
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
  const unknownOptions = settings.unknownOptions.map((option) => `${option} is no option, see src/config/README.md`)
  const asksCredentials = settings.required.credentials.length > 0
  const warnings: [boolean, string][] = [
    [new TextEncoder().encode(settings.challengeSecret).length < 32, 'challengeSecret is shorter than 32 bytes'],
    [settings.accessTokenSeconds > 900, 'access tokens live longer than 900 s: logout leaves them good until then'],
    [url?.protocol === 'http:' && !isLoopback, 'serviceUrl is http: tokens travel unencrypted'],
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
      asksCredentials && isChosenWithoutEffect(settings.resolution),
      'registry and networkName have no effect without rpcUrl: a did:ethr issuer is proved by its address'
    ]
  ]
  return [...warnings.flatMap(([applies, message]) => (applies ? [message] : [])), ...unknownOptions]
}

/** Whether a registry or a default network was chosen that is never asked. */
function isChosenWithoutEffect(resolution: Resolution): boolean {
  if (resolution.kind !== 'ethr' || !resolution.provesByAddress) return false
  return resolution.registry !== defaults.registry || resolution.networks.length < defaultNetworks.length
}

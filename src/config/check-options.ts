import { declarations, defaults } from './options.js'
import type { CompleteOptions, DefinedOptions, defaultPaths } from './options.js'
import { describe, isHost, type Declaration } from './rules.js'
import { completeSiwe, siweRules } from './siwe-options.js'
import type { EthrNetwork } from '../ports.js'
import { findNetworkNumber } from '../protocol/did.js'
import { isObject } from '../protocol/json.js'
import { acceptedLoginDomains, MAX_LOGIN_DOMAINS } from '../protocol/login-message.js'
import { parseHttpUrl } from '../protocol/parse-url.js'

/** Networks on which DIDs are resolved if no `rpcUrl` is given. */
export const defaultNetworks: readonly EthrNetwork[] = [
  { name: 'rsk', rpcUrl: 'https://public-node.rsk.co', chainId: 30 },
  { name: 'rsk:testnet', rpcUrl: 'https://public-node.testnet.rsk.co', chainId: 31 }
]

/**
 * Finds the local key of a signer, from which its DID follows, so that `serviceDid` is optional. Undefined for any
 * other signer.
 */
export type FindOwnSigner = (signer: unknown) => { problem: string | undefined } | undefined

/**
 * Checks all options.
 * @returns the problems, each with the received value (never a secret) and the remedy; and the valid options, completed
 * by defaults
 */
export function checkOptions(
  config: Record<string, unknown>,
  findOwnSigner: FindOwnSigner
): { problems: string[]; options: CompleteOptions } {
  const ownSigner = findOwnSigner(config.serviceSigner)
  const { siwe } = config
  const readValue = (field: string): unknown => {
    const [option = '', inner] = field.split('.')
    return inner === undefined ? config[option] : isObject(siwe) ? siwe[inner] : undefined
  }
  const optionEntries = Object.entries<Declaration>(declarations)
  const siweEntries = Object.entries<Declaration>(siweRules).map(([name, rule]) => [`siwe.${name}`, rule] as const)
  const invalidEntries = [...optionEntries, ...siweEntries].filter(([field, rule]) => {
    const value = readValue(field)
    if (value !== undefined) return !rule.holds(value)
    // `serviceDid` may follow from the signer's local key. A signer that is not a function is probably such a key,
    // and is reported itself.
    const mayFollow = ownSigner !== undefined || !['undefined', 'function'].includes(typeof config.serviceSigner)
    return rule.required === true && (field !== 'serviceDid' || !mayFollow)
  })
  const problems = invalidEntries.map(([field, { remedy }]) => {
    const value = readValue(field)
    return `${field}: received ${describe(field, value)}; ${typeof remedy === 'string' ? remedy : remedy(value)}`
  })
  if (ownSigner?.problem !== undefined) {
    problems.push(`serviceSigner: received es256kSigner without a private key; ${ownSigner.problem}`)
  }
  const invalidNames = new Set(invalidEntries.map(([field]) => field.replace(/\..*/, '')))
  const validOptions = Object.fromEntries(
    optionEntries.flatMap(([name, { normalize }]) => {
      // Inherited options count as well.
      const value = config[name]
      if (value === undefined || invalidNames.has(name)) return []
      // The rule has checked the value.
      return [[name, normalize === undefined ? value : normalize(value as never)]]
    })
  ) as unknown as DefinedOptions
  const options = { ...defaults, ...validOptions, siwe: completeSiwe(validOptions.siwe, validOptions.serviceDid) }
  return { problems: [...problems, ...findContradictions(options, config.rpcUrl !== undefined)], options }
}

/** Complete options without the invalid ones; `serviceUrl` may be one of them. */
type CheckedOptions = Omit<CompleteOptions, 'serviceUrl'> & { serviceUrl?: string }

/** Finds options that are valid on their own and contradict each other. */
function findContradictions(options: CheckedOptions, hasRpcUrl: boolean): string[] {
  const problems: string[] = []
  const { serviceUrl, networkName, loginDomains } = options
  const domains = serviceUrl === undefined ? loginDomains : acceptedLoginDomains(serviceUrl, loginDomains)
  if (domains.length > MAX_LOGIN_DOMAINS) {
    const most = String(MAX_LOGIN_DOMAINS)
    problems.push(
      `loginDomains: received ${describe('loginDomains', domains)}; give at most ${most} with those of serviceUrl`
    )
  }
  // Mode `window` accepts a signature more than once, so that a logged one could be used to log in.
  if (options.loginProofs && options.replayProtection === 'window') {
    problems.push('loginProofs: received true with replayProtection "window"; give "single-use", or no loginProofs')
  }
  if (options.resources.length > 0 !== options.resourceKeys.length > 0) {
    problems.push('resources, resourceKeys: received one without the other; give both, or neither')
  }
  if (options.machineLogin) {
    const needs: [name: string, isMissing: boolean][] = [
      ['resources', options.resources.length === 0],
      ['resourceKeys', options.resourceKeys.length === 0],
      ['an http(s) serviceUrl', serviceUrl !== undefined && parseHttpUrl(serviceUrl) === undefined]
    ]
    const missing = needs.flatMap(([name, isMissing]) => (isMissing ? [name] : []))
    if (missing.length > 0) {
      problems.push(`machineLogin: received true without ${missing.join(', ')}; give all of them, or false`)
    }
  }
  if (options.endedSessions && options.store !== undefined && options.store.listEndedSessions === undefined) {
    problems.push('endedSessions: received true with a store without listEndedSessions; give another store, or false')
  }
  if (options.credentialStatus === 'check' && options.trustedIssuers === undefined) {
    problems.push('credentialStatus: received "check" without trustedIssuers; give trustedIssuers, or "ignore"')
  }
  const hasOrigin = serviceUrl === undefined || parseHttpUrl(serviceUrl) !== undefined
  if (options.deviceBinding !== 'off' && !hasOrigin && options.trustedOrigins.length === 0) {
    const remedy = 'give trustedOrigins, since serviceUrl is not an http(s) URL, or "off"'
    problems.push(`deviceBinding: received ${describe('deviceBinding', options.deviceBinding)}; ${remedy}`)
  }
  // Express ignores letter case and a trailing slash when it compares paths.
  const routes = Object.values(listPaths(options)).filter((route) => route !== undefined)
  const paths = routes.map((route: string) => route.toLowerCase().replace(/(?<=.)\/$/, ''))
  const repeated = paths.filter((route, index) => paths.indexOf(route) !== index)
  problems.push(...repeated.map((route) => `paths: received ${route} twice; give each route its own path`))
  const isKnownNetwork = defaultNetworks.some(({ name }) => name === (networkName ?? name))
  if (!hasRpcUrl && options.resolver === undefined && !isKnownNetwork) {
    const received = describe('networkName', networkName)
    problems.push(`networkName: received ${received} without rpcUrl; give rpcUrl, or "rsk" or "rsk:testnet"`)
  }
  return [...problems, ...findSiweContradictions(options)]
}

/** Finds options of EIP-4361 that contradict others. */
function findSiweContradictions(options: CheckedOptions): string[] {
  const { siwe, serviceUrl, loginDomains, networks, contractWallets = {} } = options
  if (siwe === undefined) return []
  const { network, domains } = siwe
  const problems: string[] = []
  if (network === undefined) {
    problems.push('siwe.network: received nothing; give one, since serviceDid is not of did:ethr')
  } else if (Object.hasOwn(contractWallets, findNetworkNumber(network) ?? '')) {
    const remedy = 'give a name such as "rsk": a number that contractWallets lists belongs to contracts'
    problems.push(`siwe.network: received ${describe('network', network)}; ${remedy}`)
  } else if (networks?.every((name) => name.toLowerCase() !== network.toLowerCase()) === true) {
    problems.push(`siwe.network: received ${describe('network', network)}; give one of networks`)
  }
  const hasDomain = loginDomains.some(isHost) || typeof domains === 'function' || domains.length > 0
  if (serviceUrl !== undefined && parseHttpUrl(serviceUrl) === undefined && !hasDomain) {
    const remedy = 'give a host here or in loginDomains, since serviceUrl is not an http(s) URL'
    problems.push(`siwe.domains: received nothing; ${remedy}`)
  }
  return problems
}

/** Returns the path of each route; undefined for a route that is off. */
export function listPaths({ siwe, ...config }: Omit<CompleteOptions, 'serviceUrl'>): Paths {
  const hasResources = config.resources.length > 0
  const isDiscoverable = hasResources || config.endedSessions || config.discovery
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
    token: config.machineLogin ? config.tokenPath : undefined,
    jwks: hasResources ? '/.well-known/jwks.json' : undefined,
    endedSessions: config.endedSessions ? '/.well-known/ended-sessions' : undefined,
    discovery: isDiscoverable ? '/.well-known/did-auth.json' : undefined
  }
}

type OptionalPath =
  | 'session'
  | 'sessions'
  | 'siweNonce'
  | 'siweVerify'
  | 'siweLogout'
  | 'resourceToken'
  | 'token'
  | 'jwks'
  | 'endedSessions'
  | 'discovery'
type Paths = Record<keyof typeof defaultPaths, string> & Record<OptionalPath, string | undefined>

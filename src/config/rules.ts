import { defaultNetworks, defaults, listPaths, completeSiwe, toNetwork } from './options.js'
import type { CompleteOptions, DidAuthConfig, DefinedOptions, SiweOptions } from './options.js'
import { storeVerbs } from '../ports.js'
import { findNetworkNumber, isDid, isEthrDid, isEthrNetwork, isKeyDid } from '../protocol/did.js'
import { readField, isObject } from '../protocol/json.js'
import { acceptedLoginDomains, isLoginDialect, MAX_LOGIN_DOMAINS } from '../protocol/login-message.js'
import { isSecureUrl, parseHttpUrl, parseUrl } from '../protocol/parse-url.js'
import { isClaim } from '../protocol/selective-disclosure.js'

// The URL of an RPC node often contains its customer's key.
const SECRET_FIELD = /secret|signer|rpcUrl|config|resourceKeys/i
// Digits that may be a private key in the wrong field.
const KEY = /[0-9a-f]{64,}/gi
const MAX_SHOWN_LENGTH = 100

/** Formats a received value for an error message, without secrets. */
export function describe(field: string, value: unknown): string {
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

/** Check of one option. */
interface Rule {
  holds: (value: unknown) => boolean
  /** Instruction for the reader of the error: "give a number of hours above 0". */
  remedy: string | ((value: unknown) => string)
  required?: true
}

const text: Rule = { holds: (value) => typeof value === 'string' && value !== '', remedy: 'give a non-empty string' }
const path: Rule = {
  // Express reads these characters as a pattern, but this package compares paths literally.
  holds: (value) => typeof value === 'string' && /^\/[^\s?#:*+!(){}[\]\\]*$/.test(value),
  remedy: 'give a path that starts with "/" and is not a pattern'
}
const booleanRule: Rule = { holds: (value) => typeof value === 'boolean', remedy: 'give true or false' }
const functionRule: Rule = { holds: (value) => typeof value === 'function', remedy: 'give a function' }
const acceptObject = (...methods: string[]): Rule => ({
  holds: (value) => isObject(value) && methods.every((method) => typeof value[method] === 'function'),
  remedy: `give an object with ${methods.join(', ')}`
})
// 32 years, so that sums of times stay safe integers.
const MAX_SECONDS = 1e9
const acceptNumber = (least: number, most: number, remedy: string): Rule => ({
  holds: (value) => typeof value === 'number' && value >= least && value <= most,
  remedy
})
const acceptSeconds = (least: number): Rule =>
  acceptNumber(
    least,
    MAX_SECONDS,
    `give a number of seconds, at least ${String(least)} and at most ${String(MAX_SECONDS)}`
  )
const hours = acceptNumber(Number.MIN_VALUE, 1e9, 'give a number of hours above 0')
const acceptValues = (...values: string[]): Rule => ({
  holds: (value) => typeof value === 'string' && values.includes(value),
  remedy: `give ${values.flatMap((value) => (value === '' ? [] : [`"${value}"`])).join(' or ')}`
})
const acceptList = (holds: (value: unknown) => boolean, remedy: Rule['remedy'], least = 0, most = Infinity): Rule => ({
  holds: (value) => Array.isArray(value) && value.length >= least && value.length <= most && value.every(holds),
  remedy
})
const isPrintable = (value: unknown): boolean => typeof value === 'string' && /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(value)
const isNamedKey = (value: unknown): boolean => isDid(value) && isEthrDid(value)
const isUrl = (value: unknown): boolean => typeof value === 'string' && parseHttpUrl(value) !== undefined
const parseOrigin = (value: unknown): string | undefined =>
  typeof value === 'string' ? parseUrl(value)?.origin : undefined
const isOrigin = (value: unknown): boolean => typeof value === 'string' && parseOrigin(value) === value
/** Whether a value is a host as browsers spell it: without user, and without the default port of https. */
const isHost = (value: unknown): boolean =>
  typeof value === 'string' && parseUrl(`https://${value}`)?.host === value.toLowerCase()

/** Whether a value has the form of a P-256 key as JWK. Loading it for `ready` checks that its halves match. */
const isP256Key = (key: unknown, members = ['x', 'y']): boolean =>
  readField(key, 'kty') === 'EC' &&
  readField(key, 'crv') === 'P-256' &&
  members.every((name) => /^[\w-]{43}$/.test(String(readField(key, name))))

const isResourceKey = (key: unknown): boolean => isP256Key(key, ['x', 'y', 'd'])

function isTrustedIssuer(value: unknown): boolean {
  const [audience, keys] = [readField(value, 'audience') ?? 'serviceUrl', readField(value, 'keys')]
  const areKeys = Array.isArray(keys) && keys.length > 0 && keys.every((key) => isP256Key(key))
  return isSecureUrl(readField(value, 'issuer')) && text.holds(audience) && (keys === undefined || areKeys)
}

/** Whether a value is a network of users' DIDs. Not `mainnet`: DIDs of Ethereum contain no network name. */
const isUserNetwork = (value: unknown): boolean => isEthrNetwork(value) && value.toLowerCase() !== 'mainnet'
/** Creates a remedy with a hint for the value `mainnet`. */
const toNetworkRemedy =
  (remedy: string): Extract<Rule['remedy'], (value: unknown) => string> =>
  (value) =>
    /mainnet/i.test(String(value)) ? 'give "ethereum", or "", in place of "mainnet": no DID has that name' : remedy

const siweRules: Record<keyof SiweOptions, Rule> = {
  path,
  network: { holds: isUserNetwork, remedy: toNetworkRemedy('give a network such as "rsk", "" for Ethereum') },
  nonceSeconds: acceptNumber(30, 3_600, 'give a number of seconds, 30 to 3600'),
  domains: {
    holds: (value) => typeof value === 'function' || (Array.isArray(value) && value.every(isHost)),
    remedy: 'give an array of hosts as browsers spell them, such as "app.example", or a function of a host'
  }
}

/** Whether an entry is a client under its chain id. If the client has a `chain`, the ids must be equal. */
const isContractVerifier = ([chainId, client]: [string, unknown]): boolean =>
  /^[1-9]\d{0,14}$/.test(chainId) &&
  acceptObject('verifyMessage', 'getCode', 'getChainId').holds(client) &&
  [undefined, Number(chainId)].includes(readField(readField(client, 'chain'), 'id') as number | undefined)

const rules: Record<keyof DidAuthConfig, Rule> = {
  challengeSecret: { ...text, required: true },
  serviceUrl: {
    holds: isPrintable,
    remedy: 'give a URI of printable ASCII without space, double quote or backslash',
    required: true
  },
  serviceSigner: {
    ...functionRule,
    remedy: 'give es256kSigner(privateKey) or another did-jwt ES256K signer',
    required: true
  },
  serviceDid: { holds: isKeyDid, remedy: 'give a DID, such as did:ethr:rsk:0x… (40 hex digits)', required: true },
  previousServiceDids: acceptList(
    isNamedKey,
    'give an array of at most 10 DIDs of did:ethr, each of an earlier key',
    0,
    10
  ),
  useCookies: booleanRule,
  requestSignupPath: path,
  signupPath: path,
  requestAuthPath: path,
  authPath: path,
  logoutPath: path,
  refreshTokenPath: path,
  challengeExpirationTimeInSeconds: acceptSeconds(1),
  maxRequestsPerTimeSlot: acceptNumber(1, Infinity, 'give a number of requests, at least 1 (Infinity for no limit)'),
  timeSlotInSeconds: acceptSeconds(1),
  userSessionDurationInHours: hours,
  accessTokenExpirationTimeInSeconds: acceptSeconds(1),
  rpcUrl: { holds: isUrl, remedy: 'give an http(s) URL' },
  networkName: { ...text, remedy: 'give a name such as "rsk" or "ethereum"' },
  registry: {
    holds: (value) => typeof value === 'string' && /^0x[0-9a-fA-F]{40}$/.test(value),
    remedy: 'give a contract address, 0x and 40 hex digits'
  },
  authenticationBusinessLogic: functionRule,
  requiredCredentials: acceptList((value) => text.holds(value), 'give an array of schema names'),
  requiredClaims: acceptList(isClaim, 'give an array of { claimType, claimValue, reason?, essential? }'),
  signupBusinessLogic: functionRule,
  store: acceptObject(...Object.values(storeVerbs).flat(), 'ping', 'close'),
  absoluteSessionDurationInHours: hours,
  refreshBusinessLogic: functionRule,
  trustedIssuers: {
    holds: (value) => typeof value === 'function' || (Array.isArray(value) && value.every(isDid)),
    remedy: 'give an array of DIDs, or a function of a DID'
  },
  cookiePrefix: acceptValues('', '__Host-', '__Secure-'),
  sessionPath: path,
  sessionsPath: path,
  resources: acceptList(isSecureUrl, 'give an array of at most 50 URLs, https or on this machine', 0, 50),
  resourceKeys: acceptList(isResourceKey, 'give an array of private keys of P-256 as JWK, with kty, crv, x, y, d'),
  resourceTokenPath: path,
  resourceIssuer: {
    holds: isTrustedIssuer,
    remedy: 'give { issuer, audience?, keys? }, the issuer as a URL, https or on this machine, keys of P-256 as JWK'
  },
  discovery: booleanRule,
  onSecurityEvent: functionRule,
  errorFormat: acceptValues('text', 'problem'),
  replayProtection: acceptValues('single-use', 'window'),
  refreshReuseGraceSeconds: acceptSeconds(0),
  loginDomains: acceptList(isPrintable, 'give an array of domains, printable ASCII without space'),
  loginDialects: acceptList(isLoginDialect, 'give an array of "login" and "url", at least one', 1),
  contractWallets: {
    holds: (value) => isObject(value) && Object.entries(value).every(isContractVerifier),
    remedy: 'give clients with verifyMessage, getCode and getChainId, each under the chain id that its chain.id names'
  },
  didControl: acceptValues('address', 'document'),
  networks: acceptList(
    isUserNetwork,
    toNetworkRemedy('give an array of networks such as "rsk", "" for Ethereum, at least one'),
    1
  ),
  loginProofs: booleanRule,
  siwe: {
    holds: (value) => value === true || isObject(value),
    remedy: `give true, or an object of ${Object.keys(siweRules).join(', ')}`
  },
  trustedOrigins: acceptList(isOrigin, (values) => {
    const parsed = (Array.isArray(values) ? values : []).filter((value) => !isOrigin(value)).map(parseOrigin)
    const corrected = parsed.filter((origin) => origin !== undefined && origin !== 'null')
    return corrected.length === 0
      ? 'give an array of origins such as "https://app.example"'
      : `give an array of origins as browsers spell them: ${describe('trustedOrigins', corrected)}`
  }),
  resolver: acceptObject('resolve'),
  logger: acceptObject('info', 'warn', 'error'),
  clock: acceptObject('nowSeconds')
}

/** Names of all options. */
export const optionNames: readonly string[] = Object.keys(rules)

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
  const siweEntries = Object.entries(siweRules).map(([option, rule]) => [`siwe.${option}`, rule] as const)
  const invalidEntries = [...Object.entries(rules), ...siweEntries].filter(([field, rule]) => {
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
    // Inherited options count as well.
    optionNames.flatMap((name) => (config[name] === undefined || invalidNames.has(name) ? [] : [[name, config[name]]]))
  ) as unknown as DefinedOptions
  const { networks } = validOptions
  const renamed = networks === undefined ? {} : { networks: networks.map(toNetwork) }
  const options = { ...defaults, ...validOptions, ...renamed, siwe: completeSiwe(validOptions) }
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

import { isDid, isEthrDid } from '../protocol/did.js'
import { findEndedSessionsProblem } from '../protocol/ended-sessions.js'
import { readField, isObject } from '../protocol/json.js'
import { isP256Key } from '../protocol/p256-key.js'
import { isSecureUrl, parseHttpUrl, parseUrl } from '../protocol/parse-url.js'

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

/** Check of the values of an option. */
export interface Rule {
  holds: (value: unknown) => boolean
  /** Instruction for the reader of the error: "give a number of hours above 0". */
  remedy: string | ((value: unknown) => string)
}

/** Declaration of an option: the rule for its values, its default, and its form in the settings. */
export interface Declaration extends Rule {
  required?: true
  default?: unknown
  /** Converts a valid value, for example a network name in another spelling. */
  normalize?: (value: never) => unknown
  /** Whether the settings contain the option under its own name. `toSettings` converts all other options. */
  isSetting?: true
}

interface TypedDeclaration<T> extends Declaration {
  default?: T
  normalize?: (value: T) => T
}

/** Declaration of each option of an interface. */
export type Declarations<Options> = {
  readonly [Option in keyof Options]-?: TypedDeclaration<NonNullable<Options[Option]>>
}

export const text: Rule = {
  holds: (value) => typeof value === 'string' && value !== '',
  remedy: 'give a non-empty string'
}
export const path: Rule = {
  // Express reads these characters as a pattern, but this package compares paths literally.
  holds: (value) => typeof value === 'string' && /^\/[^\s?#:*+!(){}[\]\\]*$/.test(value),
  remedy: 'give a path that starts with "/" and is not a pattern'
}
export const boolean: Rule = { holds: (value) => typeof value === 'boolean', remedy: 'give true or false' }
export const anyFunction: Rule = { holds: (value) => typeof value === 'function', remedy: 'give a function' }
export const acceptObject = (...methods: string[]): Rule => ({
  holds: (value) => isObject(value) && methods.every((method) => typeof value[method] === 'function'),
  remedy: `give an object with ${methods.join(', ')}`
})
// 32 years, so that sums of times stay safe integers.
const MAX_SECONDS = 1e9
export const acceptNumber = (least: number, most: number, remedy: string): Rule => ({
  holds: (value) => typeof value === 'number' && value >= least && value <= most,
  remedy
})
export const acceptSeconds = (least: number): Rule =>
  acceptNumber(
    least,
    MAX_SECONDS,
    `give a number of seconds, at least ${String(least)} and at most ${String(MAX_SECONDS)}`
  )
export const hours = acceptNumber(Number.MIN_VALUE, 1e9, 'give a number of hours above 0')
export const acceptValues = (...values: string[]): Rule => ({
  holds: (value) => typeof value === 'string' && values.includes(value),
  remedy: `give ${values.flatMap((value) => (value === '' ? [] : [`"${value}"`])).join(' or ')}`
})
export const acceptList = (
  holds: (value: unknown) => boolean,
  remedy: Rule['remedy'],
  least = 0,
  most = Infinity
): Rule => ({
  holds: (value) => Array.isArray(value) && value.length >= least && value.length <= most && value.every(holds),
  remedy
})
/** Whether a value is printable ASCII without space, quote and backslash. */
export const isPrintable = (value: unknown): boolean =>
  typeof value === 'string' && /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(value)
export const isNamedKey = (value: unknown): boolean => isDid(value) && isEthrDid(value)
export const isUrl = (value: unknown): boolean => typeof value === 'string' && parseHttpUrl(value) !== undefined
export const parseOrigin = (value: unknown): string | undefined =>
  typeof value === 'string' ? parseUrl(value)?.origin : undefined
/** Whether a value is an origin as browsers spell it. */
export const isOrigin = (value: unknown): boolean => typeof value === 'string' && parseOrigin(value) === value
/** Origin of an application's own scheme, such as `tauri://localhost`. */
const APP_ORIGIN = /^(?!https?:)[a-z][a-z\d+.-]*:\/\/(?:[a-z\d._-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/
/** Whether a value is an origin as browsers spell it, with any scheme. `null` is none: every site can have it. */
export const isAnyOrigin = (value: unknown): boolean =>
  isOrigin(value) || (typeof value === 'string' && APP_ORIGIN.test(value))
/** Whether a value is a host as browsers spell it: without user, and without the default port of https. */
export const isHost = (value: unknown): boolean =>
  typeof value === 'string' && parseUrl(`https://${value}`)?.host === value.toLowerCase()

/**
 * Whether a value has the form of a private key of P-256, or is the public half of one with the function that signs.
 * Loading a private key for `ready` checks that its halves match.
 */
export const isResourceKey = (key: unknown): boolean =>
  isP256Key(key, ['x', 'y', 'd']) ||
  (isP256Key(readField(key, 'publicKey')) && typeof readField(key, 'sign') === 'function')

export function isTrustedIssuer(value: unknown): boolean {
  const [audience, keys] = [readField(value, 'audience') ?? 'serviceUrl', readField(value, 'keys')]
  const areKeys = Array.isArray(keys) && keys.length > 0 && keys.every((key) => isP256Key(key))
  const isRead = findEndedSessionsProblem(readField(value, 'endedSessions')) === undefined
  return isSecureUrl(readField(value, 'issuer')) && text.holds(audience) && (keys === undefined || areKeys) && isRead
}

/** Creates a remedy with a hint for the value `mainnet`. */
export const toNetworkRemedy =
  (remedy: string): Extract<Rule['remedy'], (value: unknown) => string> =>
  (value) =>
    /mainnet/i.test(String(value)) ? 'give "ethereum", or "", in place of "mainnet": no DID has that name' : remedy

/** Whether an entry is a client under its chain id. If the client has a `chain`, the ids must be equal. */
export const isContractVerifier = ([chainId, client]: [string, unknown]): boolean =>
  /^[1-9]\d{0,14}$/.test(chainId) &&
  acceptObject('verifyMessage', 'getCode', 'getChainId').holds(client) &&
  [undefined, Number(chainId)].includes(readField(readField(client, 'chain'), 'id') as number | undefined)

/** Returns the remedy for a list with an entry that is no origin. It shows the origins that were probably meant. */
export function correctOrigins(values: unknown): string {
  const parsed = (Array.isArray(values) ? values : []).filter((value) => !isOrigin(value)).map(parseOrigin)
  const corrected = parsed.filter((origin) => origin !== undefined && origin !== 'null')
  if (Array.isArray(values) && values.some((value) => isAnyOrigin(value) && !isOrigin(value)))
    return 'give http(s) origins only, and those of apps to corsOptions as its second argument'
  return corrected.length === 0
    ? 'give an array of origins such as "https://app.example"'
    : `give an array of origins as browsers spell them: ${describe('trustedOrigins', corrected)}`
}

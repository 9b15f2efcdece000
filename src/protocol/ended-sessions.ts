import { RESOURCE_TOKEN_SECONDS } from './access-token.js'
import type { Curve } from './curve.js'
import { isDid, isEthrDid } from './did.js'
import { encodeBase64url } from './encoding.js'
import { isObject } from './json.js'
import { parseJwt, type ParsedJwt } from './jwt.js'
import { isSameUrl, isSecureUrl } from './parse-url.js'

/** Maximum length of a list, in bytes. A list of {@link MAX_ENDED_PER_LIST} sessions has about 190 KiB. */
export const MAX_ENDED_LIST_BYTES = 512 * 1024

/** Number of sessions after which a list ends, at the next full second. */
export const MAX_ENDED_PER_LIST = 10_000

/** `typ` of a list, which no token has. */
export const ENDED_LIST_TYPE = 'ended-sessions+jwt'

/** Validity of a list, in seconds. */
export const ENDED_LIST_SECONDS = 60

/** Time by which `until` may go back from one list to the next, in seconds: clocks of instances differ. */
const MAX_STEP_BACK_SECONDS = 30

/**
 * Time by which `until` may be ahead of a reader's clock, in seconds. A list from further ahead may omit sessions whose
 * tokens the reader still accepts.
 */
export const MAX_AHEAD_SECONDS = 660

const TAG = /^[A-Za-z0-9_-]{16}$/

/** List of sessions that were logged out or revoked in a period. */
export interface EndedSessionList {
  /** Beginning of the period, in seconds since the Unix epoch. */
  after: number
  /** End of the period. The next request asks for what came after it. */
  until: number
  /** Time from which the list is not accepted any more. */
  exp: number
  /** Whether sessions that ended after `until` are left to the next list. */
  more: boolean
  /** Tags of the sessions, see {@link computeSessionTag}. */
  ended: readonly string[]
}

/** Computes the tag of a session in a list: the first 12 bytes of SHA-256 of its id, as 16 characters of base64url. */
export function computeSessionTag(curve: Pick<Curve, 'sha256'>, sessionId: string): string {
  return encodeBase64url(curve.sha256(sessionId).subarray(0, 12))
}

/** A list whose signature has not been verified yet. */
export interface UnverifiedList extends EndedSessionList {
  /** DID whose key has to have signed the list. */
  issuer: string
  /** The parsed list, for verifying its signature. */
  jwt: ParsedJwt
}

/** Expected values for reading a list. */
export interface EndedListExpectation {
  /** DIDs of the service that publishes the list. */
  issuers: readonly string[]
  /** `serviceUrl` of that service. */
  audience: string
  /** Time from which the reader needs the list; undefined: the whole list, at least the life of a resource token. */
  after: number | undefined
  /**
   * `until` of the last accepted list; undefined for the first one. A time in the future counts as the current time:
   * the clock of that list was wrong, and lists with the right time must not be ignored until it is reached.
   */
  lastUntil: number | undefined
  /** Current time, in seconds since the Unix epoch. */
  nowSeconds: number
}

/**
 * Parses a list, and checks form, header, claims and times, in this order. The caller verifies the signature.
 * @returns undefined for a list that a reader must ignore
 */
export function parseEndedSessions(
  jwt: unknown,
  { issuers, audience, after: requestedAfter, lastUntil = -Infinity, nowSeconds }: EndedListExpectation
): UnverifiedList | undefined {
  const parsed = parseJwt(jwt, MAX_ENDED_LIST_BYTES)
  if (parsed === undefined) return undefined
  const { alg, typ, ...otherFields } = parsed.header
  if (alg !== 'ES256K' || typ !== ENDED_LIST_TYPE || Object.keys(otherFields).length > 0) return undefined
  const { iss, aud, exp, after, until, more, ended } = parsed.payload
  if (typeof iss !== 'string' || !issuers.includes(iss) || !isSameUrl(audience, aud)) return undefined
  if (!isTime(exp) || !isTime(after) || !isTime(until) || typeof more !== 'boolean' || !isTagList(ended))
    return undefined
  if (nowSeconds >= exp || after > (requestedAfter ?? nowSeconds - RESOURCE_TOKEN_SECONDS)) return undefined
  if (until < after || until < Math.min(lastUntil, nowSeconds) - MAX_STEP_BACK_SECONDS) return undefined
  return { issuer: iss, jwt: parsed, after, until, exp, more, ended }
}

/**
 * Finds the problem of the option `endedSessions` of a reader.
 * @returns text such as "pollSeconds: give whole seconds, at least 1"; undefined if the option is valid
 */
export function findEndedSessionsProblem(option: unknown): string | undefined {
  if (option === undefined || typeof option === 'boolean') return undefined
  if (!isObject(option)) return 'give true or an object'
  const isSeconds = (value: unknown): boolean => value === undefined || (isTime(value) && value >= 1)
  const { url, whenStale, waitUntil, serviceDid } = option
  if (url !== undefined && !isSecureUrl(url)) return 'url: give a URL, https or on this machine'
  if (!isSeconds(option.pollSeconds)) return 'pollSeconds: give whole seconds, at least 1'
  if (!isSeconds(option.maxStaleSeconds)) return 'maxStaleSeconds: give whole seconds, at least 1'
  if (!['accept', 'refuse', undefined].includes(whenStale as string)) return "whenStale: give 'accept' or 'refuse'"
  if (!['function', 'undefined'].includes(typeof waitUntil)) return 'waitUntil: give a function'
  return serviceDid === undefined || (isDid(serviceDid) && isEthrDid(serviceDid))
    ? undefined
    : 'serviceDid: give a did:ethr'
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value)
}

function isTagList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((tag) => typeof tag === 'string' && TAG.test(tag))
}

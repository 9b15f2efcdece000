import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import { assertDates, createRefusal, isCredentialHeader, parseType, type VerifiedCredential } from './credential.js'
import { canonicalDid } from './did.js'
import { isObject } from './json.js'
import { parseJwt, type ParsedJwt } from './jwt.js'
import { parseUrl } from './parse-url.js'

/** Limits of a list: its JWT with compressed bits, its bits, and the time for which it may be cached. */
export const LIST_LIMITS = {
  maxJwtBytes: 512 * 1024,
  maxBytes: 4 * 1024 * 1024,
  /** Minimum: with fewer users in a list, a fetch would reveal who signs up. */
  minBytes: 131_072 / 8,
  minCacheSeconds: 30,
  maxCacheSeconds: 300
}
const MAX_ENTRIES_PER_CREDENTIAL = 4
const MAX_LISTS = 20

/** Types of entries. The type of the list ends in `Credential` instead of `Entry`, that of its subject in neither. */
const ENTRY_TYPES: readonly unknown[] = ['BitstringStatusListEntry', 'StatusList2021Entry']
const LIST_TYPS: readonly unknown[] = [undefined, 'JWT', 'vc+jwt', 'statuslist+jwt']
/** Purposes of entries that are checked, and texts that may be a misspelling of one. */
const PURPOSE = /^(?:revocation|suspension)$/
const LIKE_PURPOSE = /revo|suspen/i
/** Forms of `encodedList`: multibase, or base64 with its usual or its URL-safe alphabet, as lists of 2021 use both. */
const ENCODINGS = { multibase: /^u([\w-]+)$/, base64: /^([\w+/-]+)={0,2}$/ }

/** One status of a credential: a bit in a list of its issuer. */
export interface StatusEntry {
  issuer: string
  type: string
  purpose: string
  /** URL of the list. */
  url: string
  index: number
}

/** A status list of an issuer. */
export interface StatusList {
  purposes: readonly unknown[]
  bits: Uint8Array
}

/** A list whose signature is not verified and whose bits are still compressed. */
export type UnprovedStatusList = Pick<StatusList, 'purposes'> & {
  parsed: ParsedJwt
  gzip: Uint8Array
  cacheSeconds: number
}

type UrlRule = (url: unknown) => url is string

/**
 * Parses `credentialStatus` of verified credentials. Entries of other purposes, such as `refresh` or `message`, say
 * nothing about validity and are skipped.
 * @param isAllowedUrl - whether a list may be fetched from a URL
 * @returns none for credentials without status
 * @throws DidAuthError ERR_CREDENTIAL
 */
export function parseStatusEntries(credentials: readonly VerifiedCredential[], isAllowedUrl: UrlRule): StatusEntry[] {
  const entries = credentials.flatMap(({ issuer, vc: { credentialStatus = [] } }) => {
    const values: unknown[] = Array.isArray(credentialStatus) ? credentialStatus : [credentialStatus]
    assertField(values.length <= MAX_ENTRIES_PER_CREDENTIAL, 'credentialStatus', 'at most 4 per credential')
    return values.flatMap((value) => parseStatusEntry(issuer, value, isAllowedUrl) ?? [])
  })
  assertField(new Set(entries.map(({ url }) => url)).size <= MAX_LISTS, 'credentialStatus', 'at most 20 lists')
  return entries
}

function parseStatusEntry(issuer: string, value: unknown, isAllowedUrl: UrlRule): StatusEntry | undefined {
  const fields = isObject(value) ? value : {}
  const { type, statusPurpose: purpose, statusSize = 1, statusListIndex: index, statusListCredential: url } = fields
  assertField(typeof type === 'string' && ENTRY_TYPES.includes(type), 'credentialStatus.type', ENTRY_TYPES.join(', '))
  assertField(typeof purpose === 'string' && purpose !== '', 'statusPurpose', 'text')
  if (!PURPOSE.test(purpose)) {
    assertField(!LIKE_PURPOSE.test(purpose), 'statusPurpose', 'revocation, suspension or another purpose')
    return undefined
  }
  assertField(statusSize === 1, 'statusSize', 'absent, or 1')
  const isIndex = typeof index === 'string' && /^(?:0|[1-9]\d{0,7})$/.test(index)
  assertField(isIndex, 'statusListIndex', 'a text of at most 8 decimal digits')
  assertField(isAllowedUrl(url), 'statusListCredential', 'a URL with https')
  return { issuer, type, purpose, url, index: Number(index) }
}

/**
 * Whether an answer is a list in JSON: a credential with a Data Integrity proof, or one that envelops another form. Its
 * issuer signs no JWT, so that another attempt does not help.
 * @see Verifiable Credentials Data Model v2.0, section 4.12
 */
export function isJsonList(text: string): boolean {
  if (!text.startsWith('{')) return false
  try {
    const json: unknown = JSON.parse(text)
    return isObject(json) && ['@context', 'proof', 'credentialSubject'].some((name) => Object.hasOwn(json, name))
  } catch {
    return false
  }
}

/** Creates the error of a list that {@link isJsonList}. */
export function createJsonListError(): DidAuthError {
  return createRefusal('status list', 'only lists as JWT')
}

/**
 * Parses a status list and checks everything except its signature and bits: header, issuer, dates and types. Its claims
 * are in `vc`, or at the top as in version 2.0 of the data model.
 * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED
 */
export function parseStatusList(jwt: string, entry: StatusEntry, nowSeconds: number): UnprovedStatusList {
  const parsed = parseJwt(jwt, LIST_LIMITS.maxJwtBytes)
  assertField(parsed !== undefined && isCredentialHeader(parsed.header, LIST_TYPS), 'status list', 'a compact JWT')
  const { iss, sub, vc = parsed.payload } = parsed.payload
  assertField(isObject(vc) && isObject(vc.credentialSubject), 'status list', 'an object with a credentialSubject')
  const { id, type, statusPurpose, ttl = Infinity, encodedList } = vc.credentialSubject
  const issuers = [iss, isObject(vc.issuer) ? vc.issuer.id : vc.issuer].filter((did) => did !== undefined)
  const isIssuer = (did: unknown): boolean =>
    typeof did === 'string' && canonicalDid(did) === canonicalDid(entry.issuer)
  assertField(issuers.length > 0 && issuers.every(isIssuer), 'issuer of the list', 'that of the credential')
  const isUrl = (value = entry.url as unknown): boolean => typeof value === 'string' && parseUrl(value) !== undefined
  assertField(isUrl(sub) && isUrl(id), 'sub, credentialSubject.id', 'absent, or a URL')
  assertField(vc.id === undefined || vc.id === entry.url, 'id of the list', 'absent, or statusListCredential')
  const name = entry.type.replace('Entry', '')
  assertField(type === name && parseType(vc.type).includes(`${name}Credential`), 'type of the list', name)
  const encoding = ENCODINGS[name === 'StatusList2021' ? 'base64' : 'multibase']
  const [, text] = (typeof encodedList === 'string' && encoding.exec(encodedList)) || []
  assertField(text !== undefined, 'encodedList', String(encoding))
  assertField(typeof ttl === 'number' && ttl >= 0, 'ttl', 'a number of milliseconds')
  const secondsLeft = (assertDates(parsed.payload, vc, nowSeconds) ?? Infinity) - nowSeconds
  const freshSeconds = Math.min(ttl / 1000, secondsLeft, LIST_LIMITS.maxCacheSeconds)
  const cacheSeconds = Math.max(freshSeconds, LIST_LIMITS.minCacheSeconds)
  return { parsed, gzip: Buffer.from(text, 'base64'), purposes: [statusPurpose].flat(), cacheSeconds }
}

function assertField(holds: boolean, check: string, expected: string): asserts holds {
  if (!holds) throw createRefusal(check, expected)
}

/**
 * Asserts that the bit of an entry is not set. The first bit is the most significant one of the first byte.
 * @throws DidAuthError ERR_CREDENTIAL_REVOKED; ERR_CREDENTIAL if the index is outside of the list;
 * ERR_CREDENTIAL_STATUS if the list has another purpose
 * @see Bitstring Status List v1.0, section 3.2
 */
export function assertStatus({ purposes, bits }: StatusList, { purpose, index }: StatusEntry): void {
  if (!purposes.includes(purpose)) {
    const cause = new Error(`the status list is not for ${purpose}`)
    throw new DidAuthError('ERR_CREDENTIAL_STATUS', { cause })
  }
  const byte = bits[index >> 3]
  assertField(byte !== undefined, 'statusListIndex', 'an index within the list')
  const reason = { check: purpose, expected: 'a bit that is not set' }
  if ((byte & (0x80 >> (index % 8))) !== 0) throw new DidAuthError('ERR_CREDENTIAL_REVOKED', { reason })
}

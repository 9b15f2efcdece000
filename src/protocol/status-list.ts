import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import { assertDates, createRefusal, isCredentialHeader, parseType, type VerifiedCredential } from './credential.js'
import { canonicalDid } from './did.js'
import { decodeBase64url } from './encoding.js'
import { isObject } from './json.js'
import { parseJwt, type ParsedJwt } from './jwt.js'
import { parseUrl } from './parse-url.js'

/** Maximum length of a status list, a JWT that contains compressed bits, in bytes. */
export const MAX_LIST_BYTES = 512 * 1024
/** Maximum length of the decompressed bits, in bytes. */
export const MAX_BITS_BYTES = 4 * 1024 * 1024
/** Minimum length of the decompressed bits, in bytes: with fewer users, a fetch would reveal who signs up. */
const MIN_BITS_BYTES = 131_072 / 8
const MAX_ENTRIES_PER_CREDENTIAL = 4
const MAX_LISTS = 20
/** Limits of the time for which a list may be cached, in seconds. */
const MIN_CACHE_SECONDS = 30
export const MAX_CACHE_SECONDS = 300

/** Types of the list and of its subject, by the type of an entry. @see Bitstring Status List v1.0, StatusList2021 */
const LIST_TYPES: ReadonlyMap<unknown, readonly [list: string, subject: string]> = new Map([
  ['BitstringStatusListEntry', ['BitstringStatusListCredential', 'BitstringStatusList']],
  ['StatusList2021Entry', ['StatusList2021Credential', 'StatusList2021']]
])
const PURPOSES: ReadonlySet<unknown> = new Set(['revocation', 'suspension'])
const LIST_TYPS: readonly unknown[] = [undefined, 'JWT', 'vc+jwt', 'statuslist+jwt']

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
  cacheSeconds: number
}

/** A list whose signature is not verified and whose bits are still compressed. */
export type UnprovedStatusList = Omit<StatusList, 'bits'> & { parsed: ParsedJwt; gzip: Uint8Array }

/**
 * Parses `credentialStatus` of verified credentials.
 * @param isAllowedUrl - whether a list may be fetched from a URL
 * @returns none for credentials without status
 * @throws DidAuthError ERR_CREDENTIAL
 */
export function parseStatusEntries(
  credentials: readonly VerifiedCredential[],
  isAllowedUrl: (url: unknown) => url is string
): StatusEntry[] {
  const entries = credentials.flatMap(({ issuer, vc: { credentialStatus = [] } }) => {
    const values: unknown[] = Array.isArray(credentialStatus) ? credentialStatus : [credentialStatus]
    const count = MAX_ENTRIES_PER_CREDENTIAL
    if (values.length > count) throw createRefusal('credentialStatus', `at most ${String(count)} per credential`)
    return values.map((value) => parseStatusEntry(issuer, value, isAllowedUrl))
  })
  const lists = new Set(entries.map(({ url }) => url))
  if (lists.size > MAX_LISTS) throw createRefusal('credentialStatus', `at most ${String(MAX_LISTS)} lists`)
  return entries
}

function parseStatusEntry(issuer: string, value: unknown, isAllowedUrl: (url: unknown) => url is string): StatusEntry {
  if (!isObject(value)) throw createRefusal('credentialStatus', 'an object, or an array of objects')
  const { type, statusPurpose, statusSize = 1, statusListIndex, statusListCredential: url } = value
  if (typeof type !== 'string' || !LIST_TYPES.has(type)) {
    throw createRefusal('credentialStatus.type', [...LIST_TYPES.keys()].join(', '))
  }
  if (typeof statusPurpose !== 'string' || !PURPOSES.has(statusPurpose)) {
    throw createRefusal('statusPurpose', [...PURPOSES].join(', '))
  }
  if (statusSize !== 1) throw createRefusal('statusSize', 'absent, or 1')
  if (typeof statusListIndex !== 'string' || !/^(?:0|[1-9]\d{0,7})$/.test(statusListIndex)) {
    throw createRefusal('statusListIndex', 'a text of at most 8 decimal digits')
  }
  if (!isAllowedUrl(url)) throw createRefusal('statusListCredential', 'a URL with https')
  return { issuer, type, purpose: statusPurpose, url, index: Number(statusListIndex) }
}

/**
 * Parses a status list and checks everything except its signature and bits: header, issuer, dates and types. Its claims
 * are in `vc`, or at the top as in version 2.0 of the data model.
 * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED
 */
export function parseStatusList(
  jwt: string,
  { issuer, type, url }: StatusEntry,
  nowSeconds: number
): UnprovedStatusList {
  const parsed = parseJwt(jwt, MAX_LIST_BYTES)
  if (parsed === undefined || !isCredentialHeader(parsed.header, LIST_TYPS)) {
    throw createRefusal('status list', 'a compact JWT')
  }
  const { iss, sub, vc = parsed.payload } = parsed.payload
  if (!isObject(vc) || !isObject(vc.credentialSubject)) throw createRefusal('status list', 'a credentialSubject')
  const issuers = [iss, isObject(vc.issuer) ? vc.issuer.id : vc.issuer].filter((did) => did !== undefined)
  const isIssuer = (did: unknown): boolean => typeof did === 'string' && canonicalDid(did) === canonicalDid(issuer)
  if (issuers.length === 0 || !issuers.every(isIssuer))
    throw createRefusal('issuer of the list', 'that of the credential')
  const { id, type: subjectType, statusPurpose, ttl, encodedList } = vc.credentialSubject
  if (![sub, id].every((subject) => subject === undefined || isUrl(subject))) {
    throw createRefusal('sub, credentialSubject.id', 'absent, or a URL')
  }
  if (vc.id !== undefined && vc.id !== url) throw createRefusal('id of the list', 'absent, or statusListCredential')
  const [listType = '', listSubjectType] = LIST_TYPES.get(type) ?? []
  if (!parseType(vc.type).includes(listType) || subjectType !== listSubjectType) {
    throw createRefusal('type of the list', listType)
  }
  const gzip = decodeList(encodedList, type === 'StatusList2021Entry')
  if (gzip === undefined) throw createRefusal('encodedList', 'multibase or base64 of gzip')
  if (ttl !== undefined && !(typeof ttl === 'number' && ttl >= 0)) throw createRefusal('ttl', 'milliseconds')
  const endsAtSeconds = assertDates(parsed.payload, vc, nowSeconds) ?? Infinity
  const freshSeconds = Math.min((ttl ?? Infinity) / 1000, endsAtSeconds - nowSeconds, MAX_CACHE_SECONDS)
  return { parsed, gzip, purposes: [statusPurpose].flat(), cacheSeconds: Math.max(MIN_CACHE_SECONDS, freshSeconds) }
}

function isUrl(value: unknown): boolean {
  return typeof value === 'string' && parseUrl(value) !== undefined
}

/** Decodes multibase with the prefix `u`, or base64. Lists of 2021 use its usual and its URL-safe alphabet. */
function decodeList(text: unknown, is2021: boolean): Uint8Array | undefined {
  if (typeof text !== 'string') return undefined
  if (!is2021) return text.startsWith('u') ? decodeBase64url(text.slice(1)) : undefined
  return /^[\w+/-]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined
}

/** Asserts the length of decompressed bits. @throws DidAuthError ERR_CREDENTIAL */
export function assertBits(bits: Uint8Array): void {
  if (bits.length < MIN_BITS_BYTES) throw createRefusal('encodedList', `at least ${String(MIN_BITS_BYTES)} bytes`)
}

/**
 * Asserts that the bit of an entry is not set. The first bit is the most significant one of the first byte.
 * @throws DidAuthError ERR_CREDENTIAL_REVOKED; ERR_CREDENTIAL if the index is outside of the list;
 * ERR_CREDENTIAL_STATUS if the list has another purpose
 * @see Bitstring Status List v1.0, section 3.2
 */
export function assertStatus({ purposes, bits }: StatusList, { purpose, index }: StatusEntry): void {
  if (!purposes.includes(purpose)) {
    throw new DidAuthError('ERR_CREDENTIAL_STATUS', { cause: new Error(`the status list is not for ${purpose}`) })
  }
  const byte = bits[index >> 3]
  if (byte === undefined) throw createRefusal('statusListIndex', 'an index within the list')
  if ((byte & (0x80 >> (index % 8))) === 0) return
  throw new DidAuthError('ERR_CREDENTIAL_REVOKED', { reason: { check: purpose, expected: 'a bit that is not set' } })
}

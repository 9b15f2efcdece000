import { DidAuthError } from '../errors.js'
import { fieldOf, isObject } from '../protocol/json.js'
import { parseIssuerKey, type IssuerKey } from './issuer-key.js'

/** Bounds of a DID document: its issuer writes it, and anybody may be an issuer. */
const MAX_METHODS = 100
const MAX_DOCUMENT_BYTES = 64 * 1024

const UTF_8 = new TextEncoder()

/** Errors that mean that the DID itself has no keys; any other error means that the network is unavailable. */
const FINAL_ERRORS: ReadonlySet<unknown> = new Set([
  'invalidDid',
  'unsupportedDidMethod',
  'methodNotSupported',
  'unknownNetwork',
  'representationNotSupported'
])

/** A key that a document lists for assertions. */
export interface ListedKey {
  /** Absolute: with the DID in front. */
  id: string | undefined
  /** Parses it, once; undefined when it is none that we verify with. @throws DidAuthError ERR_CREDENTIAL_ISSUER */
  parse: () => IssuerKey | undefined
}

export interface ListedKeys {
  /** At least one of them can be parsed. */
  keys: readonly ListedKey[]
  /** Length of the document as JSON. */
  bytes: number
}

/**
 * Parses a DID resolution result: the keys that the document lists for assertions. Each is parsed when it is asked for,
 * because the issuer decides how many there are.
 *
 * @throws DidAuthError ERR_RESOLVER when it is no answer; ERR_CREDENTIAL_ISSUER for a DID without good keys
 * @see W3C DID Resolution 0.3, "DID Resolution Result"
 */
export function parseResolution(did: string, result: unknown): ListedKeys {
  const error = fieldOf(fieldOf(result, 'didResolutionMetadata'), 'error')
  const document = fieldOf(result, 'didDocument')
  if (error !== undefined || !isObject(document)) {
    // Every did:ethr exists, so that its "not found" is a node that did not answer.
    const isFinal = FINAL_ERRORS.has(error) || (error === 'notFound' && !did.startsWith('did:ethr:'))
    const reason = typeof error === 'string' ? error.slice(0, 100) : 'no DID document'
    const cause = new Error(`resolution of an issuer failed: ${reason}`)
    throw new DidAuthError(isFinal ? 'ERR_CREDENTIAL_ISSUER' : 'ERR_RESOLVER', { cause })
  }
  if (fieldOf(fieldOf(result, 'didDocumentMetadata'), 'deactivated') === true) throw unproved('it is deactivated')
  const listed = readable(() => keysIn(did, document))
  if (!listed.keys.some((key) => key.parse() !== undefined)) throw unproved('it has no key for assertions')
  return listed
}

/** The document of a custom resolver may have getters, which may throw. */
function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof DidAuthError ? error : unproved('its document cannot be read')
  }
}

function listedKey(id: string | undefined, method: Record<string, unknown>): ListedKey {
  let parsed: { key: IssuerKey | undefined } | undefined
  return {
    id,
    parse: () => (parsed ??= { key: readable(() => parseIssuerKey(method)) }).key
  }
}

/** Each method that is listed for assertions, once. The work grows with the length of the document, no faster. */
function keysIn(did: string, document: Record<string, unknown>): ListedKeys {
  const bytes = jsonBytes(document, MAX_DOCUMENT_BYTES)
  if (bytes > MAX_DOCUMENT_BYTES) throw unproved('its document has more than 64 KiB')
  const listed = listOf(document, 'verificationMethod').filter(isObject)
  const entries = listOf(document, 'assertionMethod')
  if (listed.length + entries.filter(isObject).length > MAX_METHODS) throw unproved('it has more than 100 methods')
  const absolute = (id: string): string => absoluteKeyId(did, id)
  const byId = new Map<string, Record<string, unknown>>()
  for (const method of listed) {
    const { id } = method
    if (typeof id === 'string' && !byId.has(absolute(id))) byId.set(absolute(id), method)
  }
  const named = entries.map((entry) => (typeof entry === 'string' ? byId.get(absolute(entry)) : entry))
  const keys = [...new Set(named.filter(isObject))].map((method) => {
    const { id } = method
    return listedKey(typeof id === 'string' ? absolute(id) : undefined, method)
  })
  return { keys, bytes }
}

/** The id of a key, or a `kid`, with the DID in front. */
export function absoluteKeyId(did: string, id: string): string {
  return id.startsWith('#') ? `${did}${id}` : id
}

function listOf(document: Record<string, unknown>, name: string): unknown[] {
  const value = fieldOf(document, name)
  return Array.isArray(value) ? value : []
}

/** The length of a value as JSON. It stops reading behind `maxBytes`; a cycle, which has no end, counts as longer. */
function jsonBytes(value: unknown, maxBytes: number): number {
  let left = maxBytes
  const count = (_name: string, member: unknown): unknown => {
    left -= typeof member === 'string' ? member.length : 1
    if (left < 0) throw new RangeError('too long')
    return typeof member === 'bigint' ? String(member) : member
  }
  try {
    return UTF_8.encode(JSON.stringify(value, count)).length
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError) return maxBytes + 1
    throw error
  }
}

function unproved(reason: string): DidAuthError {
  return new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause: new Error(`an issuer is not accepted: ${reason}`) })
}

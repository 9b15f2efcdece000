import { DidAuthError } from '../errors.js'
import { fieldOf, isObject } from '../protocol/json.js'
import { parseIssuerKey, type IssuerKey } from './issuer-key.js'

/** Bounds of a DID document: its subject writes it, and anybody may be an issuer. */
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

/** What keys are listed for. */
export type KeyPurpose = 'assertionMethod' | 'authentication'

/** A key that a document lists. */
export interface ListedKey extends IssuerKey {
  /** Absolute: with the DID in front. */
  id: string | undefined
}

/**
 * Parses a DID resolution result: the keys that the document lists for a purpose, as far as they are of kinds that we
 * verify with.
 *
 * @returns at least one key, and the length of the document as JSON
 * @throws DidAuthError ERR_RESOLVER when it is not a resolution; ERR_CREDENTIAL_ISSUER for a DID without good keys
 * @see W3C DID Resolution 0.3, "DID Resolution Result"
 */
export function parseResolution(
  did: string,
  result: unknown,
  purpose: KeyPurpose
): { keys: readonly ListedKey[]; bytes: number } {
  const error = fieldOf(fieldOf(result, 'didResolutionMetadata'), 'error')
  const document = fieldOf(result, 'didDocument')
  if (error !== undefined || !isObject(document)) {
    // Every did:ethr exists, so that its "not found" is a node that did not answer.
    const isFinal = FINAL_ERRORS.has(error) || (error === 'notFound' && !did.startsWith('did:ethr:'))
    const reason = typeof error === 'string' ? error.slice(0, 100) : 'no DID document'
    const cause = new Error(`resolution of the DID failed: ${reason}`)
    throw new DidAuthError(isFinal ? 'ERR_CREDENTIAL_ISSUER' : 'ERR_RESOLVER', { cause })
  }
  if (fieldOf(fieldOf(result, 'didDocumentMetadata'), 'deactivated') === true) throw unproved('it is deactivated')
  const json = jsonOf(document)
  const keys = keysIn(did, JSON.parse(json) as Record<string, unknown>, purpose)
  if (keys.length === 0) throw unproved('it has no key for this purpose')
  return { keys, bytes: UTF_8.encode(json).length }
}

/** The key of each method that is listed, once. The work grows with the length of the document, no faster. */
function keysIn(did: string, document: Record<string, unknown>, purpose: KeyPurpose): ListedKey[] {
  const methods = listOf(document, 'verificationMethod').filter(isObject)
  const entries = listOf(document, purpose)
  if (methods.length + entries.filter(isObject).length > MAX_METHODS) throw unproved('it has more than 100 methods')
  const idOf = ({ id }: Record<string, unknown>): string | undefined =>
    typeof id === 'string' ? absoluteKeyId(did, id) : undefined
  // The first of two methods with one id counts.
  const byId = new Map(methods.toReversed().map((method) => [idOf(method), method]))
  const listed = entries.map((entry) => (typeof entry === 'string' ? byId.get(absoluteKeyId(did, entry)) : entry))
  return [...new Set(listed.filter(isObject))].flatMap((method) => {
    const key = parseIssuerKey(method)
    return key === undefined ? [] : [{ id: idOf(method), ...key }]
  })
}

/** The id of a key, or a `kid`, with the DID in front. */
export function absoluteKeyId(did: string, id: string): string {
  return id.startsWith('#') ? `${did}${id}` : id
}

function listOf(document: Record<string, unknown>, name: string): unknown[] {
  const value = fieldOf(document, name)
  return Array.isArray(value) ? value : []
}

/** A document as JSON. It reads no more than 64 KiB: a cycle has no end, and a getter may throw. */
function jsonOf(document: unknown): string {
  let left = MAX_DOCUMENT_BYTES
  const count = (_name: string, member: unknown): unknown => {
    left -= typeof member === 'string' ? member.length : 1
    if (left < 0) throw new RangeError('too long')
    return typeof member === 'bigint' ? String(member) : member
  }
  try {
    const json = JSON.stringify(document, count)
    if (UTF_8.encode(json).length <= MAX_DOCUMENT_BYTES) return json
  } catch {
    // Told below.
  }
  throw unproved('its document has more than 64 KiB, or cannot be read')
}

function unproved(reason: string): DidAuthError {
  return new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause: new Error(`the DID is not accepted: ${reason}`) })
}

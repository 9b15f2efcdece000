import { DidAuthError } from '../errors.js'
import type { Clock, Deadline, DidResolver } from '../ports.js'
import { fieldOf, isObject } from '../protocol/json.js'

const RESOLUTION_SECONDS = 3
const CACHE_SECONDS = 60
const MAX_CACHED = 1_000
/** Questions under way at once. One sign up may name twenty issuers, and each question is several calls to a node. */
const MAX_UNDER_WAY = 50

/** Says which keys may sign credentials of an issuer. */
export interface IssuerKeys {
  /**
   * The verification methods that the issuer's DID document lists for assertions, as the document gives them; none for
   * a DID that is deactivated.
   *
   * @throws DidAuthError ERR_RESOLVER when there is no answer to be had, ERR_CREDENTIAL_ISSUER when there is no such
   * DID, ERR_BUSY when too many others are being asked for
   */
  keysOf(did: string): Promise<Record<string, unknown>[]>
}

/** A resolver that may have code to load before its first question. */
export interface LoadableDidResolver extends DidResolver {
  /** Loads code, not data: a machine that starts up slowly is no network out of reach, so no deadline counts it. */
  load?(): Promise<unknown>
}

/** Answers that say of a DID itself that it has no keys; any other error says that the network is out of reach. */
const HOPELESS: ReadonlySet<unknown> = new Set([
  'invalidDid',
  'unsupportedDidMethod',
  'methodNotSupported',
  'unknownNetwork',
  'representationNotSupported'
])

/**
 * Issuers' keys through a resolver, with a deadline of 3 s, and good answers kept for 60 s: an issuer that revokes a key
 * is believed up to a minute late. At most 50 questions are under way at once.
 */
export function cachedIssuerKeys(
  parts: { clock: Clock; deadline: Deadline },
  resolver: LoadableDidResolver
): IssuerKeys {
  const cache = new Map<string, { keys: Promise<Record<string, unknown>[]>; untilSeconds: number }>()
  let underWay = 0

  const ask = async (did: string): Promise<Record<string, unknown>[]> => {
    const expired = (): Error => new Error(`no answer within ${String(RESOLUTION_SECONDS)} s`)
    if (underWay >= MAX_UNDER_WAY) throw new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
    let answer: unknown
    underWay += 1
    try {
      await resolver.load?.()
      answer = await parts.deadline.within(RESOLUTION_SECONDS, () => resolver.resolve(did), expired)
    } catch (cause) {
      throw new DidAuthError('ERR_RESOLVER', { cause })
    } finally {
      underWay -= 1
    }
    return parseResolution(did, answer)
  }

  return {
    keysOf(issuer) {
      const did = resolvableDid(issuer)
      const nowSeconds = parts.clock.nowSeconds()
      const known = cache.get(did)
      if (known !== undefined && nowSeconds < known.untilSeconds) return known.keys
      const keys = ask(did)
      cache.delete(did)
      for (const oldest of cache.keys()) {
        if (cache.size < MAX_CACHED) break
        cache.delete(oldest)
      }
      // Kept while under way, too: fifty sign ups at once are one question.
      cache.set(did, { keys, untilSeconds: nowSeconds + CACHE_SECONDS })
      keys.catch(() => {
        if (cache.get(did)?.keys === keys) cache.delete(did)
      })
      return keys
    }
  }
}

/** The same DID with addresses and chain ids in lower case: resolvers refuse EIP-1191 checksums, and each spelling is a question. */
function resolvableDid(did: string): string {
  return did.startsWith('did:ethr:') ? did.replace(/:0x[0-9a-f]+/gi, (part) => part.toLowerCase()) : did
}

/** Parses a DID resolution result. */
function parseResolution(did: string, result: unknown): Record<string, unknown>[] {
  const error = fieldOf(fieldOf(result, 'didResolutionMetadata'), 'error')
  const document = fieldOf(result, 'didDocument')
  if (error !== undefined || !isObject(document)) {
    // Every did:ethr exists, so that its "not found" is a node that did not answer.
    const isHopeless = HOPELESS.has(error) || (error === 'notFound' && !did.startsWith('did:ethr:'))
    const reason = typeof error === 'string' ? error : 'no DID document'
    const cause = new Error(`resolution of an issuer failed: ${reason}`)
    throw new DidAuthError(isHopeless ? 'ERR_CREDENTIAL_ISSUER' : 'ERR_RESOLVER', { cause })
  }
  if (fieldOf(fieldOf(result, 'didDocumentMetadata'), 'deactivated') === true) return []
  const listed = objectsOf(fieldOf(document, 'verificationMethod'))
  const entries: unknown = fieldOf(document, 'assertionMethod')
  return objectsOf(
    (Array.isArray(entries) ? entries : []).map((entry: unknown) =>
      typeof entry === 'string' ? listed.find((method) => isSameId(did, method.id, entry)) : entry
    )
  )
}

function objectsOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** A document may name its keys by fragment alone. */
function isSameId(did: string, id: unknown, reference: string): boolean {
  const absolute = (text: string): string => (text.startsWith('#') ? `${did}${text}` : text)
  return typeof id === 'string' && absolute(id) === absolute(reference)
}

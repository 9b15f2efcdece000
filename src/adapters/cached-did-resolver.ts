import { DidAuthError } from '../errors.js'
import type { Clock, Deadline, DidResolver } from '../ports.js'
import { fieldOf } from '../protocol/json.js'

const RESOLUTION_SECONDS = 3
const CACHE_SECONDS = 60
const MAX_CACHED = 1_000

/** A DID document as far as signatures need it. */
export interface AssertionKeys {
  /** Verification methods that may sign credentials, as the document gives them. */
  methods: Record<string, unknown>[]
}

/** Says which keys may sign credentials of an issuer. */
export interface IssuerKeys {
  /** @throws DidAuthError ERR_RESOLVER when the answer is not to be had, ERR_CREDENTIAL_ISSUER when there is none */
  keysOf(did: string): Promise<AssertionKeys>
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
 * is believed up to a minute late.
 */
export function cachedIssuerKeys(parts: { clock: Clock; deadline: Deadline }, resolver: DidResolver): IssuerKeys {
  const cache = new Map<string, { keys: Promise<AssertionKeys>; untilSeconds: number }>()

  const ask = async (did: string): Promise<AssertionKeys> => {
    const expired = (): Error => new Error(`no answer within ${String(RESOLUTION_SECONDS)} s`)
    let answer: unknown
    try {
      answer = await parts.deadline.within(RESOLUTION_SECONDS, () => resolver.resolve(did), expired)
    } catch (cause) {
      throw new DidAuthError('ERR_RESOLVER', { cause })
    }
    return parseResolution(did, answer)
  }

  return {
    keysOf(did) {
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

/** Parses a DID resolution result. */
function parseResolution(did: string, result: unknown): AssertionKeys {
  const error = fieldOf(fieldOf(result, 'didResolutionMetadata'), 'error')
  const document = fieldOf(result, 'didDocument')
  if (error !== undefined || document === undefined || document === null) {
    // Every did:ethr exists, so that its "not found" is a node that did not answer.
    const isHopeless = HOPELESS.has(error) || (error === 'notFound' && !did.startsWith('did:ethr:'))
    const cause = new Error(`resolution of an issuer failed: ${String(error)}`)
    throw new DidAuthError(isHopeless ? 'ERR_CREDENTIAL_ISSUER' : 'ERR_RESOLVER', { cause })
  }
  if (fieldOf(fieldOf(result, 'didDocumentMetadata'), 'deactivated') === true) return { methods: [] }
  const listed = arrayOf(fieldOf(document, 'verificationMethod'))
  const methods = arrayOf(fieldOf(document, 'assertionMethod')).map((entry) =>
    typeof entry === 'string'
      ? listed.find((method) => absoluteId(did, fieldOf(method, 'id')) === absoluteId(did, entry))
      : entry
  )
  return {
    methods: methods.filter((method) => typeof method === 'object' && method !== null) as Record<string, unknown>[]
  }
}

function arrayOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

/** A document may name its keys by fragment alone. */
function absoluteId(did: string, id: unknown): string {
  const text = String(id)
  return text.startsWith('#') ? `${did}${text}` : text
}

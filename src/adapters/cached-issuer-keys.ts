import { DidAuthError, type DidAuthErrorCode, type RefusalReason } from '../errors.js'
import type { Client, Clock, Curve, DidControllers, DidResolver } from '../ports.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { decodeHex } from '../protocol/encoding.js'
import { within } from '../time.js'
import { limitMilliseconds } from '../time-limits.js'
import { isSecp256k1Key, KEYLESS, parseResolution } from './did-document.js'
import type { IssuerKey, KeyPurpose, ListedKey } from './did-document.js'
import { ExpiringCache } from '../caches.js'
import { limitInFlightRequests } from './in-flight-requests.js'

const ANSWERS = { lifetimeSeconds: 60, maxEntries: 1_000 }
/** A failure is cached more briefly, so that an unavailable resolver is called at most every 10 s per DID. */
const FAILURES = { lifetimeSeconds: 10, maxEntries: 1_000 }
/** Maximum total length of the cached documents' JSON. */
const MAX_CACHED_BYTES = 3 * 1024 * 1024
/** Limits of resolutions in flight: each takes several calls to a node, and a client network may use many DIDs. */
const IN_FLIGHT = { max: 50, maxPerNetwork: 2 }
const MAX_REASON_LENGTH = 200
/** Length of a compressed key, in hexadecimal digits. */
const COMPRESSED_LENGTH = 66

/** A failed resolution. */
type Failure = { code: DidAuthErrorCode; reason: RefusalReason | undefined; message: string }

/** Source of the keys that DID documents list for one purpose. */
export interface IssuerKeys {
  /** Returns the keys of a DID, at least one. @throws DidAuthError ERR_RESOLVER, ERR_CREDENTIAL_ISSUER, ERR_BUSY */
  keysOf(did: string, client: Client): Promise<readonly ListedKey[]>
}

/** A resolver that may load code before its first resolution. */
export interface LoadableDidResolver extends DidResolver {
  /** Loads the code. The time limit excludes it, because a slow start does not mean that the network is unavailable. */
  load?(): Promise<unknown>
}

/**
 * Creates a cache of the keys in DID documents. A resolution may take 3 s. Its keys are cached for 60 s, so that a
 * revoked key stays valid for up to a minute; a failure is cached for 10 s.
 */
export function createIssuerKeyCache(clock: Clock, resolver: LoadableDidResolver, purpose: KeyPurpose): IssuerKeys {
  const answers = new ExpiringCache<readonly ListedKey[]>({ ...ANSWERS, maxWeight: MAX_CACHED_BYTES })
  /** Facts about cached failures, without the objects that their errors refer to. */
  const failures = new ExpiringCache<Failure>(FAILURES)
  const share = limitInFlightRequests<readonly ListedKey[]>(IN_FLIGHT)

  const resolve = async (did: string): Promise<unknown> => {
    const stop = new AbortController()
    const expired = (): Error => {
      const error = new Error(`the resolver did not answer within ${String(limitMilliseconds.resolution / 1000)} s`)
      stop.abort(error)
      return error
    }
    try {
      await resolver.load?.()
      return await within(limitMilliseconds.resolution, resolver.resolve(did, { signal: stop.signal }), expired)
    } catch (cause) {
      throw new DidAuthError('ERR_RESOLVER', { cause })
    }
  }

  const fetchKeys = async (did: string): Promise<readonly ListedKey[]> => {
    try {
      const { keys, bytes } = parseResolution(did, await resolve(did), purpose)
      answers.set(did, keys, clock.nowSeconds(), bytes)
      return keys
    } catch (error) {
      if (!(error instanceof DidAuthError)) throw error
      const { code, cause, reason } = error
      const message = cause instanceof Error ? cause.message : 'no reason given'
      failures.set(did, { code, reason, message: message.slice(0, MAX_REASON_LENGTH) }, clock.nowSeconds())
      throw new DidAuthError(code, { cause, ...(reason && { reason }), retryAfterSeconds: FAILURES.lifetimeSeconds })
    }
  }

  return {
    async keysOf(issuer, client) {
      // Use lower case, because resolvers refuse EIP-1191 checksums, and all spellings of a DID share a resolution.
      const isEthr = issuer.startsWith('did:ethr:')
      const did = isEthr ? issuer.replace(/:0x[0-9a-f]+/gi, (part) => part.toLowerCase()) : issuer
      const nowSeconds = clock.nowSeconds()
      const cachedKeys = answers.get(did, nowSeconds)
      if (cachedKeys !== undefined) return cachedKeys.value
      const failure = failures.get(did, nowSeconds)
      if (failure === undefined) return share(did, client, () => fetchKeys(did))
      const { code, reason, message } = failure.value
      const cause = new Error(`cached failure, for ${String(failure.secondsLeft)} s more: ${message}`)
      throw new DidAuthError(code, { cause, ...(reason && { reason }), retryAfterSeconds: failure.secondsLeft })
    }
  }
}

/** Creates the source of controllers in DID documents, with the limits of {@link createIssuerKeyCache}. */
export function createDocumentControllers(clock: Clock, curve: Curve, resolver: LoadableDidResolver): DidControllers {
  const documents = createIssuerKeyCache(clock, resolver, 'authentication')
  return {
    async of(did, client) {
      try {
        const keys = await documents.keysOf(did, client)
        return new Set(keys.flatMap((key) => findAddress(curve, key) ?? []))
      } catch (error) {
        if (!(error instanceof DidAuthError) || error.code !== 'ERR_CREDENTIAL_ISSUER') throw error
        if (error.reason === KEYLESS) return new Set()
        const expected = 'a DID whose document can be read'
        const reason = { check: 'document', expected, option: 'didControl' }
        throw new DidAuthError('ERR_DID_UNSUPPORTED', { cause: error.cause, reason })
      }
    }
  }
}

function findAddress(curve: Curve, key: IssuerKey): string | undefined {
  if (key.kind === 'address') return `0x${key.hex}`
  if (!isSecp256k1Key(key)) return undefined
  const bytes = decodeHex(key.hex)
  const publicKey = key.hex.length === COMPRESSED_LENGTH ? curve.decompress(bytes) : bytes
  return publicKey && addressOfPublicKey(curve, publicKey)
}

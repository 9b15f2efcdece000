import { DidAuthError, type DidAuthErrorCode, type RefusalReason } from '../errors.js'
import type { Client, Clock, Curve, DidControllers, DidResolver } from '../ports.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { decodeHex } from '../protocol/encoding.js'
import { within } from '../time.js'
import { isSecp256k1Key, KEYLESS, parseResolution } from './did-document.js'
import type { IssuerKey, KeyPurpose, ListedKey } from './did-document.js'
import { ExpiringCache } from '../caches.js'
import { limitInFlightRequests } from './in-flight-requests.js'

const RESOLUTION_SECONDS = 3
const ANSWERS = { lifetimeSeconds: 60, maxEntries: 1_000 }
const FAILURES = { lifetimeSeconds: 10, maxEntries: 1_000 }
/** Maximum length of the JSON of all documents whose keys are cached. */
const MAX_CACHED_BYTES = 3 * 1024 * 1024
/** A resolution is several calls to a node, and a client network can prove control of any number of DIDs. */
const IN_FLIGHT = { max: 50, maxPerNetwork: 2 }
const MAX_REASON_LENGTH = 200
/** Bytes of a compressed key, in hexadecimal digits. */
const COMPRESSED_LENGTH = 66

/** A failed resolution. */
type Failure = { code: DidAuthErrorCode; reason: RefusalReason | undefined; message: string }

/** The keys that DID documents list for one purpose. */
export interface IssuerKeys {
  /** Returns at least one key. @throws DidAuthError ERR_RESOLVER, ERR_CREDENTIAL_ISSUER, ERR_BUSY */
  keysOf(did: string, client: Client): Promise<readonly ListedKey[]>
}

/** A resolver that may have code to load before its first resolution. */
export interface LoadableDidResolver extends DidResolver {
  /** Loads code, not data: the deadline does not include it, because a slow start is not an unavailable network. */
  load?(): Promise<unknown>
}

/**
 * Keys through a resolver, within 3 s. Answers are cached for 60 s, so that a revoked key is believed up to a minute
 * longer; failures for 10 s, so that not every sign up asks a resolver that is unavailable.
 */
export function createIssuerKeyCache(clock: Clock, resolver: LoadableDidResolver, purpose: KeyPurpose): IssuerKeys {
  const answers = new ExpiringCache<readonly ListedKey[]>({ ...ANSWERS, maxWeight: MAX_CACHED_BYTES })
  /** Errors that are thrown again, without the objects that they came with. */
  const failures = new ExpiringCache<Failure>(FAILURES)
  const share = limitInFlightRequests<readonly ListedKey[]>(IN_FLIGHT)

  const resolve = async (did: string): Promise<unknown> => {
    const stop = new AbortController()
    const expired = (): Error => {
      const error = new Error(`no answer within ${String(RESOLUTION_SECONDS)} s`)
      stop.abort(error)
      return error
    }
    try {
      await resolver.load?.()
      return await within(RESOLUTION_SECONDS * 1000, resolver.resolve(did, { signal: stop.signal }), expired)
    } catch (cause) {
      throw new DidAuthError('ERR_RESOLVER', { cause })
    }
  }

  const ask = async (did: string): Promise<readonly ListedKey[]> => {
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
      // Resolvers refuse EIP-1191 checksums, and the spellings of a DID share a resolution.
      const isEthr = issuer.startsWith('did:ethr:')
      const did = isEthr ? issuer.replace(/:0x[0-9a-f]+/gi, (part) => part.toLowerCase()) : issuer
      const nowSeconds = clock.nowSeconds()
      const known = answers.get(did, nowSeconds)
      if (known !== undefined) return known.value
      const failed = failures.get(did, nowSeconds)
      if (failed === undefined) return share(did, client, () => ask(did))
      const { code, reason, message } = failed.value
      const cause = new Error(`remembered for ${String(failed.secondsLeft)} s more: ${message}`)
      throw new DidAuthError(code, { cause, ...(reason && { reason }), retryAfterSeconds: failed.secondsLeft })
    }
  }
}

/** Controllers by the DID document, with the bounds of {@link createIssuerKeyCache}: 3 s, cached for 60 s. */
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

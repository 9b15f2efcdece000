import { DidAuthError } from '../errors.js'
import type { Client, Clock, DidResolver } from '../ports.js'
import { within } from '../time.js'
import { parseResolution, type ListedKey } from './did-resolution.js'
import { ExpiringCache } from './caches.js'
import { InFlightRequests } from './in-flight-requests.js'

const RESOLUTION_SECONDS = 3
const ANSWERS_SECONDS = 60
const FAILURES_SECONDS = 10
const MAX_CACHED = 1_000
/** The JSON of all cached documents together. In memory it takes several times that. */
const MAX_CACHED_BYTES = 3 * 1024 * 1024
/** A resolution is several calls to a node, and a client network can prove control of any number of DIDs. */
const IN_FLIGHT = { max: 50, maxPerNetwork: 2 }
const MAX_REASON_LENGTH = 200

/** The keys that an issuer's DID document lists for assertions. */
export interface IssuerKeys {
  /** At least one of the keys can be parsed. @throws DidAuthError ERR_RESOLVER, ERR_CREDENTIAL_ISSUER, ERR_BUSY */
  keysOf(did: string, client: Client): Promise<readonly ListedKey[]>
}

/** A resolver that may have code to load before its first resolution. */
export interface LoadableDidResolver extends DidResolver {
  /** Loads code, not data: the deadline does not include it, because a slow start is not an unavailable network. */
  load?(): Promise<unknown>
}

/** Why an issuer has no keys, without the objects that the first failure came with. */
interface Failure {
  code: 'ERR_RESOLVER' | 'ERR_CREDENTIAL_ISSUER'
  reason: string
}

/**
 * Issuers' keys through a resolver, with a deadline of 3 s. Answers are kept for 60 s, so that an issuer that revokes a
 * key is believed up to a minute late; failures for 10 s, so that a resolver that is unavailable is not asked by every
 * sign up. At most 50 resolutions are in flight, two of them for one client network.
 */
export function cachedIssuerKeys(clock: Clock, resolver: LoadableDidResolver): IssuerKeys {
  const answers = new ExpiringCache<readonly ListedKey[]>({
    lifetimeSeconds: ANSWERS_SECONDS,
    maxEntries: MAX_CACHED,
    maxWeight: MAX_CACHED_BYTES
  })
  const failures = new ExpiringCache<Failure>({ lifetimeSeconds: FAILURES_SECONDS, maxEntries: MAX_CACHED })
  const requests = new InFlightRequests<readonly ListedKey[]>(IN_FLIGHT)

  const resolve = async (did: string, abandoned: AbortSignal): Promise<unknown> => {
    const timeout = new AbortController()
    const signal = AbortSignal.any([abandoned, timeout.signal])
    const expired = (): Error => {
      const error = new Error(`no answer within ${String(RESOLUTION_SECONDS)} s`)
      timeout.abort(error)
      return error
    }
    try {
      await resolver.load?.()
      return await within(RESOLUTION_SECONDS * 1000, resolver.resolve(did, { signal }), expired)
    } catch (cause) {
      throw new DidAuthError('ERR_RESOLVER', { cause })
    }
  }

  const ask = async (did: string, abandoned: AbortSignal): Promise<readonly ListedKey[]> => {
    try {
      const { keys, bytes } = parseResolution(did, await resolve(did, abandoned))
      answers.set(did, keys, clock.nowSeconds(), bytes)
      return keys
    } catch (error) {
      const failure = failureOf(error)
      // An aborted resolution says nothing about the issuer: a client that disconnects must not make it unavailable.
      if (failure !== undefined && !abandoned.aborted) failures.set(did, failure, clock.nowSeconds())
      if (failure?.code !== 'ERR_RESOLVER') throw error
      const cause = error instanceof Error ? error.cause : error
      throw new DidAuthError('ERR_RESOLVER', { cause, retryAfterSeconds: FAILURES_SECONDS })
    }
  }

  return {
    async keysOf(issuer, client) {
      const did = resolvableDid(issuer)
      const nowSeconds = clock.nowSeconds()
      const known = answers.get(did, nowSeconds)
      if (known !== undefined) return known.value
      const failed = failures.get(did, nowSeconds)
      if (failed === undefined) return requests.share(did, client, (abandoned) => ask(did, abandoned))
      const { value, secondsLeft } = failed
      const cause = new Error(`remembered for ${String(secondsLeft)} s more: ${value.reason}`)
      const retry = value.code === 'ERR_RESOLVER' ? { retryAfterSeconds: secondsLeft } : {}
      throw new DidAuthError(value.code, { cause, ...retry })
    }
  }
}

/** The DID with addresses and chain ids in lower case: resolvers refuse EIP-1191 checksums, and spellings share a resolution. */
function resolvableDid(did: string): string {
  return did.startsWith('did:ethr:') ? did.replace(/:0x[0-9a-f]+/gi, (part) => part.toLowerCase()) : did
}

function failureOf(error: unknown): Failure | undefined {
  if (!(error instanceof DidAuthError)) return undefined
  const { code, cause } = error
  if (code !== 'ERR_RESOLVER' && code !== 'ERR_CREDENTIAL_ISSUER') return undefined
  return { code, reason: (cause instanceof Error ? cause.message : 'no reason given').slice(0, MAX_REASON_LENGTH) }
}

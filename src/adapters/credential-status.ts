import { ExpiringCache } from '../caches.js'
import { DidAuthError } from '../errors.js'
import { createSingleFlight } from '../lazy.js'
import type { Clock, CredentialClient, CredentialStatus } from '../ports.js'
import { isLoopbackHost, isSecureUrl, parseUrl } from '../protocol/parse-url.js'
import {
  assertBits,
  assertStatus,
  MAX_BITS_BYTES,
  MAX_CACHE_SECONDS,
  MAX_LIST_BYTES,
  parseStatusEntries,
  parseStatusList,
  type StatusEntry,
  type StatusList
} from '../protocol/status-list.js'
import type { IsSignedByIssuer } from './credential-verifier.js'
import { fetchBounded } from './fetch-bounded.js'
import { readBounded } from './read-bounded.js'

const MAX_CACHED_LISTS = 16
const FETCH_LIMITS = { milliseconds: 3_000, maxBytes: MAX_LIST_BYTES }
/** Time limit for all lists of a sign up. The deadline of the request also ends it. */
const STATUS_SECONDS = 10
const HEADERS = { Accept: 'application/vc+jwt, application/jwt, */*;q=0.5' }

export interface CredentialStatusParts {
  clock: Clock
  isSigned: IsSignedByIssuer
  serviceUrl: string
}

/**
 * Creates the check of `credentialStatus`. Lists come from the network, one after the other, and are cached. Requests
 * that need the same list share one fetch. Before a fetch, the client is charged as for a tried key.
 */
export function createCredentialStatus({ clock, isSigned, serviceUrl }: CredentialStatusParts): CredentialStatus {
  const cache = new ExpiringCache<StatusList & { freshUntilSeconds: number }>({
    lifetimeSeconds: MAX_CACHE_SECONDS,
    maxEntries: MAX_CACHED_LISTS
  })
  const share = createSingleFlight<StatusList>()
  const isLocal = isLoopbackHost(parseUrl(serviceUrl)?.hostname ?? '')
  const isAllowedUrl = (url: unknown): url is string => isSecureUrl(url) && (isLocal || /^https:/i.test(url))

  const fetchList = async (key: string, entry: StatusEntry, network: string): Promise<StatusList> => {
    try {
      const { status, text } = await fetchBounded(entry.url, { headers: HEADERS }, FETCH_LIMITS)
      if (status !== 200) throw new Error(`status ${String(status)}`)
      const { parsed, gzip, ...list } = parseStatusList(text.trim(), entry, clock.nowSeconds())
      // Other requests share this call, so that it belongs to no client, which may have disconnected.
      const client = { network, isGone: () => false, chargeKey: async () => undefined }
      if (!(await isSigned(entry.issuer, parsed, client))) throw new Error('no key of the issuer signed it')
      const bits = await inflate(gzip)
      assertBits(bits)
      const nowSeconds = clock.nowSeconds()
      const loaded = { ...list, bits, freshUntilSeconds: nowSeconds + list.cacheSeconds }
      cache.set(key, loaded, nowSeconds)
      return loaded
    } catch (error) {
      // The text of a refused credential does not tell which check refused it.
      const reason = error instanceof DidAuthError && error.reason
      const detail = reason ? `${reason.check} is not ${String(reason.expected)}` : 'no valid answer'
      const cause = new Error(`status list ${entry.url}: ${detail}`, { cause: error })
      throw new DidAuthError('ERR_CREDENTIAL_STATUS', { cause })
    }
  }

  const loadList = async (entry: StatusEntry, client: CredentialClient): Promise<StatusList> => {
    const key = [entry.type, entry.issuer, entry.url].join(' ')
    const nowSeconds = clock.nowSeconds()
    const cached = cache.get(key, nowSeconds)?.value
    if (cached !== undefined && nowSeconds < cached.freshUntilSeconds) return cached
    await client.chargeKey()
    return share(() => fetchList(key, entry, client.network), key)
  }

  return {
    async assertActive(credentials, client, deadline) {
      const late = (): Error => new DidAuthError('ERR_CREDENTIAL_STATUS')
      for (const entry of parseStatusEntries(credentials, isAllowedUrl)) {
        // The deadline is checked before each list, so that no fetch starts after it.
        assertStatus(await deadline.within(STATUS_SECONDS, () => loadList(entry, client), late), entry)
      }
    }
  }
}

/** Decompresses gzip, and stops when the result is too long. */
function inflate(gzip: Uint8Array): Promise<Uint8Array> {
  const tooLong = (): Error => new RangeError(`the status list has more than ${String(MAX_BITS_BYTES)} bytes`)
  return readBounded(new Blob([gzip]).stream().pipeThrough(new DecompressionStream('gzip')), MAX_BITS_BYTES, tooLong)
}

import { ExpiringCache } from '../caches.js'
import { DidAuthError } from '../errors.js'
import { createSingleFlight } from '../lazy.js'
import type { AssertCredentials, Clock, CredentialClient } from '../ports.js'
import { isLoopbackHost, isSecureUrl, parseUrl } from '../protocol/parse-url.js'
import {
  assertStatus,
  createJsonListError,
  isJsonList,
  LIST_LIMITS,
  parseStatusEntries,
  parseStatusList
} from '../protocol/status-list.js'
import type { StatusEntry, StatusList } from '../protocol/status-list.js'
import type { IsSignedByIssuer } from './credential-verifier.js'
import { limitMilliseconds, REQUEST_SECONDS } from '../time-limits.js'
import { fetchBounded } from './fetch-bounded.js'
import { readBounded } from './read-bounded.js'

const MAX_CACHED_LISTS = 16
const FETCH_LIMITS = { milliseconds: limitMilliseconds.listFetch, maxBytes: LIST_LIMITS.maxJwtBytes }
const HEADERS = { Accept: 'application/vc+jwt, application/jwt, */*;q=0.5' }

type CachedList = StatusList & { freshUntilSeconds: number }

/**
 * Creates the check of `credentialStatus`. Lists come from the network, one after the other, and are cached. Requests
 * that need the same list share one fetch. Before a fetch, the client is charged as for a tried key.
 */
export function createCredentialStatus(
  clock: Clock,
  isSigned: IsSignedByIssuer,
  serviceUrl: string
): AssertCredentials {
  const lifetimeSeconds = LIST_LIMITS.maxCacheSeconds
  const cache = new ExpiringCache<CachedList>({ lifetimeSeconds, maxEntries: MAX_CACHED_LISTS })
  const share = createSingleFlight<CachedList | undefined>()
  const isLocal = isLoopbackHost(parseUrl(serviceUrl)?.hostname ?? '')
  const isAllowedUrl = (url: unknown): url is string => isSecureUrl(url) && (isLocal || /^https:/i.test(url))

  /** Fetches a list. Returns undefined if it is in JSON, which is not supported. */
  const fetchList = async (entry: StatusEntry, network: string): Promise<CachedList | undefined> => {
    const { status, text } = await fetchBounded(entry.url, { headers: HEADERS }, FETCH_LIMITS)
    if (status !== 200) throw new Error(`the answer has status ${String(status)}`)
    if (isJsonList(text.trim())) return undefined
    const { parsed, gzip, purposes, cacheSeconds } = parseStatusList(text.trim(), entry, clock.nowSeconds())
    // Other requests share this call, so that it belongs to no client, which may have disconnected.
    const client = { network, isGone: () => false, chargeKey: async () => undefined }
    if (!(await isSigned(entry.issuer, parsed, client))) throw new Error('no key of the issuer signed it')
    return { purposes, bits: await inflate(gzip), freshUntilSeconds: clock.nowSeconds() + cacheSeconds }
  }

  const loadList = async (entry: StatusEntry, client: CredentialClient): Promise<CachedList> => {
    const key = createListKey(entry)
    const nowSeconds = clock.nowSeconds()
    const cached = cache.get(key, nowSeconds)?.value
    if (cached !== undefined && nowSeconds < cached.freshUntilSeconds) return cached
    await client.chargeKey()
    const list = await share(() => fetchList(entry, client.network), key).catch((error: unknown) => {
      // The text of a refused credential does not tell which check refused it.
      const reason = error instanceof DidAuthError && error.reason
      const detail = reason ? `${reason.check} is not ${String(reason.expected)}` : 'no valid answer'
      const cause = new Error(`status list ${entry.url}: ${detail}`, { cause: error })
      throw new DidAuthError('ERR_CREDENTIAL_STATUS', { cause })
    })
    if (list === undefined) throw createJsonListError()
    cache.set(key, list, clock.nowSeconds())
    return list
  }

  return async (credentials, client, deadline) => {
    const late = (): Error => new DidAuthError('ERR_CREDENTIAL_STATUS')
    const loadedLists = new Map<string, Promise<CachedList>>()
    for (const entry of parseStatusEntries(credentials, isAllowedUrl)) {
      const key = createListKey(entry)
      const load = (): Promise<CachedList> => {
        const list = loadedLists.get(key) ?? loadList(entry, client)
        loadedLists.set(key, list)
        return list
      }
      // The deadline is checked before each list, so that no fetch starts after it.
      assertStatus(await deadline.within(REQUEST_SECONDS, load, late), entry)
    }
  }
}

function createListKey({ type, issuer, url }: StatusEntry): string {
  return [type, issuer, url].join(' ')
}

/** Decompresses gzip, and stops when the result is too long. */
async function inflate(gzip: Uint8Array): Promise<Uint8Array> {
  const tooLong = (): Error => new RangeError('more than 4 MiB of bits')
  const stream = new Blob([gzip]).stream().pipeThrough(new DecompressionStream('gzip'))
  const bits = await readBounded(stream, LIST_LIMITS.maxBytes, tooLong)
  if (bits.length < LIST_LIMITS.minBytes) throw new RangeError('fewer than 131,072 bits')
  return bits
}

/** A token is replaced this many seconds before it expires. */
const RESERVE_SECONDS = 30

/** A token for a resource, or its request in flight. */
export interface CachedToken {
  /** Session or machine of the token. */
  readonly owner: string
  readonly token: Promise<string>
  /** The token, once it has arrived. */
  value?: string
  /** Time until which the token is used, in seconds of a monotonic clock. */
  validUntil: number
}

/** A token, and its lifetime in seconds from now. */
export type TokenAnswer = readonly [token: string, seconds: number]

/**
 * Returns a token for a resource: the cached one, or a new one shortly before that expires. Concurrent calls share one
 * request.
 *
 * @param owner - session or machine; the token of another one is replaced
 * @param refused - a token that the resource refused, to be replaced
 */
export function reuseToken(
  cache: Map<string, CachedToken>,
  owner: string,
  resource: string,
  refused: string | undefined,
  nowSeconds: () => number,
  request: () => Promise<TokenAnswer>
): Promise<string> {
  const cached = cache.get(resource)
  const isUsable = cached?.owner === owner && cached.value !== (refused ?? '')
  if (cached && isUsable && cached.validUntil > nowSeconds()) return cached.token
  const entry: CachedToken = {
    owner,
    validUntil: Infinity,
    token: request().then(([token, seconds]) => {
      entry.validUntil = nowSeconds() + seconds - RESERVE_SECONDS
      return (entry.value = token)
    })
  }
  cache.set(resource, entry)
  // A failed request expires at once, so that the next call sends another.
  entry.token.catch(() => (entry.validUntil = 0))
  return entry.token
}

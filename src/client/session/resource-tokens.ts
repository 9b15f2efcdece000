import { NOT_SIGNED_IN } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields } from '../wire/json.js'
import type { Setting } from './options.js'
import { ask, readRequiredText } from '../wire/request.js'
import { decodeJwt } from '../wire/jwt.js'

/** A token is replaced this many seconds before it expires. */
const RESERVE_SECONDS = 30

/** A resource token, or its request in flight. */
export interface CachedToken {
  readonly sessionId: string
  readonly token: Promise<string>
  /** The token, once it has arrived. */
  value?: string
  /** Time until which the token is used, in seconds of the monotonic clock. */
  validUntil: number
}

/**
 * Returns the session's token for a resource: the cached one, or a new one shortly before that expires. Concurrent
 * calls share one request.
 *
 * @param service - sends its requests with the session
 * @param refused - a token that the resource refused, to be replaced
 */
export function createTokenCache(
  service: Setting,
  cache: Map<string, CachedToken>,
  sessionId: string,
  resource: string,
  refused: string | undefined
): Promise<string> {
  const cached = cache.get(resource)
  const isUsable = cached?.sessionId === sessionId && cached.value !== (refused ?? '')
  if (cached && isUsable && cached.validUntil > service.nowSeconds()) return cached.token
  const entry: CachedToken = {
    sessionId,
    validUntil: Infinity,
    token: ask(service, { path: service.paths.resourceToken ?? '/resource-token', body: { resource } }).then(
      (answer) => {
        const accessToken = readRequiredText(answer, 'accessToken')
        // Another user may have logged in, whose cookies the request then had.
        if (decodeJwt(accessToken).sid !== sessionId) throw new DidAuthClientError(NOT_SIGNED_IN)
        entry.validUntil = service.nowSeconds() + Number(parseFields(answer.json).expiresIn) - RESERVE_SECONDS
        return (entry.value = accessToken)
      }
    )
  }
  cache.set(resource, entry)
  // A failed request expires at once, so that the next call sends another.
  entry.token.catch(() => (entry.validUntil = 0))
  return entry.token
}

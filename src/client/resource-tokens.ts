import { NOT_SIGNED_IN } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { parseFields } from './json.js'
import type { Setting } from './options.js'
import { ask, readRequiredText } from './request.js'
import { decodeJwt } from './session-keeper.js'

/** A token is replaced so many seconds before its end. */
const RESERVE_SECONDS = 30

/** `value` and `goodUntil` (by the monotonic clock) are known once the token has arrived. */
export interface KeptToken {
  readonly sessionId: string | undefined
  readonly token: Promise<string>
  value?: string
  goodUntil: number
}

/**
 * A token of the session for a resource: the cached one until shortly before it expires, else one shared request.
 *
 * @param service - sends with the session
 * @param refused - a token that the resource refused, and is replaced
 */
export function createTokenCache(
  service: Setting,
  kept: Map<string, KeptToken>,
  sessionId: string | undefined,
  resource: string,
  refused: string | undefined
): Promise<string> {
  const known = kept.get(resource)
  const isGood = known?.sessionId === sessionId && known?.value !== (refused ?? '')
  if (known && isGood && known.goodUntil > service.nowSeconds()) return known.token
  const entry: KeptToken = {
    sessionId,
    goodUntil: Infinity,
    token: ask(service, { path: service.paths.resourceToken ?? '/resource-token', body: { resource } }).then(
      (answer) => {
        const accessToken = readRequiredText(answer, 'accessToken')
        // The cookies may be those of another user by now.
        if (decodeJwt(accessToken).sid !== sessionId) throw new DidAuthClientError(NOT_SIGNED_IN)
        entry.goodUntil = service.nowSeconds() + Number(parseFields(answer.json).expiresIn) - RESERVE_SECONDS
        return (entry.value = accessToken)
      }
    )
  }
  kept.set(resource, entry)
  // Forget the failed request, so that the next call asks again.
  entry.token.catch(() => (entry.goodUntil = 0))
  return entry.token
}

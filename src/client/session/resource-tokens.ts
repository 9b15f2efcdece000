import { reuseToken, type CachedToken } from '../wire/cached-token.js'
import { NOT_SIGNED_IN } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields } from '../wire/json.js'
import type { Setting } from './options.js'
import { ask, readRequiredText } from '../wire/request.js'
import { decodeJwt } from '../wire/jwt.js'

/**
 * Returns the session's token for a resource, see {@link reuseToken}.
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
  return reuseToken(cache, sessionId, resource, refused, service.nowSeconds, async () => {
    const answer = await ask(service, { path: service.paths.resourceToken ?? '/resource-token', body: { resource } })
    const accessToken = readRequiredText(answer, 'accessToken')
    // Another user may have logged in, whose cookies the request then had.
    if (decodeJwt(accessToken)?.sid !== sessionId) throw new DidAuthClientError(NOT_SIGNED_IN)
    return [accessToken, Number(parseFields(answer.json).expiresIn)]
  })
}

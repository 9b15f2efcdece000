import { DidAuthError } from '../errors.js'
import { authenticate } from '../flows/authenticate.js'
import { logOut, logOutByRefreshToken } from '../flows/manage-sessions.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { emptyAnswer } from './answers.js'
import { assertNotForged, type HttpParts } from './guard.js'
import { readRefreshToken } from './refresh.js'

const TOKEN_REFUSALS: ReadonlySet<string> = new Set([
  'ERR_ACCESS_TOKEN_MISSING',
  'ERR_ACCESS_TOKEN',
  'ERR_ACCESS_TOKEN_EXPIRED'
])

/** Answers `POST /logout`: ends the session of a valid access token, else that of the refresh token. */
export async function answerLogOut(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  try {
    // Only this service's tokens count: the session of a resource token is stored at the service that issued it.
    assertNotForged(http, request)
    const parts = await http.parts()
    const { claims } = await authenticate(parts, http.transport.readAccessToken(request))
    await logOut(parts, claims.sid, claims.sub)
  } catch (error) {
    if (!(error instanceof DidAuthError && TOKEN_REFUSALS.has(error.code))) throw error
    const refreshToken = await readRefreshToken(http, request)
    if (refreshToken === undefined) throw error
    await logOutByRefreshToken(await http.parts(), refreshToken)
  }
  return http.transport.clearTokens(emptyAnswer())
}

/** Answers a refused logout. It clears the cookies, except for a foreign page, which must not log a visitor out. */
export function answerLogOutError(http: HttpParts, request: HttpRequest, error: unknown): HttpAnswer {
  try {
    assertNotForged(http, request)
  } catch (forgery) {
    return http.answerError(request, forgery)
  }
  return http.transport.clearTokens(http.answerError(request, error))
}

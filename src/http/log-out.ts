import { DidAuthError } from '../errors.js'
import { authenticate } from '../flows/authenticate.js'
import { logOut, logOutByRefreshToken } from '../flows/manage-sessions.js'
import type { Parts } from '../flows/parts.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { emptyAnswer } from './answers.js'
import { assertNotForged, type HttpParts } from './guard.js'
import { readRefreshToken } from './refresh.js'

const TOKEN_REFUSALS: ReadonlySet<string> = new Set([
  'ERR_ACCESS_TOKEN_MISSING',
  'ERR_ACCESS_TOKEN',
  'ERR_ACCESS_TOKEN_EXPIRED',
  'ERR_REFRESH_TOKEN',
  'ERR_DUPLICATE_COOKIE'
])

/**
 * Answers `POST /logout`: ends the session of a valid access token, else that of the refresh token. If two cookies have
 * the same name, it ends the sessions of all, because the user cannot tell which one counts.
 */
export async function answerLogOut(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  // Only this service's tokens count: the session of a resource token is stored at the service that issued it.
  assertNotForged(http, request)
  const duplicates = http.transport.findDuplicates(request)
  if (duplicates !== undefined) {
    await logOutAll(await http.parts(), duplicates)
    return http.transport.clearStaleTokens(http.transport.clearTokens(emptyAnswer()), request)
  }
  try {
    await logOutByAccessToken(await http.parts(), http.transport.readAccessToken(request))
  } catch (error) {
    if (!isTokenRefusal(error)) throw error
    const refreshToken = await readRefreshToken(http, request)
    if (refreshToken === undefined) throw error
    await logOutByRefreshToken(await http.parts(), refreshToken)
  }
  return http.transport.clearTokens(emptyAnswer())
}

async function logOutByAccessToken(parts: Parts, accessToken: string | undefined): Promise<void> {
  const { claims } = await authenticate(parts, accessToken)
  await logOut(parts, claims.sid, claims.sub)
}

/** Ends the sessions of all valid tokens. */
async function logOutAll(
  parts: Parts,
  { accessTokens, refreshTokens }: { accessTokens: readonly string[]; refreshTokens: readonly string[] }
): Promise<void> {
  const ends = [
    ...accessTokens.map((token) => logOutByAccessToken(parts, token)),
    ...refreshTokens.map((token) => logOutByRefreshToken(parts, token))
  ]
  for (const end of await Promise.allSettled(ends)) {
    if (end.status === 'rejected' && !isTokenRefusal(end.reason)) throw end.reason
  }
}

/** Whether a token of a request was refused: there is no session to end. */
export function isTokenRefusal(error: unknown): boolean {
  return error instanceof DidAuthError && TOKEN_REFUSALS.has(error.code)
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

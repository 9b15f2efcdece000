import { refreshTokens } from '../flows/refresh-tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { readField } from '../protocol/json.js'
import type { HttpParts } from './guard.js'
import { MAX_BODY_BYTES, readBody, readIdempotencyKey } from './read-request.js'

/** Answers `POST /refresh-token` with new tokens. */
export async function answerRefresh(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const idempotencyKey = readIdempotencyKey(request)
  const refreshToken = await readRefreshToken(http, request)
  const client = http.callerOf(request)
  const { isRepeated, ...tokens } = await refreshTokens(await http.parts(), { refreshToken, idempotencyKey, client })
  return http.transport.answerTokens(tokens, isRepeated ? { 'Idempotent-Replayed': 'true' } : {})
}

/** Reads the refresh token of a request. The body is read only if no cookie has the token. */
export async function readRefreshToken({ transport }: HttpParts, request: HttpRequest): Promise<unknown> {
  return transport.readRefreshCookie(request) ?? readField(await readBody(request, MAX_BODY_BYTES), 'refreshToken')
}

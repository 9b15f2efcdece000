import { DidAuthError } from '../errors.js'
import type { BoundSession } from '../flows/device-binding.js'
import { refreshTokens } from '../flows/tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { readField } from '../protocol/json.js'
import { trace } from '../tracing.js'
import type { HttpParts } from './guard.js'
import { MAX_BODY_BYTES, readBody } from './read-request.js'
import { assertBound } from './session-binding.js'

const IDEMPOTENCY_KEY = /^("?)([A-Za-z0-9_-]{22,128})\1$/

/** Answers `POST /refresh-token` with new tokens. */
export async function answerRefresh(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const idempotencyKey = readIdempotencyKey(request)
  const refreshToken = await readRefreshToken(http, request)
  const client = http.callerOf(request)
  const parts = await http.parts()
  const presented = {
    ...{ refreshToken, idempotencyKey, client },
    assertBound: (session: BoundSession) => assertBound(parts, session, request, client)
  }
  const message = { serviceUrl: parts.settings.serviceUrl }
  const { isRepeated, ...tokens } = await trace('refresh', message, () => refreshTokens(parts, presented))
  return http.transport.answerTokens(parts, tokens, { headers: isRepeated ? { 'Idempotent-Replayed': 'true' } : {} })
}

/** Reads the refresh token of a request. The body is read only if no cookie has the token. */
export async function readRefreshToken({ transport }: HttpParts, request: HttpRequest): Promise<unknown> {
  return transport.readRefreshCookie(request) ?? readField(await readBody(request, MAX_BODY_BYTES), 'refreshToken')
}

/**
 * Reads the key of `Idempotency-Key`, without the quotes that may enclose it; undefined without the header.
 * @throws DidAuthError ERR_IDEMPOTENCY_KEY for anything but 22 to 128 characters of base64url, and for two such headers
 */
export function readIdempotencyKey({ headers }: Pick<HttpRequest, 'headers'>): string | undefined {
  // Node joins two headers of one name with a comma, which no key contains.
  const received = headers['idempotency-key']
  if (received === undefined) return undefined
  const key = typeof received === 'string' ? IDEMPOTENCY_KEY.exec(received)?.[2] : undefined
  if (key !== undefined) return key
  const reason = { check: 'Idempotency-Key', expected: '22 to 128 characters of base64url, once' }
  throw new DidAuthError('ERR_IDEMPOTENCY_KEY', { reason })
}

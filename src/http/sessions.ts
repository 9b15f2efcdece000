import { DidAuthError } from '../errors.js'
import { listOwnSessions, readOwnSession, revokeOwnSession } from '../flows/manage-sessions.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { emptyAnswer, jsonAnswer } from './answers.js'
import { passWithDid, type HttpParts } from './guard.js'

/** Format of a session's id. Anything else never reaches a store. */
const SESSION_ID = /^[\w-]{1,64}$/

/** Answers `GET /session` with the session of the request, or `{}`. Pages poll it: it never refuses or counts. */
export async function answerOwnSession(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const session = await readOwnSession(await http.parts(), {
    accessToken: () => http.transport.readAccessToken(request),
    refreshToken: () => http.transport.readRefreshCookie(request)
  })
  return jsonAnswer(session ?? {})
}

/** Answers `GET /sessions` with the active sessions of the user. */
export async function answerSessions(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const { parts, user } = await passWithDid(http, request)
  return jsonAnswer(await listOwnSessions(parts, user))
}

/** Answers `DELETE /sessions/:id`: revokes a session of the user. */
export async function answerRevokedSession(
  http: HttpParts,
  request: HttpRequest,
  sessionId: unknown
): Promise<HttpAnswer> {
  const { parts, user } = await passWithDid(http, request)
  if (typeof sessionId !== 'string' || !SESSION_ID.test(sessionId)) throw new DidAuthError('ERR_SESSION_NOT_FOUND')
  await revokeOwnSession(parts, user, sessionId)
  return emptyAnswer()
}

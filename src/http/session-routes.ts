import type { Paths } from '../config/paths.js'
import { DidAuthError } from '../errors.js'
import { listOwnSessions, readOwnSession, revokeOwnSession } from '../flows/manage-sessions.js'
import type { Answer, AnswerWithParameter, Route } from './find-route.js'
import { passWithDid, type HttpParts } from './require-did.js'
import { sendEmpty, sendJson } from './send-answer.js'

/** What may be the id of a session. Anything else never reaches a store. */
const SESSION_ID = /^[\w-]{1,64}$/

/** Makes the routes by which users see and end their own sessions: none where no path is configured. */
export function sessionRoutes(http: HttpParts, { session, sessions }: Paths): Route[] {
  const { transport } = http

  // Pages poll it, so that it neither refuses nor counts.
  const own: Answer = async (req, res) => {
    const found = await readOwnSession(await http.parts(), {
      accessToken: () => transport.readAccessToken(req),
      refreshToken: () => transport.readRefreshToken(req, () => Promise.resolve({}))
    })
    sendJson(res, found ?? {})
  }

  const list: Answer = async (req, res) => {
    const user = await passWithDid(http, req, {})
    sendJson(res, await listOwnSessions(await http.parts(), user))
  }

  const revoke: AnswerWithParameter = async (req, res, sessionId) => {
    const user = await passWithDid(http, req, {})
    if (typeof sessionId !== 'string' || !SESSION_ID.test(sessionId)) throw new DidAuthError('ERR_SESSION_NOT_FOUND')
    await revokeOwnSession(await http.parts(), user, sessionId)
    sendEmpty(res)
  }

  return [
    ...(session === undefined ? [] : [{ method: 'GET' as const, path: session, answer: own }]),
    ...(sessions === undefined
      ? []
      : [
          { method: 'GET' as const, path: sessions, answer: list },
          { method: 'DELETE' as const, path: sessions, answerWithParameter: revoke }
        ])
  ]
}

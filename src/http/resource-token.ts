import { issueResourceToken } from '../flows/tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { jsonAnswer } from './answers.js'
import { passWithDid, type HttpParts } from './guard.js'
import { MAX_BODY_BYTES, readBody } from './read-request.js'
import { assertBound } from './session-binding.js'

/**
 * Answers `POST /resource-token` with a token of the user for another service. Resource tokens are not bound to a
 * device, so a bound session needs a proof here. Without it, a copied access token could be exchanged for them.
 */
export async function answerResourceToken(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const { parts, user } = await passWithDid(http, request, { checkSession: true })
  const { sub: did, sid: sessionId = '' } = user.claims
  const session = { did, sessionId, claims: user.claims }
  const knownToken = http.transport.readKnownToken(request)
  await assertBound(parts, session, request, http.callerOf(request), knownToken)
  const { resource } = await readBody(request, MAX_BODY_BYTES)
  return jsonAnswer(await issueResourceToken(parts, user, resource))
}

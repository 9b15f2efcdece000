import { issueResourceToken } from '../flows/tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { jsonAnswer } from './answers.js'
import { passWithDid, type HttpParts } from './guard.js'
import { MAX_BODY_BYTES, readBody } from './read-request.js'

/** Answers `POST /resource-token` with a token of the user for another service. */
export async function answerResourceToken(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const { parts, user } = await passWithDid(http, request, { checkSession: true })
  const { resource } = await readBody(request, MAX_BODY_BYTES)
  return jsonAnswer(await issueResourceToken(parts, user, resource))
}

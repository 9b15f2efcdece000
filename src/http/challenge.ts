import { charge } from '../flows/limits.js'
import { requestLoginChallenge, requestSignUpChallenge } from '../flows/request-challenge.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { parseDid } from '../protocol/did.js'
import { readField } from '../protocol/json.js'
import { jsonAnswer } from './answers.js'
import { createNonceHeader } from './device-proof.js'
import type { HttpParts } from './guard.js'
import { MAX_BODY_BYTES, readBody } from './read-request.js'

type RequestChallenge = typeof requestSignUpChallenge

/** Answers `GET /request-auth/:did` with a login challenge. */
export function answerLoginChallenge(http: HttpParts, request: HttpRequest, did: unknown): Promise<HttpAnswer> {
  return answerChallenge(http, request, did, requestLoginChallenge)
}

/** Answers `GET /request-signup/:did` with a challenge, and with a disclosure request if data is required. */
export function answerSignUpChallenge(http: HttpParts, request: HttpRequest, did: unknown): Promise<HttpAnswer> {
  return answerChallenge(http, request, did, requestSignUpChallenge)
}

/** Answers `POST /request-auth`, whose body names the DID. */
export async function answerPostedLoginChallenge(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  return answerLoginChallenge(http, request, readField(await readBody(request, MAX_BODY_BYTES), 'did'))
}

/** Answers `POST /request-signup`, whose body names the DID. */
export async function answerPostedSignUpChallenge(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  return answerSignUpChallenge(http, request, readField(await readBody(request, MAX_BODY_BYTES), 'did'))
}

async function answerChallenge(
  http: HttpParts,
  request: HttpRequest,
  received: unknown,
  requestChallenge: RequestChallenge
): Promise<HttpAnswer> {
  const did = parseDid(received)
  const [parts, client] = [await http.parts(), http.callerOf(request)]
  await charge(parts, client, 'didRequests', did)
  const { mountPath } = request
  const { expiresInSeconds, ...body } = await requestChallenge(parts, did, { mountPath, client })
  const headers = { 'Challenge-Expires-In': String(expiresInSeconds), ...createNonceHeader(parts) }
  return jsonAnswer(body, headers)
}

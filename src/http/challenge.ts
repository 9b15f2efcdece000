import type { SiweSettings } from '../config/settings.js'
import { charge } from '../flows/limits.js'
import { issueNonce } from '../flows/nonces.js'
import { requestLoginChallenge, requestSignUpChallenge } from '../flows/request-challenge.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { parseDid } from '../protocol/did.js'
import { readField } from '../protocol/json.js'
import { jsonAnswer, textAnswer } from './answers.js'
import type { HttpParts } from './guard.js'
import { MAX_BODY_BYTES, readBody } from './read-request.js'
import { createNonceHeader } from './session-binding.js'

type RequestChallenge = typeof requestSignUpChallenge

/** Whether a client names JSON in `Accept`; browsers and axios name other types as well. */
const NAMES_JSON = /(?:^|,)\s*application\/json\s*(?:[;,]|$)/i

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

/** Answers `GET` and `POST /siwe/nonce` with a nonce, as text or JSON. */
export async function answerNonce(http: HttpParts, siwe: SiweSettings, request: HttpRequest): Promise<HttpAnswer> {
  const parts = await http.parts()
  await charge(parts, http.callerOf(request), 'nonces')
  const { nonce, expiresInSeconds } = issueNonce(parts, siwe)
  const headers = { 'Challenge-Expires-In': String(expiresInSeconds), ...createNonceHeader(parts) }
  const isJson = request.method === 'POST' || NAMES_JSON.test(request.headers.accept ?? '')
  return isJson ? jsonAnswer({ nonce }, headers) : textAnswer(nonce, headers)
}

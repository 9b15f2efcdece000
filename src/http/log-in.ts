import { assertProofBudget } from '../flows/limits.js'
import { logIn } from '../flows/log-in.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { createNonceHeader, readDeviceProof } from './device-proof.js'
import type { HttpParts } from './guard.js'
import { MAX_BODY_BYTES, readBody, readLogin } from './read-request.js'

/** Answers `POST /auth` with tokens. The client's budget of proofs is checked before the body is read. */
export async function answerLogIn(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const client = http.callerOf(request)
  assertProofBudget(http, client)
  const deviceProof = readDeviceProof(http, request)
  const login = readLogin(await readBody(request, MAX_BODY_BYTES))
  // The deadline starts after the body has arrived, which may take 30 s.
  const parts = await http.parts()
  return http.transport.answerTokens(await logIn(parts, { ...login, client, deviceProof }), createNonceHeader(parts))
}

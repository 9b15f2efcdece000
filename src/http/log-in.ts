import { assertProofBudget } from '../flows/limits.js'
import { logIn } from '../flows/log-in.js'
import type { Tokens } from '../flows/tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { trace } from '../tracing.js'
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
  const message = { serviceUrl: parts.settings.serviceUrl, kind: 'login' }
  const run = (): Promise<Tokens> => logIn(parts, { ...login, client, deviceProof })
  const tokens = await trace('login', message, run, () => ({ did: login.did }))
  return http.transport.answerTokens(tokens, createNonceHeader(parts))
}

import { usesDisclosure } from '../config/settings.js'
import { assertProofBudget } from '../flows/limits.js'
import { signUp } from '../flows/log-in.js'
import type { Tokens } from '../flows/tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { trace } from '../tracing.js'
import { createNonceHeader, readDeviceProof } from './device-proof.js'
import type { HttpParts } from './guard.js'
import { MAX_BODY_BYTES, readBody, readSignUp } from './read-request.js'

/** Maximum body of a sign up in bytes: it has up to 20 credentials of 16 KiB. */
const MAX_SIGN_UP_BODY_BYTES = 512 * 1024

/** Answers `POST /signup` with tokens. The client's budget of proofs is checked before the body is read. */
export async function answerSignUp(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const client = http.callerOf(request)
  assertProofBudget(http, client)
  const deviceProof = readDeviceProof(http, request)
  const maxBytes = usesDisclosure(http.settings) ? MAX_SIGN_UP_BODY_BYTES : MAX_BODY_BYTES
  const body = readSignUp(await readBody(request, maxBytes))
  const parts = await http.parts()
  const message = { serviceUrl: parts.settings.serviceUrl, kind: 'signup' }
  const run = (): Promise<Tokens> => signUp(parts, { ...body, client, deviceProof })
  const tokens = await trace('login', message, run, () => ({ did: body.did }))
  return http.transport.answerTokens(tokens, createNonceHeader(parts))
}

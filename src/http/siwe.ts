import type { SiweSettings } from '../config/settings.js'
import { assertProofBudget, charge } from '../flows/limits.js'
import { logInWithSiwe } from '../flows/log-in-with-siwe.js'
import { issueNonce } from '../flows/nonces.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { trace } from '../tracing.js'
import { jsonAnswer, textAnswer } from './answers.js'
import { createNonceHeader, readDeviceProof } from './device-proof.js'
import type { HttpParts } from './guard.js'
import { readBody, readSiweLogin } from './read-request.js'

/** Maximum body of an EIP-4361 login in bytes. */
const MAX_SIWE_BODY_BYTES = 32 * 1024

/** Whether a client names JSON in `Accept`; browsers and axios name other types as well. */
const NAMES_JSON = /(?:^|,)\s*application\/json\s*(?:[;,]|$)/i

/** Answers `GET` and `POST /siwe/nonce` with a nonce, as text or JSON. */
export async function answerNonce(http: HttpParts, siwe: SiweSettings, request: HttpRequest): Promise<HttpAnswer> {
  const parts = await http.parts()
  await charge(parts, http.callerOf(request), 'nonces')
  const { nonce, expiresInSeconds } = issueNonce(parts, siwe)
  const headers = { 'Challenge-Expires-In': String(expiresInSeconds), ...createNonceHeader(parts) }
  const isJson = request.method === 'POST' || NAMES_JSON.test(request.headers.accept ?? '')
  return isJson ? jsonAnswer({ nonce }, headers) : textAnswer(nonce, headers)
}

/** Answers `POST /siwe/verify` with tokens and the user, for a signed EIP-4361 message. */
export async function answerSiweLogIn(http: HttpParts, siwe: SiweSettings, request: HttpRequest): Promise<HttpAnswer> {
  const client = http.callerOf(request)
  assertProofBudget(http, client)
  const deviceProof = readDeviceProof(http, request)
  const login = readSiweLogin(await readBody(request, MAX_SIWE_BODY_BYTES))
  const parts = await http.parts()
  const message = { serviceUrl: parts.settings.serviceUrl, kind: 'siwe' }
  const run = (): ReturnType<typeof logInWithSiwe> => logInWithSiwe(parts, siwe, { ...login, client, deviceProof })
  const { tokens, user } = await trace('login', message, run, ({ user: { did } }) => ({ did }))
  return http.transport.answerTokens(tokens, createNonceHeader(parts), user)
}

import { DidAuthError, errorTexts, errorStatuses, type DidAuthErrorCode } from '../errors.js'
import { assertProofBudget } from '../flows/limits.js'
import { logInMachine } from '../flows/log-in-machine.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { ASSERTION_TYPE } from '../protocol/client-assertion.js'
import { isObject } from '../protocol/json.js'
import { createRouteUrl } from '../protocol/parse-url.js'
import { isBytes } from '../protocol/is-bytes.js'
import { jsonAnswer } from './answers.js'
import { trace } from '../tracing.js'
import type { HttpParts } from './guard.js'
import { MAX_BODY_BYTES, receiveBody } from './read-request.js'

const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(?:;|$)/i

/** Errors of OAuth by code. Other codes of status 401 are `invalid_client`. @see RFC 6749, section 5.2; RFC 8707 */
const OAUTH_ERRORS: Readonly<Partial<Record<DidAuthErrorCode, string>>> = {
  ERR_RESOURCE: 'invalid_target',
  ERR_GRANT_TYPE: 'unsupported_grant_type',
  ERR_BUSINESS_LOGIC: 'unauthorized_client',
  ERR_INTERNAL: 'server_error',
  ERR_CONFIG: 'server_error'
}

/** Headers of other errors that these errors have as well. */
const COPIED_HEADERS = ['Retry-After', 'Connection', 'Cache-Control', 'X-Content-Type-Options']

/** Answers `POST /token` with a token for a machine. Budgets are checked before the body is read. */
export async function answerMachineToken(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const client = http.callerOf(request)
  assertProofBudget(http, client)
  const form = await readForm(request)
  const grantType = readParameter(form, 'grant_type')
  if (grantType === undefined) throw createFormRefusal('grant_type', 'client_credentials')
  if (grantType !== 'client_credentials') throw new DidAuthError('ERR_GRANT_TYPE')
  const isAssertion = readParameter(form, 'client_assertion_type') === ASSERTION_TYPE
  const { serviceUrl, paths } = http.settings
  const parts = await http.parts()
  const login = {
    assertion: isAssertion ? readParameter(form, 'client_assertion') : undefined,
    clientId: readParameter(form, 'client_id'),
    resource: readParameter(form, 'resource'),
    tokenUrl: createRouteUrl(serviceUrl, request.mountPath, paths.token ?? '') ?? serviceUrl,
    client
  }
  const run = (): ReturnType<typeof logInMachine> => logInMachine(parts, login)
  const { accessToken, expiresIn } = await trace('login', { serviceUrl, kind: 'machine' }, run)
  return jsonAnswer({ access_token: accessToken, token_type: 'Bearer', expires_in: expiresIn })
}

/** Answers an error of the token endpoint in the form of OAuth, and logs it as other errors. */
export function answerMachineError(http: HttpParts, request: HttpRequest, error: unknown): HttpAnswer {
  const { headers, errorCode } = http.answerError(request, error)
  const code = (errorCode ?? 'ERR_INTERNAL') as DidAuthErrorCode
  const status = errorStatuses[code]
  const isTemporary = status === 429 || status > 500
  const oauthError =
    OAUTH_ERRORS[code] ??
    (isTemporary ? 'temporarily_unavailable' : status === 401 ? 'invalid_client' : 'invalid_request')
  // No `WWW-Authenticate` at 401: clients that send assertions would read it instead of the body.
  const copied = Object.fromEntries(Object.entries(headers).filter(([name]) => COPIED_HEADERS.includes(name)))
  // A parser of the application refuses a form by the code for JSON.
  const description = errorTexts[code === 'ERR_JSON' ? 'ERR_INVALID' : code]
  const answer = jsonAnswer({ error: oauthError, error_description: description }, copied)
  return { ...answer, status: oauthError === 'unauthorized_client' ? 400 : status, errorCode: code }
}

/** Answers `GET /token`: OAuth metadata has to name an authorization endpoint, which this service does not have. */
export async function answerAuthorization(): Promise<HttpAnswer> {
  const description = 'This service has no authorization endpoint'
  const answer = jsonAnswer({ error: 'unsupported_response_type', error_description: description })
  return { ...answer, status: 400 }
}

/** Reads a form, also if a parser of the application has read it. A parameter with several values is refused. */
async function readForm(request: HttpRequest): Promise<ReadonlyMap<string, unknown>> {
  if (!FORM_TYPE.test(request.headers['content-type'] ?? '')) throw createFormRefusal('Content-Type', 'a form')
  const body = await receiveBody(request, MAX_BODY_BYTES)
  const isText = typeof body === 'string' || isBytes(body)
  if (isText && body.length > MAX_BODY_BYTES) throw new DidAuthError('ERR_TOO_LARGE')
  const text = isBytes(body) ? new TextDecoder().decode(body) : body
  const entries = typeof text === 'string' ? [...new URLSearchParams(text)] : isObject(text) ? Object.entries(text) : []
  const form = new Map<string, unknown>(entries)
  // A parser of the application turns several values into an array.
  if (form.size < entries.length || entries.some(([, value]) => Array.isArray(value))) {
    throw createFormRefusal('parameters', 'one value each')
  }
  return form
}

/** Reads a parameter of a form. One without a value counts as absent. @see RFC 6749, section 3.2 */
function readParameter(form: ReadonlyMap<string, unknown>, name: string): string | undefined {
  const value = form.get(name)
  if (value === undefined || value === '') return undefined
  if (typeof value !== 'string') throw createFormRefusal(name, 'text')
  return value
}

function createFormRefusal(check: string, expected: string): DidAuthError {
  return new DidAuthError('ERR_INVALID', { reason: { check, expected } })
}

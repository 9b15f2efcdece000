import { DidAuthError } from '../errors.js'
import { parseCredentialJwts } from '../protocol/credential.js'
import { parseDid } from '../protocol/did.js'
import { readField, isObject } from '../protocol/json.js'
import { parseClaims } from '../protocol/selective-disclosure.js'
import { isBytes } from '../protocol/is-bytes.js'
import type { SiweRequest } from '../flows/log-in-with-siwe.js'
import type { LoginRequest, SignUpRequest } from '../flows/log-in.js'
import type { HttpRequest } from '../http-messages.js'
import { within } from '../time.js'

/** Time limit for receiving a body, in milliseconds. It ends before the deadline of the request starts. */
const BODY_MILLISECONDS = 30_000

/** Maximum body in bytes, unless an endpoint has another one. */
export const MAX_BODY_BYTES = 16 * 1024

/** Maximum body of an EIP-4361 login in bytes. */
const MAX_SIWE_BODY_BYTES = 32 * 1024

/** Content types of JSON, `application/json` and `application/<anything>+json`. */
export const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i
const FORM_TYPE = /^(?:application\/x-www-form-urlencoded|multipart\/)/i
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

/** The fields of a body, not yet parsed. */
export type Body = Record<string, unknown>

/**
 * Reads a JSON body, or uses the one that a parser of the application has read, as object, text or bytes. An absent or
 * empty body, one of another type, and JSON that is no object count as `{}`. So does a form: any page of another site
 * can send one.
 * @throws DidAuthError ERR_JSON when it does not parse, ERR_TOO_LARGE, ERR_REQUEST_TIMEOUT
 */
export async function readBody(request: HttpRequest, maxBytes: number): Promise<Body> {
  const type = request.headers['content-type'] ?? ''
  if (FORM_TYPE.test(type)) return {}
  const isJson = JSON_TYPE.test(type)
  const body = await receiveBody(request, isJson ? maxBytes : undefined)
  if (typeof body === 'string' || isBytes(body)) return isJson ? parseBody(body, maxBytes) : {}
  return isObject(body) ? body : {}
}

/** Receives a body, as a parser has read it or as bytes, within 30 s. @throws DidAuthError as {@link readBody} */
export function receiveBody(request: HttpRequest, maxBytes: number | undefined): Promise<unknown> {
  return within(BODY_MILLISECONDS, request.receiveBody(maxBytes), () => new DidAuthError('ERR_REQUEST_TIMEOUT'))
}

function parseBody(body: string | Uint8Array, maxBytes: number): Body {
  if (body.length > maxBytes) throw new DidAuthError('ERR_TOO_LARGE')
  if (body.length === 0) return {}
  const value = parseJson(body)
  return isObject(value) ? value : {}
}

/** Parses any JSON. @throws DidAuthError ERR_JSON */
export function parseJson(json: string | Uint8Array): unknown {
  try {
    return JSON.parse(typeof json === 'string' ? json : UTF_8.decode(json))
  } catch {
    // No cause: a parser's message quotes the body.
    throw new DidAuthError('ERR_JSON')
  }
}

/**
 * Reads `{ did, sig }` or `{ response: { did, sig } }`.
 * @throws DidAuthError as {@link readBody}; ERR_REQUEST for both forms at once, ERR_DID
 */
export async function readLogin(request: HttpRequest): Promise<Pick<LoginRequest, 'did' | 'sig'>> {
  return parseLogin(readResponseFields(await readBody(request, MAX_BODY_BYTES)))
}

/** Reads the body of a sign up in either form. @throws DidAuthError as {@link readLogin} */
export async function readSignUp(
  request: HttpRequest,
  maxBytes: number
): Promise<Pick<SignUpRequest, 'did' | 'sig' | 'credentialJwts' | 'claims'>> {
  const fields = readResponseFields(await readBody(request, maxBytes))
  return {
    ...parseLogin(fields),
    credentialJwts: parseCredentialJwts(readField(fields, 'credentials')),
    claims: parseClaims(readField(fields, 'claims'))
  }
}

/** Reads the body of an EIP-4361 login. It may have further fields. @throws DidAuthError ERR_MESSAGE */
export async function readSiweLogin(request: HttpRequest): Promise<Pick<SiweRequest, 'message' | 'signature'>> {
  const body = await readBody(request, MAX_SIWE_BODY_BYTES)
  const message = readField(body, 'message')
  if (typeof message === 'string') return { message, signature: readField(body, 'signature') }
  throw new DidAuthError('ERR_MESSAGE', { reason: { check: 'message', expected: 'a string', got: typeof message } })
}

function parseLogin(fields: Body): Pick<LoginRequest, 'did' | 'sig'> {
  return { did: parseDid(readField(fields, 'did')), sig: readField(fields, 'sig') }
}

function readResponseFields(body: Body): Body {
  const response = readField(body, 'response')
  if (response === undefined) return body
  const hasBoth = ['did', 'sig', 'credentials', 'claims'].some((name) => readField(body, name) !== undefined)
  if (!hasBoth && isObject(response)) return response
  const reason = { check: 'body', expected: 'either { response: { … } } or its fields' }
  throw new DidAuthError('ERR_REQUEST', { reason })
}

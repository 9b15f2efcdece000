import { DidAuthError } from '../errors.js'
import { parseCredentialJwts } from '../protocol/credential.js'
import { parseDid } from '../protocol/did.js'
import { readField, isObject } from '../protocol/json.js'
import { parseClaims } from '../protocol/selective-disclosure.js'
import type { SiweRequest } from '../flows/log-in-with-siwe.js'
import type { LoginRequest, SignUpRequest } from '../flows/log-in.js'
import type { HttpRequest } from '../http-messages.js'
import { within } from '../time.js'

/** Time limit for receiving a body. */
const BODY_MILLISECONDS = 30_000

/** Maximum body in bytes, unless an endpoint has another one. */
export const MAX_BODY_BYTES = 16 * 1024

const IDEMPOTENCY_KEY = /^("?)([A-Za-z0-9_-]{22,128})\1$/

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
  const { parsedBody } = request
  const type = request.headers['content-type'] ?? ''
  if (FORM_TYPE.test(type)) return {}
  const isJson = JSON_TYPE.test(type)
  if (typeof parsedBody === 'string' || parsedBody instanceof Uint8Array) {
    return isJson ? parseBody(parsedBody, maxBytes) : {}
  }
  if (parsedBody !== undefined) return isObject(parsedBody) ? parsedBody : {}
  return isJson ? parseBody(await readBytes(request, maxBytes), maxBytes) : {}
}

/** Reads a body of any type. @throws DidAuthError ERR_TOO_LARGE, ERR_JSON, ERR_REQUEST_TIMEOUT after 30 s */
export async function readBytes(request: HttpRequest, maxBytes: number): Promise<Uint8Array> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw new DidAuthError('ERR_TOO_LARGE')
  const expired = (): Error => new DidAuthError('ERR_REQUEST_TIMEOUT')
  return within(BODY_MILLISECONDS, request.receiveBody(maxBytes), expired)
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

/** Reads `{ did, sig }` or `{ response: { did, sig } }`. @throws DidAuthError ERR_REQUEST for both at once, ERR_DID */
export function readLogin(body: Body): Omit<LoginRequest, 'client'> {
  const fields = readResponseFields(body)
  return { did: parseDid(readField(fields, 'did')), sig: readField(fields, 'sig') }
}

/** Reads the body of a sign up in either form. @throws DidAuthError ERR_REQUEST, ERR_DID */
export function readSignUp(body: Body): Omit<SignUpRequest, 'client'> {
  const fields = readResponseFields(body)
  return {
    ...readLogin(body),
    credentialJwts: parseCredentialJwts(readField(fields, 'credentials')),
    claims: parseClaims(readField(fields, 'claims'))
  }
}

/** Reads the body of an EIP-4361 login. It may have further fields. @throws DidAuthError ERR_MESSAGE */
export function readSiweLogin(body: Body): Omit<SiweRequest, 'client'> {
  const message = readField(body, 'message')
  if (typeof message === 'string') return { message, signature: readField(body, 'signature') }
  throw new DidAuthError('ERR_MESSAGE', { reason: { check: 'message', expected: 'a string', got: typeof message } })
}

/**
 * Reads the key of `Idempotency-Key`, without the quotes that may enclose it; undefined without the header.
 * @throws DidAuthError ERR_IDEMPOTENCY_KEY for anything but 22 to 128 characters of base64url, and for two such headers
 */
export function readIdempotencyKey({ headers }: Pick<HttpRequest, 'headers'>): string | undefined {
  // Node joins two headers of one name with a comma, which no key contains.
  const received = headers['idempotency-key']
  if (received === undefined) return undefined
  const key = typeof received === 'string' ? IDEMPOTENCY_KEY.exec(received)?.[2] : undefined
  if (key !== undefined) return key
  const reason = { check: 'Idempotency-Key', expected: '22 to 128 characters of base64url, once' }
  throw new DidAuthError('ERR_IDEMPOTENCY_KEY', { reason })
}

function readResponseFields(body: Body): Body {
  const response = readField(body, 'response')
  if (response === undefined) return body
  const hasBoth = ['did', 'sig', 'credentials', 'claims'].some((name) => readField(body, name) !== undefined)
  if (!hasBoth && isObject(response)) return response
  const reason = { check: 'body', expected: 'either { response: { … } } or its fields' }
  throw new DidAuthError('ERR_REQUEST', { reason })
}

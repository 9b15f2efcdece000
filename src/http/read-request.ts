import type { Request } from 'express'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import { parseCredentialJwts } from '../protocol/credential.js'
import { parseDid } from '../protocol/did.js'
import { readField, isObject } from '../protocol/json.js'
import { parseClaims } from '../protocol/selective-disclosure.js'
import type { SiweRequest } from '../flows/log-in-with-siwe.js'
import type { LoginRequest, SignUpRequest } from '../flows/log-in.js'
import { within } from '../time.js'

/** Time limit for receiving a body. */
const BODY_MILLISECONDS = 30_000

const IDEMPOTENCY_KEY = /^("?)([A-Za-z0-9_-]{22,128})\1$/

/** Content types of JSON, `application/json` and `application/<anything>+json`. */
export const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i
const FORM_TYPE = /^(?:application\/x-www-form-urlencoded|multipart\/)/i
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

/** Error codes by the `type` of errors of body-parser, which is `express.json()`. */
const PARSER_REFUSALS: ReadonlyMap<unknown, DidAuthErrorCode> = new Map([
  ['entity.parse.failed', 'ERR_JSON'],
  ['encoding.unsupported', 'ERR_JSON'],
  ['charset.unsupported', 'ERR_JSON'],
  ['request.aborted', 'ERR_JSON'],
  ['request.size.invalid', 'ERR_JSON'],
  ['entity.verify.failed', 'ERR_JSON'],
  ['entity.too.large', 'ERR_TOO_LARGE']
])

/** The fields of a body, not yet parsed. */
export type Body = Record<string, unknown>

/**
 * Reads a JSON body, or uses the one that a parser of the application has read, as object, text or bytes. An absent or
 * empty body, one of another type, and JSON that is no object count as `{}`. So does a form: it is the body that every
 * page of another site can send.
 * @throws DidAuthError ERR_JSON when it does not parse, ERR_TOO_LARGE, ERR_REQUEST_TIMEOUT
 */
export async function readBody(req: Request, maxBytes: number): Promise<Body> {
  const given: unknown = req.body
  const type = req.headers['content-type'] ?? ''
  if (FORM_TYPE.test(type)) return {}
  const isJson = JSON_TYPE.test(type)
  if (typeof given === 'string' || given instanceof Uint8Array) return isJson ? parseBody(given, maxBytes) : {}
  if (given !== undefined && !isPlaceholder(req, given)) return isObject(given) ? given : {}
  if (!isJson || req.readableEnded) return {}
  return parseBody(await receive(req, maxBytes), maxBytes)
}

/** @throws DidAuthError ERR_CONFIG behind a body parser, ERR_TOO_LARGE, ERR_JSON, ERR_REQUEST_TIMEOUT */
export async function readBodyBytes(req: Request, maxBytes: number): Promise<Buffer> {
  if (req.readableDidRead || (req.body !== undefined && !isPlaceholder(req, req.body))) {
    const cause = new Error('requireDid.approved has to stand before body parsers: they have read this body')
    throw new DidAuthError('ERR_CONFIG', { cause })
  }
  return req.readableEnded ? Buffer.alloc(0) : receive(req, maxBytes)
}

async function receive(req: Request, maxBytes: number): Promise<Buffer> {
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw new DidAuthError('ERR_TOO_LARGE')
  const expired = (): Error => new DidAuthError('ERR_REQUEST_TIMEOUT')
  return within(BODY_MILLISECONDS, readBytes(req, maxBytes), expired)
}

/** Whether `req.body` is the `{}` that the parsers of Express 4 set although they leave another type unread. */
function isPlaceholder(req: Request, given: unknown): boolean {
  return isObject(given) && Object.keys(given).length === 0 && !req.readableDidRead
}

function parseBody(given: string | Uint8Array, maxBytes: number): Body {
  if (given.length > maxBytes) throw new DidAuthError('ERR_TOO_LARGE')
  if (given.length === 0) return {}
  const body = parseJson(given)
  return isObject(body) ? body : {}
}

/** Parses any JSON. @throws DidAuthError ERR_JSON */
export function parseJson(given: string | Uint8Array): unknown {
  try {
    return JSON.parse(typeof given === 'string' ? given : UTF_8.decode(given))
  } catch {
    // No cause: a parser's message quotes the body.
    throw new DidAuthError('ERR_JSON')
  }
}

function readBytes(req: Request, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    req.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBytes) {
        chunks.push(chunk)
        return
      }
      // The rest is read and dropped: cutting the connection while the client sends could lose the answer.
      chunks.length = 0
      reject(new DidAuthError('ERR_TOO_LARGE'))
    })
    req.on('end', () => resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)))
    // A client that disconnects in the middle is not a failure of the service, and does not read this answer.
    const onBroken = (): void => {
      if (!req.readableEnded) reject(new DidAuthError('ERR_JSON'))
    }
    req.on('error', onBroken)
    req.on('close', onBroken)
    if (req.destroyed) onBroken()
    // The application may have paused it, for a look into its database before.
    req.resume()
  })
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

/** Reads the body of a login by an EIP-4361 message. Published clients send more. @throws DidAuthError ERR_MESSAGE */
export function readSiweLogin(body: Body): Omit<SiweRequest, 'client'> {
  const message = readField(body, 'message')
  if (typeof message === 'string') return { message, signature: readField(body, 'signature') }
  throw new DidAuthError('ERR_MESSAGE', { reason: { check: 'message', expected: 'a string', got: typeof message } })
}

/**
 * The key of `Idempotency-Key`, without the quotes that may enclose it; undefined where there is none.
 * @throws DidAuthError ERR_IDEMPOTENCY_KEY for anything but 22 to 128 characters of base64url, and for two such headers
 */
export function readIdempotencyKey({ headers }: Pick<Request, 'headers'>): string | undefined {
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
  const reason = { check: 'body', expected: '{ response: { … } } or its fields alone' }
  throw new DidAuthError('ERR_REQUEST', { reason })
}

/** Converts a refusal of the application's parser, else undefined. The cause is dropped, because it quotes the body. */
export function toParserRefusal(error: unknown): DidAuthError | undefined {
  const code = PARSER_REFUSALS.get(readField(error, 'type'))
  return code && new DidAuthError(code)
}

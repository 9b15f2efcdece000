import type { Request } from 'express'
import { DidAuthError } from '../errors.js'
import { parseCredentialJwts } from '../protocol/credential.js'
import { parseDid } from '../protocol/did.js'
import { fieldOf, isObject } from '../protocol/json.js'
import { parseClaims } from '../protocol/selective-disclosure.js'
import type { LoginRequest } from '../flows/log-in.js'
import type { SignUpRequest } from '../flows/sign-up.js'

/** Bytes that a body may have: a sign up carries up to 20 credentials of 16 KiB. */
export const MAX_BODY_BYTES = 16 * 1024
export const MAX_SIGN_UP_BODY_BYTES = 512 * 1024

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

/** The fields of a body, which nobody has looked at yet. */
export type Body = Record<string, unknown>

/**
 * Reads a JSON body, or takes the one that a parser of the application has read.
 *
 * An absent or empty body, one of another type, and JSON that is no object count as `{}`.
 *
 * @throws DidAuthError ERR_JSON when it does not parse, ERR_TOO_LARGE
 */
export async function readBody(req: Request, maxBytes: number): Promise<Body> {
  const parsed: unknown = req.body
  if (parsed !== undefined) return isObject(parsed) && !Buffer.isBuffer(parsed) ? parsed : {}
  if (!JSON_TYPE.test(req.headers['content-type'] ?? '') || req.readableEnded) return {}
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(req)
  const bytes = await readBytes(req, maxBytes)
  if (bytes.length === 0) return {}
  try {
    const body: unknown = JSON.parse(UTF_8.decode(bytes))
    return isObject(body) ? body : {}
  } catch {
    // Without the cause: a parser's message quotes the body.
    throw new DidAuthError('ERR_JSON')
  }
}

function readBytes(req: Request, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    req.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBytes) chunks.push(chunk)
      else reject(tooLarge(req))
    })
    req.on('end', () => {
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks))
    })
    req.on('error', reject)
    req.on('close', () => {
      reject(new DidAuthError('ERR_JSON'))
    })
  })
}

/** The rest of the body is not worth reading: the connection ends with the answer. */
function tooLarge(req: Request): DidAuthError {
  req.res?.setHeader('Connection', 'close')
  return new DidAuthError('ERR_TOO_LARGE')
}

/** The DID of a path `/:did` or of a body. @throws DidAuthError ERR_DID */
export function readDid(source: unknown): string {
  return parseDid(fieldOf(source, 'did'))
}

/**
 * The body of a login in either form, `{ did, sig }` or `{ response: { did, sig } }`.
 *
 * @throws DidAuthError ERR_REQUEST for both at once, ERR_DID
 */
export function readLogin(body: Body): LoginRequest {
  const fields = responseFields(body)
  return { did: readDid(fields), sig: fieldOf(fields, 'sig') }
}

/**
 * The body of a sign up in either form.
 *
 * @throws DidAuthError ERR_REQUEST, ERR_DID
 */
export function readSignUp(body: Body): SignUpRequest {
  const fields = responseFields(body)
  return {
    ...readLogin(body),
    credentialJwts: parseCredentialJwts(fieldOf(fields, 'credentials')),
    claims: parseClaims(fieldOf(fields, 'claims'))
  }
}

function responseFields(body: Body): Body {
  const response = fieldOf(body, 'response')
  if (response === undefined) return body
  const hasBoth = ['did', 'sig', 'credentials', 'claims'].some((name) => fieldOf(body, name) !== undefined)
  if (hasBoth || !isObject(response)) throw new DidAuthError('ERR_REQUEST')
  return response
}

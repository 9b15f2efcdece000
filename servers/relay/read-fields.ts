import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { MAX_CREDENTIAL_BYTES } from 'express-did-auth/protocol'
import { JSON_TYPE, readBytes } from '../http/read-body.js'
import { ServerError } from '../http/server-error.js'

const MAX_BODY_BYTES = MAX_CREDENTIAL_BYTES + 4_096
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** The fields of a small JSON body. */
export type Fields = ReadonlyMap<string, unknown>

/**
 * Reads the fields of a small JSON body. An absent body, and one that is no JSON object, count as `{}`.
 *
 * @throws DidAuthError ERR_JSON, ERR_TOO_LARGE
 */
export async function readFields(req: IncomingMessage): Promise<Fields> {
  const isJson = JSON_TYPE.test(req.headers['content-type'] ?? '')
  const bytes = isJson ? await readBytes(req, MAX_BODY_BYTES, () => new DidAuthError('ERR_TOO_LARGE')) : Buffer.alloc(0)
  const body: unknown = bytes.length === 0 ? {} : parseJson(bytes)
  return new Map(typeof body === 'object' && body !== null ? Object.entries(body) : [])
}

/** The text in a field. @throws ServerError ERR_INVALID_REQUEST when there is none */
export function textIn(fields: Fields, name: string): string {
  const value = fields.get(name)
  if (typeof value !== 'string') throw new ServerError('ERR_INVALID_REQUEST')
  return value
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(UTF_8.decode(bytes))
  } catch {
    // Without the cause: a parser's message quotes the body.
    throw new DidAuthError('ERR_JSON')
  }
}

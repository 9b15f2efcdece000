import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { textInBody, type JsonText } from './json-text.js'
import { JSON_TYPE, readBytes, type ReadingRoom } from './read-bytes.js'
import { ServerError } from '../http/server-error.js'

/** A JSON string may spell each byte of its text as an escape of six characters. */
const MAX_ESCAPED = 6
const ENVELOPE_BYTES = 1_024

/**
 * Reads the text in a JSON body `{"<field>":"…"}`.
 *
 * @param maxBytes - of the text in UTF-8, however it is spelled
 * @throws ServerError ERR_CONTENT, ERR_CONTENT_TOO_LARGE; DidAuthError ERR_JSON, ERR_BUSY
 */
export async function readText(
  req: IncomingMessage,
  field: string,
  maxBytes: number,
  where?: ReadingRoom
): Promise<JsonText> {
  if (!JSON_TYPE.test(req.headers['content-type'] ?? '')) throw new ServerError('ERR_CONTENT')
  const body = await readBytes(req, maxBytes * MAX_ESCAPED + ENVELOPE_BYTES, () => tooLarge(maxBytes), where)
  const text = parseText(body, field)
  if (text === undefined) throw new ServerError('ERR_CONTENT')
  if (text.bytes.length > maxBytes) throw tooLarge(maxBytes)
  return text
}

function parseText(body: Buffer, field: string): JsonText | undefined {
  if (body.length === 0) return undefined
  try {
    return textInBody(body, field)
  } catch {
    // Without the cause: a parser's message quotes the body.
    throw new DidAuthError('ERR_JSON')
  }
}

function tooLarge(maxBytes: number): ServerError {
  return new ServerError('ERR_CONTENT_TOO_LARGE', { detail: `at most ${maxBytes} bytes` })
}

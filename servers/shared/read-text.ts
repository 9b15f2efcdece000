import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { ServerError } from './server-error.js'
import { textInBody, type JsonText } from './json-text.js'

/** A JSON string may spell each byte of its text as an escape of six characters. */
const MAX_ESCAPED = 6
const ENVELOPE_BYTES = 1_024
const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i

/**
 * Reads the text in a JSON body `{"<field>":"…"}`.
 *
 * @param maxBytes - of the text in UTF-8, however it is spelled
 * @throws ServerError ERR_CONTENT, ERR_CONTENT_TOO_LARGE; DidAuthError ERR_JSON
 */
export async function readText(req: IncomingMessage, field: string, maxBytes: number): Promise<JsonText> {
  if (!JSON_TYPE.test(req.headers['content-type'] ?? '')) throw new ServerError('ERR_CONTENT')
  const text = parseText(await readBytes(req, maxBytes * MAX_ESCAPED + ENVELOPE_BYTES, maxBytes), field)
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

function readBytes(req: IncomingMessage, maxBodyBytes: number, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // The rest is read and dropped: a connection that is cut under a client's hands may swallow the answer.
    let isTooLarge = Number(req.headers['content-length'] ?? 0) > maxBodyBytes
    const chunks: Buffer[] = []
    let size = 0
    if (isTooLarge) reject(tooLarge(maxBytes))
    req.on('data', (chunk: Buffer) => {
      if (isTooLarge) return
      size += chunk.length
      isTooLarge = size > maxBodyBytes
      if (!isTooLarge) {
        chunks.push(chunk)
        return
      }
      chunks.length = 0
      reject(tooLarge(maxBytes))
    })
    req.on('end', () => {
      const [only] = chunks
      resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks))
    })
    const onBroken = (): void => {
      if (!req.readableEnded) reject(new DidAuthError('ERR_JSON'))
    }
    req.on('error', onBroken)
    req.on('close', onBroken)
  })
}

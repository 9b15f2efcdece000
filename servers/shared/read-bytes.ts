import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'

/** Content types of JSON, `application/json` and `application/<anything>+json`. */
export const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i

/**
 * Reads the body of a request, without copying what arrives in one piece.
 *
 * @param refuse - makes the error for a longer body
 * @throws DidAuthError ERR_JSON when the client goes away in the middle: nobody reads that answer
 */
export function readBytes(req: IncomingMessage, maxBytes: number, refuse: () => Error): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // The rest is read and dropped: a connection that is cut under a client's hands may swallow the answer.
    let isTooLarge = Number(req.headers['content-length'] ?? 0) > maxBytes
    const chunks: Buffer[] = []
    let size = 0
    if (isTooLarge) reject(refuse())
    req.on('data', (chunk: Buffer) => {
      if (isTooLarge) return
      size += chunk.length
      isTooLarge = size > maxBytes
      if (!isTooLarge) {
        chunks.push(chunk)
        return
      }
      chunks.length = 0
      reject(refuse())
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
    // Gone before anybody listened.
    if (req.destroyed) onBroken()
  })
}

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
    const announced = Number(req.headers['content-length'] ?? 0)
    // The rest is read and dropped: a connection that is cut under a client's hands may swallow the answer.
    let isTooLarge = announced > maxBytes
    let whole: Buffer | undefined
    const chunks: Buffer[] = []
    let size = 0
    if (isTooLarge) reject(refuse())
    req.on('data', (chunk: Buffer) => {
      if (isTooLarge) return
      const start = size
      size += chunk.length
      isTooLarge = size > maxBytes
      if (isTooLarge) {
        chunks.length = 0
        whole = undefined
        reject(refuse())
        return
      }
      if (announced > chunk.length) {
        // Copied while the processor still has it at hand.
        whole ??= Buffer.allocUnsafeSlow(announced)
        chunk.copy(whole, start)
      } else {
        chunks.push(chunk)
      }
    })
    req.on('end', () => {
      const [only] = chunks
      resolve(whole ?? (chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks)))
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

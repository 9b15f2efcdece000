import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { ArrivingBody } from './arriving-body.js'
import { uploadRoom } from './upload-room.js'

/** Content types of JSON, `application/json` and `application/<anything>+json`. */
export const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i

/**
 * Reads the body of a request, without copying what arrives in one piece. What arrives at once is bounded, in all requests
 * together.
 *
 * @param tooLarge - makes the error for a longer body
 * @throws DidAuthError ERR_BUSY when there is no room; ERR_JSON when the client goes away in the middle: nobody reads that
 */
export function readBytes(
  req: IncomingMessage,
  maxBytes: number,
  tooLarge: () => Error,
  room = uploadRoom
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const announcedBytes = Number(req.headers['content-length'] ?? 0)
    const body = new ArrivingBody(announcedBytes)
    let isRefused = false
    // The rest is read and dropped: a connection that is cut under a client's hands may swallow the answer.
    const refuse = (error: Error): void => {
      if (isRefused) return
      isRefused = true
      room.give(body.size)
      body.drop()
      reject(error)
    }
    const onBroken = (): void => {
      if (!req.readableEnded) refuse(new DidAuthError('ERR_JSON'))
    }
    // Gone, or read by somebody else, before anybody listened here.
    if (req.destroyed || req.readableEnded) refuse(new DidAuthError('ERR_JSON'))
    else if (announcedBytes > maxBytes) refuse(tooLarge())
    req.on('data', (chunk: Buffer) => {
      if (isRefused) return
      if (body.size + chunk.length > maxBytes) refuse(tooLarge())
      else if (!room.take(chunk.length)) refuse(new DidAuthError('ERR_BUSY'))
      else body.add(chunk)
    })
    req.on('end', () => {
      if (isRefused) return
      room.give(body.size)
      resolve(body.whole())
    })
    req.on('error', onBroken)
    req.on('close', onBroken)
  })
}

import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { ArrivingBody } from './arriving-body.js'
import { ArrivingUpload } from './arriving-upload.js'
import { uploadRoom, type UploadRoom } from './upload-room.js'

/** Content types of JSON, `application/json` and `application/<anything>+json`. */
export const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i

/** Where a body is counted while it arrives. */
export interface ReadingRoom {
  room?: UploadRoom
  /** Whose body it is: one may have only a share of the room. */
  holder?: string
}

/**
 * Reads the body of a request, without copying what arrives in one piece. What arrives at once is bounded, in all requests
 * together; a short body needs no room.
 *
 * @param tooLarge - makes the error for a longer body
 * @throws DidAuthError ERR_BUSY when there is no room, or others need it that come faster; ERR_JSON when the client goes
 * away in the middle: nobody reads that; RangeError when no buffer can be so large
 */
export function readBytes(
  req: IncomingMessage,
  maxBytes: number,
  tooLarge: () => Error,
  { room = uploadRoom, holder }: ReadingRoom = {}
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const { 'content-length': length } = req.headers
    const announcedBytes = Number(length ?? 0)
    const isSmall = room.isSmall(Math.min(maxBytes, length === undefined ? maxBytes : announcedBytes))
    const body = new ArrivingBody(announcedBytes)
    let isRefused = false
    // The rest is read and dropped: a connection that is cut under a client's hands may swallow the answer.
    const refuse = (error: Error): void => {
      if (isRefused) return
      isRefused = true
      room.leave(upload)
      body.drop()
      reject(error)
    }
    const upload = new ArrivingUpload(holder, () => {
      refuse(new DidAuthError('ERR_BUSY'))
    })
    const add = (chunk: Buffer): void => {
      if (body.size + chunk.length > maxBytes) refuse(tooLarge())
      else if (!isSmall && !room.admit(upload, chunk.length)) refuse(new DidAuthError('ERR_BUSY'))
      else body.add(chunk)
    }
    /** What a listener throws would end the process. */
    const orRefuse = (work: () => void): void => {
      if (isRefused) return
      try {
        work()
      } catch (error) {
        refuse(error as Error)
      }
    }
    const onBroken = (): void => {
      if (!req.readableEnded) refuse(new DidAuthError('ERR_JSON'))
    }
    // Gone, or read by somebody else, before anybody listened here.
    if (req.destroyed || req.readableEnded) refuse(new DidAuthError('ERR_JSON'))
    else if (announcedBytes > maxBytes) refuse(tooLarge())
    req.on('data', (chunk: Buffer) => {
      orRefuse(() => {
        add(chunk)
      })
    })
    req.on('end', () => {
      orRefuse(() => {
        resolve(body.whole())
        room.leave(upload)
      })
    })
    req.on('error', onBroken)
    req.on('close', onBroken)
  })
}

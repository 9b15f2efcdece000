import { STATUS_CODES, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { codeOf } from '../config/startup-error.js'

const LINGER_MILLISECONDS = 500

const STATUS: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408
}

/**
 * Answers malformed HTTP and clients that time out, below Express, in plain text as everywhere else.
 *
 * @param answers - the answer that each connection is waiting for
 */
export function answerClientErrors(server: Server, answers: WeakMap<Duplex, ServerResponse>): void {
  const ending = new WeakSet<Duplex>()
  const end = (socket: Duplex, status: number): void => {
    // One answer is enough for all that follows a malformed request on its connection.
    if (ending.has(socket)) return
    ending.add(socket)
    const answer = answers.get(socket)
    const isAnswering = answer?.headersSent === true && !answer.writableFinished
    if (!socket.writable || isAnswering) {
      socket.destroy()
      return
    }
    socket.end(textAnswer(status))
    // Not at once: a reset would take the answer from a client that is still sending.
    setTimeout(() => {
      socket.destroy()
    }, LINGER_MILLISECONDS)
  }
  server.on('clientError', (error, socket) => {
    end(socket, STATUS[codeOf(error) ?? ''] ?? 400)
  })
  server.on('timeout', (socket: Socket) => {
    const answer = answers.get(socket)
    if (answer === undefined || answer.headersSent) socket.destroy()
    else if (!answer.req.complete) end(socket, 408)
    // Else the client waits for the server.
  })
}

function textAnswer(status: number): string {
  const text = STATUS_CODES[status] ?? ''
  const headers = [
    'Content-Type: text/plain; charset=utf-8',
    'X-Content-Type-Options: nosniff',
    `Content-Length: ${text.length}`,
    'Connection: close'
  ]
  return `HTTP/1.1 ${status} ${text}\r\n${headers.join('\r\n')}\r\n\r\n${text}`
}

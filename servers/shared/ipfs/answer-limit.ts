import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'

/** What an answer may be, for requests whose sender hands out no hold on them. */
export interface AnswerLimit {
  /** Bytes on the wire. May grow while the answer arrives. */
  maxBytes: number
  /** Called when the request goes out on a connection. */
  onSent(connection: { readonly bytesRead: number }): void
  /** Called when the answer is longer, compressed (its true length is anybody's guess) or a redirect. It must end the request. */
  refuse(): void
  /** Called when it is over, to let go of its connection. */
  onEnd(release: () => void): void
}

/** What diagnostics channels of `fetch` tell. */
interface RequestMessage {
  request: object
}
interface ChunkMessage extends RequestMessage {
  chunk: Uint8Array
}
interface SocketMessage extends RequestMessage {
  socket: ByteCounter
}
interface HeadersMessage extends RequestMessage {
  response: { statusCode: number; headers: readonly (Buffer | string)[] }
}
interface ByteCounter {
  readonly bytesRead: number
  on(event: 'readable', listener: () => void): unknown
  off(event: 'readable', listener: () => void): unknown
}

const currentLimit = new AsyncLocalStorage<AnswerLimit>()
const limits = new WeakMap<object, AnswerLimit>()
const bodyBytes = new WeakMap<object, number>()
let isWatching = false

/**
 * Runs work whose requests by `fetch` get answers within the limit, or are ended.
 *
 * A client that reads answers to their end, and hands `fetch` neither a dispatcher nor a body of ours, can be held to a
 * size only from outside. Node tells of every request on these channels; those of others pass unseen.
 *
 * @see https://github.com/nodejs/undici/blob/main/docs/docs/api/DiagnosticsChannel.md
 */
export function withAnswerLimit<T>(limit: AnswerLimit, work: () => T): T {
  if (!isWatching) watch()
  return currentLimit.run(limit, work)
}

function watch(): void {
  isWatching = true
  subscribe('undici:request:create', (message) => {
    const limit = currentLimit.getStore()
    if (limit !== undefined) limits.set((message as RequestMessage).request, limit)
  })
  subscribe('undici:client:sendHeaders', (message) => {
    const { request, socket } = message as SocketMessage
    const limit = limits.get(request)
    if (limit === undefined) return
    limit.onSent(socket)
    countBytes(socket, limit)
  })
  // From Node 24 on, and the only count where the answer comes over HTTP/2, which Node 26 speaks.
  subscribe('undici:request:bodyChunkReceived', (message) => {
    const { request, chunk } = message as ChunkMessage
    const limit = limits.get(request)
    if (limit === undefined) return
    const bytes = (bodyBytes.get(request) ?? 0) + chunk.length
    bodyBytes.set(request, bytes)
    if (bytes > limit.maxBytes) limit.refuse()
  })
  subscribe('undici:request:headers', (message) => {
    const { request, response } = message as HeadersMessage
    const isRedirect = response.statusCode >= 300 && response.statusCode < 400
    if (isRedirect || isCompressed(response.headers)) limits.get(request)?.refuse()
  })
}

function countBytes(socket: ByteCounter, limit: AnswerLimit): void {
  const before = socket.bytesRead
  const count = (): void => {
    if (socket.bytesRead - before > limit.maxBytes) limit.refuse()
  }
  socket.on('readable', count)
  limit.onEnd(() => socket.off('readable', count))
}

/** Names and values take turns. */
function isCompressed(headers: HeadersMessage['response']['headers']): boolean {
  return headers.some((name, index) => index % 2 === 0 && name.toString().toLowerCase() === 'content-encoding')
}

import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import { ServerError, type ServerErrorCode } from '../http/server-error.js'

/** One call to a node: its deadline, the most that its answer may be, and why it was ended early, if it was. */
export class IpfsCall {
  /** Bytes on the wire. May grow while the answer arrives. */
  maxBytes: number
  /** Rejects when the call is ended from here, whether or not its request heeds the signal. */
  readonly ended: Promise<never>
  readonly #aborter = new AbortController()
  readonly #cleanups: (() => void)[] = []
  readonly #deadline: NodeJS.Timeout
  #failure: ServerError | undefined
  #isUnanswered = (): boolean => false
  #reject: (failure: ServerError) => void = () => undefined

  constructor(maxBytes: number, deadlineMilliseconds: number) {
    this.maxBytes = maxBytes
    this.ended = new Promise((_resolve, reject) => {
      this.#reject = reject
    })
    // The call may be over when it rejects.
    this.ended.catch(() => undefined)
    this.#deadline = this.endAfter(deadlineMilliseconds)
  }

  get signal(): AbortSignal {
    return this.#aborter.signal
  }

  /** Why the call was ended from here. Its request may fail for that in any way. */
  get failure(): ServerError | undefined {
    return this.#failure
  }

  /**
   * Carries out work that is one request, which may be sent twice. A node ends connections that were idle for long, and
   * a request that is sent on one in that moment is lost: so it is sent again, as long as a kept connection broke before
   * a byte of the answer came. Each time costs a kept connection, so this comes to an end.
   */
  async send<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      this.#isUnanswered = () => false
      try {
        return await withCall(this, work)
      } catch (error) {
        if (this.#failure !== undefined || !this.#isUnanswered()) throw error
      }
    }
  }

  /** Ends the call and its request, and so its connection. Only the first reason counts. */
  end(code: ServerErrorCode): void {
    if (this.#failure !== undefined) return
    this.#failure = new ServerError(code)
    this.#reject(this.#failure)
    this.#aborter.abort()
  }

  /** Ends the call with ERR_IPFS_TIMEOUT when it is not over by then. */
  endAfter(milliseconds: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.end('ERR_IPFS_TIMEOUT')
    }, milliseconds)
    this.#cleanups.push(() => {
      clearTimeout(timer)
    })
    return timer
  }

  /** More of the answer came: the deadline counts from now. */
  restartDeadline(): void {
    this.#deadline.refresh()
  }

  /** The request goes out on a connection: its bytes are counted from now on. */
  watchConnection(socket: CountingSocket): void {
    const bytesBefore = socket.bytesRead
    this.#isUnanswered = () => bytesBefore > 0 && socket.bytesRead === bytesBefore
    const count = (): void => {
      if (socket.bytesRead - bytesBefore > this.maxBytes) this.end('ERR_IPFS_BAD_RESPONSE')
    }
    socket.on('readable', count)
    this.#cleanups.push(() => socket.off('readable', count))
  }

  /** To be called when the call is over, however it went. */
  cleanUp(): void {
    for (const cleanUp of this.#cleanups.splice(0)) cleanUp()
  }
}

/** What the diagnostics channels of `fetch` tell. */
interface RequestMessage {
  request: object
}
interface ChunkMessage extends RequestMessage {
  chunk: Uint8Array
}
interface SocketMessage extends RequestMessage {
  socket: CountingSocket
}
interface HeadersMessage extends RequestMessage {
  response: { statusCode: number; headers: readonly (Buffer | string)[] }
}
interface CountingSocket {
  readonly bytesRead: number
  on(event: 'readable', listener: () => void): unknown
  off(event: 'readable', listener: () => void): unknown
}

const currentCall = new AsyncLocalStorage<IpfsCall>()
const calls = new WeakMap<object, IpfsCall>()
const bodyBytes = new WeakMap<object, number>()
let isSubscribed = false

/**
 * Runs work whose requests by `fetch` belong to the call, so that an answer that is too large, redirected or compressed
 * ends it.
 *
 * A client that reads answers to their end, and gives `fetch` neither a dispatcher nor a body of ours, can be held to a
 * size only from outside. Node tells of every request on these channels; requests of others are left alone.
 *
 * @see https://github.com/nodejs/undici/blob/main/docs/docs/api/DiagnosticsChannel.md
 */
function withCall<T>(call: IpfsCall, work: () => T): T {
  if (!isSubscribed) subscribeToRequests()
  return currentCall.run(call, work)
}

function subscribeToRequests(): void {
  isSubscribed = true
  subscribe('undici:request:create', (message) => {
    const call = currentCall.getStore()
    if (call !== undefined) calls.set((message as RequestMessage).request, call)
  })
  subscribe('undici:client:sendHeaders', (message) => {
    const { request, socket } = message as SocketMessage
    calls.get(request)?.watchConnection(socket)
  })
  // From Node 24 on, and the only count where the answer comes over HTTP/2, which Node 26 speaks.
  subscribe('undici:request:bodyChunkReceived', (message) => {
    const { request, chunk } = message as ChunkMessage
    const call = calls.get(request)
    if (call === undefined) return
    const bytes = (bodyBytes.get(request) ?? 0) + chunk.length
    bodyBytes.set(request, bytes)
    if (bytes > call.maxBytes) call.end('ERR_IPFS_BAD_RESPONSE')
  })
  subscribe('undici:request:headers', (message) => {
    const { request, response } = message as HeadersMessage
    const isRedirect = response.statusCode >= 300 && response.statusCode < 400
    if (isRedirect || isCompressed(response.headers)) calls.get(request)?.end('ERR_IPFS_BAD_RESPONSE')
  })
}

/** Names and values alternate. */
function isCompressed(headers: HeadersMessage['response']['headers']): boolean {
  return headers.some((name, index) => index % 2 === 0 && name.toString().toLowerCase() === 'content-encoding')
}

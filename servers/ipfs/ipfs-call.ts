import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { ServerError, type ServerErrorCode } from '../http/server-error.js'

/** A call to an IPFS node with its deadline and its maximum response size. It may be ended early with an error code. */
export class IpfsCall {
  /** Maximum number of bytes received on the connection. It may grow while the response arrives. */
  maxBytes: number
  readonly #aborter = new AbortController()
  readonly #cleanups: (() => void)[] = []
  readonly #deadline: NodeJS.Timeout
  #isUnanswered = (): boolean => false
  #bodyBytes = 0

  constructor(maxBytes: number, deadlineMilliseconds: number) {
    watchRequests()
    this.maxBytes = maxBytes
    this.#deadline = this.endAfter(deadlineMilliseconds)
  }

  get signal(): AbortSignal {
    return this.#aborter.signal
  }

  /** Ends the call and its connection. Further calls of this method have no effect. */
  end(code: ServerErrorCode): void {
    this.#aborter.abort(new ServerError(code))
  }

  /** Ends the call with ERR_IPFS_TIMEOUT if it is still running after this time. */
  endAfter(milliseconds: number): NodeJS.Timeout {
    const timer = setTimeout(() => this.end('ERR_IPFS_TIMEOUT'), milliseconds)
    this.#cleanups.push(() => clearTimeout(timer))
    return timer
  }

  restartDeadline(): void {
    this.#deadline.refresh()
  }

  /** Counts the bytes that a connection receives from now on, because the request is sent on it. */
  watchConnection(socket: Socket): void {
    const bytesBefore = socket.bytesRead
    this.#isUnanswered = () => bytesBefore > 0 && socket.bytesRead === bytesBefore
    const count = (): void => {
      if (socket.bytesRead - bytesBefore > this.maxBytes) this.end('ERR_IPFS_BAD_RESPONSE')
    }
    socket.on('readable', count)
    this.#cleanups.push(() => socket.off('readable', count))
  }

  addBody(bytes: number): void {
    this.#bodyBytes += bytes
    if (this.#bodyBytes > this.maxBytes) this.end('ERR_IPFS_BAD_RESPONSE')
  }

  /** Executes the call, once. @throws ServerError as soon as the call is ended; errors of `work` */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const { signal } = this
    try {
      return await new Promise<T>((resolve, reject) => {
        const rejectOnce = (error: unknown): void => {
          // An ended request may fail with any error, so the reason of the end is used instead.
          reject(signal.aborted ? (signal.reason as ServerError) : (error as Error))
        }
        signal.addEventListener('abort', rejectOnce)
        this.#send(work).then(resolve, rejectOnce)
      })
    } finally {
      for (const cleanUp of this.#cleanups.splice(0)) cleanUp()
    }
  }

  /**
   * Sends the request. A request is lost if the node closes an idle connection at the same time. It is sent again if a
   * reused connection breaks before the first byte of the response. Each attempt consumes one reused connection.
   */
  async #send<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      this.#isUnanswered = () => false
      try {
        return await currentCall.run(this, work)
      } catch (error) {
        if (this.signal.aborted || !this.#isUnanswered()) throw error
      }
    }
  }
}

/** Messages of the diagnostics channels of `fetch`. Each channel sets some of the fields. */
interface RequestMessage {
  request: object
  socket: Socket
  chunk: Uint8Array
  response: { statusCode: number; headers: readonly (Buffer | string)[] }
}

const currentCall = new AsyncLocalStorage<IpfsCall>()
const calls = new WeakMap<object, IpfsCall>()
let isSubscribed = false

/**
 * Watches the requests of calls, so that a response that is too large, redirected or compressed ends its call. The
 * client reads complete responses and accepts no dispatcher for `fetch`. Only these diagnostics channels, on which Node
 * announces every request, can limit it. Other requests of the process are ignored.
 *
 * @see https://github.com/nodejs/undici/blob/main/docs/docs/api/DiagnosticsChannel.md
 */
function watchRequests(): void {
  if (isSubscribed) return
  isSubscribed = true
  const watch = (channel: string, onMessage: (call: IpfsCall, message: RequestMessage) => void): void =>
    subscribe(channel, (message) => {
      const call = calls.get((message as RequestMessage).request)
      if (call !== undefined) onMessage(call, message as RequestMessage)
    })
  subscribe('undici:request:create', (message) => {
    const call = currentCall.getStore()
    if (call !== undefined) calls.set((message as RequestMessage).request, call)
  })
  watch('undici:client:sendHeaders', (call, { socket }) => call.watchConnection(socket))
  // This channel exists since Node 24. Responses over HTTP/2, which Node 26 supports, are only counted here.
  watch('undici:request:bodyChunkReceived', (call, { chunk }) => call.addBody(chunk.length))
  watch('undici:request:headers', (call, { response: { statusCode, headers } }) => {
    // Names and values alternate.
    const isCompressed = headers.some((name, index) => index % 2 === 0 && /^content-encoding$/i.test(name.toString()))
    if (isCompressed || (statusCode >= 300 && statusCode < 400)) call.end('ERR_IPFS_BAD_RESPONSE')
  })
}

import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { ServerError, type ServerErrorCode } from '../http/server-error.js'

/** One call to a node: its deadline, the most that its answer may be, and why it was ended early, if it was. */
export class IpfsCall {
  /** Bytes on the wire. May grow while the answer arrives. */
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

  /** Ends the call and its connection. Only the first reason counts. */
  end(code: ServerErrorCode): void {
    this.#aborter.abort(new ServerError(code))
  }

  /** Ends the call with ERR_IPFS_TIMEOUT when it is not over by then. */
  endAfter(milliseconds: number): NodeJS.Timeout {
    const timer = setTimeout(() => this.end('ERR_IPFS_TIMEOUT'), milliseconds)
    this.#cleanups.push(() => clearTimeout(timer))
    return timer
  }

  restartDeadline(): void {
    this.#deadline.refresh()
  }

  /** Counts the bytes of a connection from now on, when the request is sent on it. */
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

  /** Executes the call, once. @throws ServerError as soon as the call is ended here; errors of the work */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const { signal } = this
    try {
      return await new Promise<T>((resolve, reject) => {
        const refuse = (error: unknown): void => {
          // A request that was ended here may fail with any error.
          reject(signal.aborted ? (signal.reason as ServerError) : (error as Error))
        }
        signal.addEventListener('abort', refuse)
        this.#send(work).then(resolve, refuse)
      })
    } finally {
      for (const cleanUp of this.#cleanups.splice(0)) cleanUp()
    }
  }

  /**
   * Sends the request. A node closes idle connections, and a request in that moment is lost. It is sent again if a
   * reused connection broke before the first byte of the response. Each attempt uses up a reused connection.
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
 * Watches the requests of calls, so that an answer that is too large, redirected or compressed ends its call. The
 * client reads answers to their end, and passes neither our dispatcher nor our body to `fetch`: only these channels, on
 * which Node announces every request, can limit it. Requests of others are ignored.
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
  // Available from Node 24 on. It is the only count of responses over HTTP/2, which Node 26 supports.
  watch('undici:request:bodyChunkReceived', (call, { chunk }) => call.addBody(chunk.length))
  watch('undici:request:headers', (call, { response: { statusCode, headers } }) => {
    // Names and values alternate.
    const isCompressed = headers.some((name, index) => index % 2 === 0 && /^content-encoding$/i.test(name.toString()))
    if (isCompressed || (statusCode >= 300 && statusCode < 400)) call.end('ERR_IPFS_BAD_RESPONSE')
  })
}

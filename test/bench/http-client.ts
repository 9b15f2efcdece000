import { connect, type Socket } from 'node:net'
import type { BenchWallet } from './wallets.js'

export interface Answer {
  status: number
  headers: string
  body: string
}

interface Pending {
  text: string
  isRetry: boolean
  resolve: (answer: Answer) => void
  reject: (error: Error) => void
}

/**
 * Keep-alive connection with minimal cost, because the load generator shares two cores with the measured server.
 * Responses must carry Content-Length.
 *
 * Servers close idle connections, for example after the machine was suspended. If a connection closes before any
 * response data, the request is sent once again on a new connection, as other HTTP clients do.
 */
export class Connection {
  readonly #port: number
  #socket: Socket | undefined
  #pending: Pending | undefined
  #received = ''

  constructor(port: number) {
    this.#port = port
  }

  get(path: string, headers = ''): Promise<Answer> {
    return this.#send(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`)
  }

  post(path: string, body: object, headers = ''): Promise<Answer> {
    return this.write('POST', path, JSON.stringify(body), headers)
  }

  /** Sends a request; if `text` is empty, its body is empty. @param headers - header lines that each end with CRLF */
  write(method: string, path: string, text: string, headers = '', type = 'application/json'): Promise<Answer> {
    const bodyHeaders = `Content-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(text)}`
    return this.#send(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${bodyHeaders}\r\n${headers}\r\n${text}`)
  }

  close(): void {
    this.#pending = undefined
    this.#socket?.destroy()
  }

  #send(text: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#pending = { text, isRetry: false, resolve, reject }
      this.#write(text)
    })
  }

  #write(text: string): void {
    if (this.#socket === undefined || this.#socket.destroyed) this.#socket = this.#connect()
    this.#socket.write(text, 'latin1')
  }

  #connect(): Socket {
    let failure = new Error('connection closed')
    const socket = connect({ port: this.#port, host: '127.0.0.1' }).setNoDelay(true).setEncoding('latin1')
    socket.on('data', (chunk) => {
      this.#received += String(chunk)
      this.#parse()
    })
    socket.on('error', (error) => (failure = error))
    socket.on('close', () => {
      const pending = this.#pending
      if (socket !== this.#socket || pending === undefined) return
      if (pending.isRetry || this.#received !== '') pending.reject(failure)
      else this.#write((this.#pending = { ...pending, isRetry: true }).text)
    })
    return socket
  }

  #parse(): void {
    const end = this.#received.indexOf('\r\n\r\n')
    if (end < 0) return
    const headers = this.#received.slice(0, end)
    const length = Number(/content-length: (\d+)/i.exec(headers)?.[1] ?? 0)
    if (this.#received.length < end + 4 + length) return
    const body = this.#received.slice(end + 4, end + 4 + length)
    this.#received = this.#received.slice(end + 4 + length)
    const pending = this.#pending
    this.#pending = undefined
    pending?.resolve({ status: Number(headers.slice(9, 12)), headers, body })
  }
}

/** Pool of connections to one server, with one connection per concurrent request. */
export class ConnectionPool {
  readonly #port: number
  readonly #idle: Connection[] = []

  constructor(port: number) {
    this.#port = port
  }

  /** Uses a free connection, and discards it if the work fails. */
  async use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = this.#idle.pop() ?? new Connection(this.#port)
    try {
      const result = await work(connection)
      this.#idle.push(connection)
      return result
    } catch (error) {
      connection.close()
      throw error
    }
  }

  close(): void {
    for (const connection of this.#idle) connection.close()
  }
}

export function assertStatus(answer: Answer, status = 200): Answer {
  if (answer.status !== status) throw new Error(`expected ${status}, got ${answer.status}: ${answer.body}`)
  return answer
}

export interface Tokens {
  accessToken: string
  refreshToken: string
}

/** Paths of the two login requests at the routes of this package. */
export const OURS = ['/request-auth', '/auth'] as const
/** Paths of plain Express routes that parse JSON and send responses of the same size. */
export const BARE = ['/bare-challenge', '/bare-tokens'] as const
/** Paths of the same routes, except that they discard the request body instead of parsing it. */
export const DRAINED = ['/drained-challenge', '/drained-tokens'] as const
export type LoginPaths = typeof OURS | typeof BARE | typeof DRAINED

/** Logs in with the protocol of this package. @returns the last response, even if it refuses the login */
export async function tryLogin(
  connection: Pick<Connection, 'post'>,
  wallet: BenchWallet,
  { paths = OURS, headers = '' }: { paths?: LoginPaths; headers?: string } = {}
): Promise<Answer> {
  const response = await connection.post(paths[0], { did: wallet.did }, headers)
  if (response.status !== 200) return response
  const { challenge } = JSON.parse(response.body) as { challenge: string }
  const sig = wallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
  const answer = await connection.post(paths[1], { did: wallet.did, sig }, headers)
  // The challenge may expire before the login request. Then try again, as every client does.
  return answer.body.endsWith(': expired') ? tryLogin(connection, wallet, { paths, headers }) : answer
}

export async function logIn(connection: Connection, wallet: BenchWallet, paths: LoginPaths = OURS): Promise<Tokens> {
  return JSON.parse(assertStatus(await tryLogin(connection, wallet, { paths })).body) as Tokens
}

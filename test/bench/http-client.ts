import { connect, type Socket } from 'node:net'

export interface Answer {
  status: number
  headers: string
  body: string
}

/**
 * One keep-alive connection that costs next to nothing: the load generator shares two cores with what it measures.
 * Answers must carry Content-Length.
 *
 * Servers close connections that were idle for some seconds, as on a machine that stood still. As HTTP clients do, it then
 * sends the request once more on a new one, if nothing of an answer has come.
 */
export class Connection {
  readonly #port: number
  #socket: Socket
  /** The last request, until it may not be sent again. */
  #unanswered: string | undefined
  #received = ''
  #settle: { resolve: (answer: Answer) => void; reject: (error: Error) => void } | undefined

  private constructor(port: number, socket: Socket) {
    this.#port = port
    this.#socket = this.#listenTo(socket)
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1' }, () => {
        resolve(new Connection(port, socket))
      })
      socket.once('error', reject)
    })
  }

  get(path: string, headers = ''): Promise<Answer> {
    return this.#send(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`)
  }

  post(path: string, body: object, headers = ''): Promise<Answer> {
    return this.write('POST', path, JSON.stringify(body), headers)
  }

  /** A request with a body, or none where it is empty. @param headers - each with its line end */
  write(method: string, path: string, json: string, headers = ''): Promise<Answer> {
    const length = Buffer.byteLength(json)
    return this.#send(
      `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n${headers}\r\n${json}`
    )
  }

  close(): void {
    this.#settle = undefined
    this.#socket.destroy()
  }

  #send(text: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#unanswered = text
      if (this.#socket.destroyed) this.#sendAgain(new Error('connection closed'))
      else this.#socket.write(text, 'latin1')
    })
  }

  /** @param error - why the connection was lost */
  #sendAgain(error: Error): void {
    const text = this.#unanswered
    if (this.#settle === undefined) return
    if (text === undefined || this.#received !== '') {
      this.#settle.reject(error)
      return
    }
    this.#unanswered = undefined
    this.#socket = this.#listenTo(connect({ port: this.#port, host: '127.0.0.1' }))
    this.#socket.write(text, 'latin1')
  }

  #listenTo(socket: Socket): Socket {
    let failure = new Error('connection closed')
    socket.setNoDelay(true)
    socket.setEncoding('latin1')
    socket.on('data', (chunk: string) => {
      this.#received += chunk
      this.#parse()
    })
    socket.on('error', (error) => (failure = error))
    socket.on('close', () => {
      if (socket === this.#socket) this.#sendAgain(failure)
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
    const settle = this.#settle
    this.#settle = undefined
    settle?.resolve({ status: Number(headers.slice(9, 12)), headers, body })
  }
}

/** As many connections to one server as requests are under way at once. */
export class ConnectionPool {
  readonly #port: number
  readonly #idle: Connection[] = []

  constructor(port: number) {
    this.#port = port
  }

  /** One that fails is not used again. */
  async use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = this.#idle.pop() ?? (await Connection.open(this.#port))
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

import type { IncomingHttpHeaders } from 'node:http'
import cookieParser from 'cookie-parser'
import type { Request, Response } from 'express'
import { rememberErrorCode } from '../error-answer.js'
import { DidAuthError } from '../errors.js'
import type { HttpAnswer, HttpRequest, RequestHeaders } from '../http-messages.js'
import { isObject } from '../protocol/json.js'

const CORS_ORIGIN = 'Access-Control-Allow-Origin'

const parseCookies = cookieParser()

/** Express request with the interface that the endpoints read. Each property is computed on access. */
export class ExpressRequest implements HttpRequest {
  readonly #req: Request

  constructor(req: Request) {
    this.#req = req
  }

  get method(): string {
    return this.#req.method
  }

  get originalUrl(): string {
    return this.#req.originalUrl
  }

  get mountPath(): string {
    return this.#req.baseUrl
  }

  get path(): string {
    return this.#req.path
  }

  get headers(): RequestHeaders {
    return this.#req.headers
  }

  /**
   * Cookies by name, parsed into a separate object. If cookie-parser set `req.cookies`, a later parser of the
   * application would skip the request.
   */
  get cookies(): Readonly<Record<string, unknown>> {
    const shim: { headers: IncomingHttpHeaders; cookies?: Record<string, unknown> } = { headers: this.#req.headers }
    // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- it reads headers.cookie only
    parseCookies(shim as Request, undefined as unknown as Response, () => undefined)
    return shim.cookies ?? {}
  }

  /** Address of the client according to the application's setting `trust proxy`. */
  get clientAddress(): string | undefined {
    return this.#req.ip
  }

  get isBehindUnknownProxy(): boolean {
    if (this.#req.headers['x-forwarded-for'] === undefined) return false
    const setting: unknown = this.#req.app.get('trust proxy')
    return setting === undefined || setting === false || setting === 0
  }

  get parsedBody(): unknown {
    const body: unknown = this.#req.body
    if (hasParsedBody(this.#req)) return body
    return this.#req.readableEnded ? {} : undefined
  }

  isGone(): boolean {
    return this.#req.socket.destroyed
  }

  accepts(types: string[]): string | false {
    return this.#req.accepts(types)
  }

  receiveBody(maxBytes: number): Promise<Uint8Array> {
    return receiveBody(this.#req, maxBytes)
  }
}

/**
 * Whether a body parser has read the body. An unread `{}` does not count: parsers of Express 4 set it for content types
 * that they skip.
 */
export function hasParsedBody(req: Request): boolean {
  const body: unknown = req.body
  const isPlaceholder = isObject(body) && Object.keys(body).length === 0 && !req.readableDidRead
  return body !== undefined && !isPlaceholder
}

/** Sends an answer. Keeps an `Access-Control-Allow-Origin` and cookies that the application has set. */
export function sendAnswer(res: Response, { status, headers, cookies, body = '', errorCode }: HttpAnswer): void {
  if (errorCode !== undefined) rememberErrorCode(res, errorCode)
  if (cookies !== undefined) res.append('Set-Cookie', [...cookies])
  const length = { 'Content-Length': Buffer.byteLength(body) }
  if (CORS_ORIGIN in headers && res.hasHeader(CORS_ORIGIN)) {
    const { [CORS_ORIGIN]: _ours, ...others } = headers
    res.writeHead(status, { ...others, ...length })
  } else res.writeHead(status, { ...headers, ...length })
  res.end(body)
}

function receiveBody(req: Request, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    req.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBytes) {
        chunks.push(chunk)
        return
      }
      // The rest is read and dropped: closing the connection while the client sends could lose the answer.
      chunks.length = 0
      reject(new DidAuthError('ERR_TOO_LARGE'))
    })
    req.on('end', () => resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)))
    // ERR_JSON is a 400, because an early disconnect is not a failure of the service. The client gets no answer.
    const onBroken = (): void => {
      if (!req.readableEnded) reject(new DidAuthError('ERR_JSON'))
    }
    req.on('error', onBroken)
    req.on('close', onBroken)
    if (req.destroyed) onBroken()
    // The application may have paused the request, for example during a database query.
    req.resume()
  })
}

import { Buffer } from 'node:buffer'
import { parseCookies } from '../cookies.js'
import { DidAuthError } from '../errors.js'
import { computeClientNetwork, isClientAddress } from '../http/client-network.js'
import type { HttpAnswer, HttpRequest, RequestHeaders } from '../http-messages.js'
import { negotiateType } from './negotiate-type.js'

type BodyReader = ReadableStreamDefaultReader<Uint8Array>

/** Path of a request, divided as Express divides it. */
export interface RequestTarget {
  /** Path and query. */
  readonly originalUrl: string
  /** The mount path as the client spells it. Empty at the root, and for a request that is not below it. */
  readonly mountPath: string
  /** Path below the mount path. Undefined if the request is not below it. */
  readonly path: string | undefined
}

/**
 * Divides the URL of a request. As in Express, case and a trailing slash of the mount path make no difference.
 * @throws TypeError for a mount path without slash at its start
 */
export function parseTarget(url: string, mountPath: string): RequestTarget {
  if (mountPath !== '' && !mountPath.startsWith('/')) throw new TypeError('mountPath starts with a slash, such as /api')
  const start = url.indexOf('/', url.indexOf('//') + 2)
  const originalUrl = start < 0 ? '/' : url.slice(start).replace(/#.*/s, '')
  const pathname = originalUrl.replace(/\?.*/s, '')
  const { length } = mountPath.endsWith('/') ? mountPath.slice(0, -1) : mountPath
  const isBelow = pathname.slice(0, length).toLowerCase() === mountPath.slice(0, length).toLowerCase()
  const path = pathname.slice(length) || '/'
  if (!isBelow || !path.startsWith('/')) return { originalUrl, mountPath: '', path: undefined }
  return { originalUrl, mountPath: pathname.slice(0, length), path }
}

/** Reads single headers by name: copying all of them would take longer than the rest of the guard. */
const headerReader: ProxyHandler<Headers> = {
  get(headers, name) {
    // If a runtime joins two `Cookie` headers by a comma, the cookies after it are part of the value before it: also a
    // cookie of a sibling domain may contain a comma, and none of them can set a name with `__Host-`.
    return (typeof name === 'string' ? headers.get(name) : null) ?? undefined
  }
}

const UNKNOWN_PROXY =
  "X-Forwarded-For does not contain clientAddress, so all callers share a proxy's address: pass the one that it reports"

/** Whether an address is that of a proxy, because the addresses that the proxy was told do not contain its network. */
function isOfProxy(clientAddress: string | undefined, forwardedFor: string | string[] | undefined): boolean {
  if (clientAddress === undefined || forwardedFor === undefined) return false
  const network = computeClientNetwork(clientAddress)
  return !String(forwardedFor)
    .split(',')
    .some((entry) => isClientAddress(entry.trim()) && computeClientNetwork(entry.trim()) === network)
}

/** Request of the Fetch API with the interface that the endpoints read. */
export class FetchRequest implements HttpRequest {
  readonly #request: Request
  readonly method: string
  readonly originalUrl: string
  readonly mountPath: string
  readonly headers: RequestHeaders
  /** Address that the application gave, unless it is no IP address. */
  readonly clientAddress: string | undefined
  readonly isGone = (): boolean => this.#request.signal.aborted

  constructor(request: Request, { originalUrl, mountPath }: RequestTarget, clientAddress: unknown) {
    this.#request = request
    this.method = request.method
    this.originalUrl = originalUrl
    this.mountPath = mountPath
    this.headers = new Proxy(request.headers, headerReader) as unknown as RequestHeaders
    this.clientAddress = typeof clientAddress === 'string' && isClientAddress(clientAddress) ? clientAddress : undefined
  }

  /** Warning if `X-Forwarded-For` does not contain the address, so that it is probably that of a proxy. */
  get unknownProxy(): string | undefined {
    return isOfProxy(this.clientAddress, this.headers['x-forwarded-for']) ? UNKNOWN_PROXY : undefined
  }

  get cookies(): Readonly<Record<string, unknown>> {
    return parseCookies(this.#request.headers.get('cookie') ?? undefined)
  }

  accepts(types: string[]): string | false {
    return negotiateType(this.headers.accept, types)
  }

  async receiveBody(maxBytes: number | undefined): Promise<unknown> {
    if (maxBytes === undefined) return undefined
    const { body, bodyUsed } = this.#request
    if (bodyUsed || body?.locked === true) {
      const cause = new Error(
        'the body of this request was read before didAuth.fetch, for example by a validator: mount the login first, ' +
          'or pass new Request(url, { method, headers, body })'
      )
      throw new DidAuthError('ERR_CONFIG', { cause })
    }
    if (body === null) return new Uint8Array()
    const reader = body.getReader()
    if (Number(this.headers['content-length'] ?? 0) > maxBytes) throw refuseRest(reader)
    return receiveBytes(reader, maxBytes)
  }
}

async function receiveBytes(reader: BodyReader, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    // ERR_JSON is a 400, because an early disconnect is not a failure of the service. The client gets no answer.
    const { done, value } = await reader.read().catch(() => Promise.reject(new DidAuthError('ERR_JSON')))
    if (done) return Buffer.concat(chunks)
    size += value.length
    if (size > maxBytes) throw refuseRest(reader)
    chunks.push(value)
  }
}

/**
 * Returns the refusal of a body that is too large. Its rest is read and dropped: closing the connection while the
 * client sends could lose the answer. A cancelled body of Node 20, or of h3 1, ends the process with the next chunk.
 */
function refuseRest(reader: BodyReader): DidAuthError {
  const drop = async (): Promise<void> => {
    while (!(await reader.read()).done);
  }
  drop().catch(() => undefined)
  return new DidAuthError('ERR_TOO_LARGE')
}

/** Creates the response of an answer. HEAD gets no body. */
export function toResponse({ status, headers, cookies = [], body = '' }: HttpAnswer, method: string): Response {
  // The length of a 304 would be that of the answer that the client has. A 204 may have none.
  const length =
    status === 304 || status === 204 ? {} : { 'Content-Length': String(new TextEncoder().encode(body).length) }
  const hasBody = method !== 'HEAD' && body !== ''
  const response = new Response(hasBody ? body : null, { status, headers: { ...headers, ...length } })
  for (const cookie of cookies) response.headers.append('Set-Cookie', cookie)
  return response
}

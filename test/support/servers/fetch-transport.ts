import type { ExpressApp, RequireDid, DidAuthConfig } from 'express-did-auth'
import type { Request as ExpressRequest, Response as ExpressResponse, RequestHandler } from 'express'
import { createDidAuth, type OptionalAuthenticateOptions } from 'express-did-auth/fetch'

type GuardOptions = Partial<OptionalAuthenticateOptions>

const requests = new WeakMap<ExpressRequest, Request>()

/** Sets up the login as `setupDidAuth` does, but by the adapter for the Fetch API: Express is only its transport. */
export function setupByFetch(app: ExpressApp, config: DidAuthConfig): RequireDid {
  const didAuth = createDidAuth(config)
  const contextOf = ({ ip, baseUrl }: ExpressRequest) => ({ clientAddress: ip, mountPath: baseUrl })
  app.use((req, res, next) => {
    const send = (response: Response | undefined): unknown => (response ? sendResponse(response, res) : next())
    didAuth.fetch(toRequest(req, res), contextOf(req)).then(send).catch(next)
  })
  const guard =
    ({ optional = false, ...options }: GuardOptions = {}): RequestHandler =>
    (req, res, next) => {
      const request = toRequest(req, res)
      didAuth.authenticate(request, { ...options, optional, ...contextOf(req) }).then(
        (authentication) => {
          Object.assign(req, authentication ?? { user: undefined, auth: undefined })
          next()
        },
        (error: unknown) => sendResponse(didAuth.errorResponse(error, request), res)
      )
    }
  const requireDid = {
    with: guard,
    approved: () => {
      throw new Error('approvals need Express')
    },
    optional: guard({ optional: true }),
    ready: didAuth.ready,
    sessions: didAuth.sessions,
    close: () => didAuth.close()
  }
  return Object.assign(guard(), requireDid) as unknown as RequireDid
}

/** Converts a request of Node, once, so that two guards see the same one. */
function toRequest(req: ExpressRequest, res: ExpressResponse): Request {
  const known = requests.get(req)
  if (known !== undefined) return known
  const { method, originalUrl, rawHeaders } = req
  const headers = new Headers()
  rawHeaders.forEach((value, at) => at % 2 === 1 && headers.append(rawHeaders[at - 1]!, value))
  const gone = new AbortController()
  res.once('close', () => gone.abort())
  const body = method === 'GET' || method === 'HEAD' ? null : toStream(req)
  const request = new Request(`http://host${originalUrl}`, {
    method,
    headers,
    signal: gone.signal,
    body,
    duplex: 'half'
  })
  requests.set(req, request)
  return request
}

/** Streams a body, which stays unread until somebody reads the stream. */
function toStream(req: ExpressRequest): ReadableStream<Uint8Array> {
  const listen = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    req.on('data', (chunk: Uint8Array) => {
      req.pause()
      controller.enqueue(chunk)
    })
    req.on('end', () => controller.close())
    req.on('close', () => req.readableEnded || controller.error(new Error('the client disconnected')))
  }
  let isListening = false
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (!isListening) listen(controller)
        isListening = true
        req.resume()
      }
    },
    { highWaterMark: 0 }
  )
}

async function sendResponse(response: Response, res: ExpressResponse): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer())
  if (res.headersSent || res.destroyed) return
  res.status(response.status)
  for (const [name, value] of response.headers) {
    const isHosts = name === 'access-control-allow-origin' && res.hasHeader(name)
    if (name !== 'set-cookie' && !isHosts) res.setHeader(name, value)
  }
  const cookies = response.headers.getSetCookie()
  if (cookies.length > 0) res.append('Set-Cookie', cookies)
  res.end(body)
}

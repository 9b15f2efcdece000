import type { ErrorRequestHandler, Request, RequestHandler } from 'express'
import { clientTracking, currentClient } from '../current-client.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import { createClient } from '../http/client-network.js'
import type { HttpParts } from '../http/guard.js'
import { answerRequest, createRouteFinder, listRoutes, type RouteMatch } from '../http/routes.js'
import { readField } from '../protocol/json.js'
import { ExpressRequest, sendAnswer } from './express-request.js'

/** Any Express 4.18+ or 5 application or router. */
export interface ExpressApp {
  /** Adds a handler for all paths. */
  use(handler: RequestHandler): unknown
  /** Adds a handler of errors for the paths of the library's routes. */
  use(path: RegExp, handler: ErrorRequestHandler): unknown
}

/** Error codes by the `type` of errors of body-parser, which is `express.json()`. */
const PARSER_REFUSALS: ReadonlyMap<unknown, DidAuthErrorCode> = new Map([
  ['entity.parse.failed', 'ERR_JSON'],
  ['encoding.unsupported', 'ERR_JSON'],
  ['charset.unsupported', 'ERR_JSON'],
  ['request.aborted', 'ERR_JSON'],
  ['request.size.invalid', 'ERR_JSON'],
  ['entity.verify.failed', 'ERR_JSON'],
  ['entity.too.large', 'ERR_TOO_LARGE'],
  // Two refusals by express.urlencoded, which the token endpoint may need.
  ['parameters.too.many', 'ERR_TOO_LARGE'],
  ['querystring.parse.rangeError', 'ERR_INVALID']
])

/**
 * Middleware that names the client which sent a request to everything after it, so that a store whose connections are
 * all in use serves client networks in turn. `setupDidAuth` includes it; it is for servers that use a store without.
 */
export const handleAsClient: RequestHandler = (req, _res, next) => {
  if (clientTracking.isOn) currentClient.run(createClient(new ExpressRequest(req)), () => next())
  else next()
}

/**
 * Mounts our routes, with their body reader and error handler; other requests pass unchanged. If a parser of the
 * application refuses the body of a request to our routes, our error answer is sent as well.
 */
export function mountRoutes(app: ExpressApp, http: HttpParts): void {
  const routes = listRoutes(http.settings)
  const findRoute = createRouteFinder(routes)
  const find = (req: Request): RouteMatch | undefined => findRoute(req, (rule) => req.app.enabled(rule))

  const answer: RequestHandler = (req, res, next) => {
    handleAsClient(req, res, () => {
      const match = find(req)
      if (match === undefined) {
        next()
        return
      }
      answerRequest(http, match, new ExpressRequest(req))
        .then((answered) => {
          if (!res.headersSent && !res.destroyed) sendAnswer(res, answered)
        })
        // Only the application's own code can fail now: its logger, or its hooks on the response.
        .catch(next)
    })
  }

  // Express recognises an error handler by its four parameters.
  const answerParserError: ErrorRequestHandler = (error: unknown, req, res, next) => {
    const refusal = toParserRefusal(error)
    const route = find(req)?.route
    if (refusal === undefined || route === undefined) {
      next(error)
      return
    }
    const request = new ExpressRequest(req)
    sendAnswer(res, route.answerError?.(http, request, refusal) ?? http.answerError(request, refusal))
  }

  app.use(answer)
  app.use(createStartPattern(routes.map(({ path }) => path)), answerParserError)
}

/** Converts a refusal of the application's parser, else undefined. The cause is dropped, because it quotes the body. */
export function toParserRefusal(error: unknown): DidAuthError | undefined {
  const code = PARSER_REFUSALS.get(readField(error, 'type'))
  if (code !== undefined) return new DidAuthError(code)
  // A compressed body that is damaged. @see Node's documentation of zlib
  return /^Z_/.test(String(readField(error, 'code'))) ? new DidAuthError('ERR_INVALID') : undefined
}

/** Creates a pattern whose match is empty, so that Express leaves the path as it is, and skips other paths. */
function createStartPattern(paths: string[]): RegExp {
  const quoted = paths.map((path) => path.replace(/\/$/, '').replace(/[^\w/-]/g, String.raw`\$&`))
  return new RegExp(`^(?=(?:${quoted.join('|')})(?:/|$))`, 'i')
}

import type { Settings } from '../config/settings.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { assertSameSite } from '../protocol/cross-origin.js'
import { parseHttpUrl } from '../protocol/parse-url.js'
import {
  answerLoginChallenge,
  answerNonce,
  answerPostedLoginChallenge,
  answerPostedSignUpChallenge,
  answerSignUpChallenge
} from './challenge.js'
import type { HttpParts } from './guard.js'
import { answerLogIn, answerSignUp, answerSiweLogIn } from './log-in.js'
import { answerLogOut, answerLogOutError } from './log-out.js'
import { answerAuthorization, answerMachineError, answerMachineToken } from './machine-token.js'
import { ALL_ORIGINS, answerPreflight } from './public-answers.js'
import { answerDiscovery, answerEndedSessions, answerKeys, answerServerMetadata } from './published.js'
import { answerRefresh } from './refresh.js'
import { answerResourceToken } from './resource-token.js'
import { answerOwnSession, answerRevokedSession, answerSessions } from './sessions.js'

/** Route of the library. It matches `path`, or `path/:parameter` with `hasParameter`. A GET route also answers HEAD. */
export interface Route {
  method: 'GET' | 'POST' | 'DELETE' | 'OPTIONS'
  path: string
  hasParameter?: true
  /**
   * Whether cookie mode refuses requests that another site made a browser send. Other unsafe routes check this
   * themselves.
   */
  isSameSiteOnly?: true
  /** Whether pages of every origin may read all answers, errors included: none depends on cookies. */
  isPublic?: true
  /** Answers a request, or rejects with the error to answer. The parameter is the last segment of the path. */
  answer: (http: HttpParts, request: HttpRequest, parameter: unknown) => Promise<HttpAnswer>
  /** Answers what `answer` rejects with. Default: `answerError` of {@link HttpParts}. */
  answerError?: (http: HttpParts, request: HttpRequest, error: unknown) => HttpAnswer
}

/** Route that a request matches, and the request's parameter. */
export interface RouteMatch {
  route: Route
  parameter?: string | undefined
}

/** Express settings that make the comparison of paths stricter. */
export type RoutingRule = 'strict routing' | 'case sensitive routing'

const METADATA_PATH = '/.well-known/oauth-authorization-server'

type RouteWithOptionalPath = Omit<Route, 'path'> & { path: string | undefined }

/** Lists the routes whose path is configured. */
export function listRoutes(settings: Settings): Route[] {
  const { paths, siwe } = settings
  const logout = { answer: answerLogOut, answerError: answerLogOutError }
  const routes: RouteWithOptionalPath[] = [
    { method: 'POST', path: paths.requestSignup, isSameSiteOnly: true, answer: answerPostedSignUpChallenge },
    { method: 'GET', path: paths.requestSignup, hasParameter: true, answer: answerSignUpChallenge },
    { method: 'POST', path: paths.signup, isSameSiteOnly: true, answer: answerSignUp },
    { method: 'POST', path: paths.requestAuth, isSameSiteOnly: true, answer: answerPostedLoginChallenge },
    { method: 'GET', path: paths.requestAuth, hasParameter: true, answer: answerLoginChallenge },
    { method: 'POST', path: paths.auth, isSameSiteOnly: true, answer: answerLogIn },
    { method: 'POST', path: paths.refreshToken, isSameSiteOnly: true, answer: answerRefresh },
    { method: 'POST', path: paths.logout, ...logout },
    { method: 'GET', path: paths.session, answer: answerOwnSession },
    { method: 'GET', path: paths.sessions, answer: answerSessions },
    { method: 'DELETE', path: paths.sessions, hasParameter: true, answer: answerRevokedSession },
    { method: 'POST', path: paths.resourceToken, answer: answerResourceToken },
    ...listPublicRoutes(settings)
  ]
  if (siwe !== undefined) {
    const answerSiweNonce: Route['answer'] = (http, request) => answerNonce(http, siwe, request)
    const answerSiwe: Route['answer'] = (http, request) => answerSiweLogIn(http, siwe, request)
    routes.push(
      { method: 'GET', path: `${siwe.path}/nonce`, answer: answerSiweNonce },
      { method: 'POST', path: `${siwe.path}/nonce`, isSameSiteOnly: true, answer: answerSiweNonce },
      { method: 'POST', path: `${siwe.path}/verify`, isSameSiteOnly: true, answer: answerSiwe },
      { method: 'POST', path: `${siwe.path}/logout`, ...logout }
    )
  }
  return routes.filter((route): route is Route => route.path !== undefined)
}

/** Lists the routes that pages of every origin may use, each path with its answer to a preflight request. */
function listPublicRoutes(settings: Settings): RouteWithOptionalPath[] {
  const { paths } = settings
  const routes: RouteWithOptionalPath[] = [
    { method: 'POST', path: paths.token, answer: answerMachineToken, answerError: answerMachineError },
    { method: 'GET', path: paths.token, answer: answerAuthorization },
    { method: 'GET', path: paths.jwks, answer: answerKeys },
    ...listMetadataPaths(settings).map((path) => ({ method: 'GET' as const, path, answer: answerServerMetadata })),
    { method: 'GET', path: paths.endedSessions, answer: answerEndedSessions },
    { method: 'GET', path: paths.discovery, answer: answerDiscovery }
  ]
  return routes.flatMap((route) => [
    { ...route, isPublic: true as const },
    { method: 'OPTIONS' as const, path: route.path, isPublic: true as const, answer: answerPreflight }
  ])
}

/**
 * Lists the paths of the metadata for OAuth: also the one that ends with the path of `serviceUrl`, as readers compute
 * it. Only an http(s) URL is an issuer. @see RFC 8414, section 3.1
 */
function listMetadataPaths({ resources, serviceUrl }: Pick<Settings, 'resources' | 'serviceUrl'>): string[] {
  const url = resources.length > 0 ? parseHttpUrl(serviceUrl) : undefined
  if (url === undefined) return []
  const path = url.pathname.replace(/\/$/, '')
  return [...new Set([METADATA_PATH, METADATA_PATH + path])]
}

/** Answers a request to a route, its errors included. */
export async function answerRequest(
  http: HttpParts,
  { route, parameter }: RouteMatch,
  request: HttpRequest
): Promise<HttpAnswer> {
  try {
    if (route.isSameSiteOnly === true && http.transport.useCookies) {
      assertSameSite(request, http.settings.trustedOrigins)
    }
    return toPublic(route, await route.answer(withRequestId(http, request.id), request, parameter))
  } catch (error) {
    return answerRouteError(http, route, request, error)
  }
}

/** Answers an error of a route. */
export function answerRouteError(http: HttpParts, route: Route, request: HttpRequest, error: unknown): HttpAnswer {
  return toPublic(route, route.answerError?.(http, request, error) ?? http.answerError(request, error))
}

/** Lets pages of every origin read the answer of a public route. */
function toPublic({ isPublic }: Route, answer: HttpAnswer): HttpAnswer {
  return isPublic === true ? { ...answer, headers: { ...answer.headers, ...ALL_ORIGINS } } : answer
}

/** Returns the dependencies of the endpoints with parts whose log lines contain the id of the request. */
function withRequestId(http: HttpParts, requestId: string | undefined): HttpParts {
  return requestId === undefined ? http : { ...http, parts: () => http.parts(requestId) }
}

/**
 * Creates a function that finds the route of a request, or returns undefined for a request of the application. One or
 * two lookups in a table replace the patterns that Express would try for every request. As in Express, case and one
 * trailing slash make no difference, unless the application enables a {@link RoutingRule}.
 */
export function createRouteFinder(
  routes: readonly Route[]
): (
  request: { readonly method: string; readonly path: string },
  isEnabled: (rule: RoutingRule) => boolean
) => RouteMatch | undefined {
  // Keys of routes with a parameter end with ` :`. The path of a request contains no space, so it never equals one.
  const table = new Map(
    routes.map((route) => [toRouteKey(route.method, route.path) + (route.hasParameter ? ' :' : ''), route])
  )
  return (request, isEnabled) => {
    const { path } = request
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const route = table.get(toRouteKey(method, path))
    if (route !== undefined && hasSameSpelling(isEnabled, path, route.path)) return { route }
    const trimmed = trimSlash(path)
    const slash = trimmed.lastIndexOf('/')
    const parent = table.get(`${toRouteKey(method, trimmed.slice(0, slash))} :`)
    const isParent = parent !== undefined && slash + 1 < trimmed.length
    if (!isParent || !hasSameSpelling(isEnabled, path, trimSlash(parent.path) + trimmed.slice(slash))) return undefined
    return { route: parent, parameter: decodeSegment(trimmed.slice(slash + 1)) }
  }
}

/**
 * Whether the enabled rules accept the spelling of a path. To save time, the caller first finds the path in the table,
 * so the two paths differ at most in case and last slash.
 */
function hasSameSpelling(isEnabled: (rule: RoutingRule) => boolean, path: string, configured: string): boolean {
  if (path === configured) return true
  if (isEnabled('strict routing') && path.endsWith('/') !== configured.endsWith('/')) return false
  return !isEnabled('case sensitive routing') || trimSlash(path) === trimSlash(configured)
}

function toRouteKey(method: string, path: string): string {
  return `${method} ${trimSlash(path).toLowerCase()}`
}

function trimSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

/** Decodes a path segment. Returns undefined for malformed percent-encoding, which the route handles. */
function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

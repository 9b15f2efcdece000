import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express'
import type { SiweSettings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import { authenticate } from '../flows/authenticate.js'
import { assertProofBudget, charge, type Caller } from '../flows/limits.js'
import { issueResourceToken } from '../flows/issue-tokens.js'
import { logInWithSiwe } from '../flows/log-in-with-siwe.js'
import { logIn, signUp, usesDisclosure } from '../flows/log-in.js'
import {
  listOwnSessions,
  logOut,
  logOutByRefreshToken,
  readOwnSession,
  revokeOwnSession
} from '../flows/manage-sessions.js'
import type { Parts } from '../flows/parts.js'
import { refreshTokens } from '../flows/refresh-tokens.js'
import { issueNonce } from '../flows/siwe-nonce.js'
import { requestLoginChallenge, requestSignUpChallenge } from '../flows/request-challenge.js'
import { assertSameSite } from '../protocol/cross-origin.js'
import { networkOfDid, parseDid } from '../protocol/did.js'
import { readField } from '../protocol/json.js'
import { createRouteUrl } from '../protocol/parse-url.js'
import { handleAsClient } from './client-network.js'
import { createRouteFinder, type Answer, type Route } from './find-route.js'
import { toParserRefusal, readBody, readIdempotencyKey, readLogin, readSignUp, readSiweLogin } from './read-request.js'
import { assertNotForged, passWithDid, type HttpParts } from './require-did.js'
import { sendEmpty, sendJson, sendText } from './send-answer.js'

/** Bytes that a body may have: a sign up carries up to 20 credentials of 16 KiB. */
const MAX_BODY_BYTES = 16 * 1024
const MAX_SIGN_UP_BODY_BYTES = 512 * 1024
const MAX_SIWE_BODY_BYTES = 32 * 1024

/** Whether a client names JSON in `Accept`; browsers and axios name other types as well. */
const NAMES_JSON = /(?:^|,)\s*application\/json\s*(?:[;,]|$)/i

/** Form of a session's id. Anything else never reaches a store. */
const SESSION_ID = /^[\w-]{1,64}$/

/** Any Express 4.18+ or 5 application or router. */
export interface ExpressApp {
  use(handler: RequestHandler): unknown
  use(path: RegExp, handler: ErrorRequestHandler): unknown
}

/**
 * Mounts our routes, with their body reader and error handler; other requests pass untouched. Where a parser of the
 * application refuses the body of a request to our routes, our error answer is sent as well.
 */
export function mountRoutes(app: ExpressApp, http: HttpParts): void {
  const { settings, transport } = http
  const { paths, siwe } = settings

  const unsafe =
    (answer: Answer): Answer =>
    async (req, res) => {
      if (transport.useCookies) assertSameSite(req, settings.trustedOrigins)
      await answer(req, res)
    }

  /** Reads the body only where no cookie has the token. */
  const readRefreshToken = async (req: Request): Promise<unknown> =>
    transport.readRefreshCookie(req) ?? readField(await readBody(req, MAX_BODY_BYTES), 'refreshToken')

  const challenge =
    (request: typeof requestSignUpChallenge): Answer =>
    async (req, res, received) => {
      const did = parseDid(received)
      const [parts, client] = [await http.parts(), http.callerOf(req)]
      await charge(parts, client, 'didRequests', did)
      const { expiresInSeconds, ...body } = await request(parts, did, { mountPath: req.baseUrl, client })
      sendJson(res, body, { 'Challenge-Expires-In': String(expiresInSeconds) })
    }
  const didFromBody =
    (answer: Answer): Answer =>
    async (req, res) => {
      await answer(req, res, readField(await readBody(req, MAX_BODY_BYTES), 'did'))
    }
  const signUpChallenge = challenge(requestSignUpChallenge)
  const loginChallenge = challenge(requestLoginChallenge)

  /** Handles a route whose body proves its sender: checks the client's budget of proofs before it reads the body. */
  const proving = (prove: (client: Caller, req: Request, res: Response) => Promise<void>): Answer =>
    unsafe(async (req, res) => {
      const client = http.callerOf(req)
      assertProofBudget(http, client)
      await prove(client, req, res)
    })

  // The parts of a login are made when its body is here: their deadline begins then, and a body may take 30 s.
  const login = proving(async (client, req, res) => {
    const body = readLogin(await readBody(req, MAX_BODY_BYTES))
    transport.sendTokens(res, await logIn(await http.parts(), { ...body, client }))
  })

  const maxSignUpBytes = usesDisclosure(settings) ? MAX_SIGN_UP_BODY_BYTES : MAX_BODY_BYTES
  const signup = proving(async (client, req, res) => {
    const body = readSignUp(await readBody(req, maxSignUpBytes))
    transport.sendTokens(res, await signUp(await http.parts(), { ...body, client }))
  })

  const refresh: Answer = async (req, res) => {
    const idempotencyKey = readIdempotencyKey(req)
    const refreshToken = await readRefreshToken(req)
    const request = { refreshToken, idempotencyKey, client: http.callerOf(req) }
    const { isRepeated, ...tokens } = await refreshTokens(await http.parts(), request)
    transport.sendTokens(res, tokens, isRepeated ? { 'Idempotent-Replayed': 'true' } : {})
  }

  /** Ends the session of a valid access token, else that of the refresh token. */
  const endSession = async (req: Request): Promise<void> => {
    try {
      // Only this service's tokens: the session of another service's token is at that service.
      assertNotForged(http, req)
      const parts = await http.parts()
      const { claims } = await authenticate(parts, transport.readAccessToken(req))
      await logOut(parts, claims.sid)
    } catch (error) {
      if (!isTokenRefusal(error)) throw error
      const refreshToken = await readRefreshToken(req)
      if (refreshToken === undefined) throw error
      await logOutByRefreshToken(await http.parts(), refreshToken)
    }
  }

  /** Clears the cookies after a refused logout, except for a foreign page, which must not log a visitor out. */
  const refusedLogOut = (req: Request, res: Response, error: unknown): unknown => {
    try {
      assertNotForged(http, req)
    } catch (forgery) {
      return forgery
    }
    transport.clearTokens(res)
    return error
  }

  const logout: Answer = async (req, res) => {
    try {
      await endSession(req)
    } catch (error) {
      throw refusedLogOut(req, res, error)
    }
    transport.clearTokens(res)
    sendEmpty(res)
  }

  // Pages poll it, so that it neither refuses nor counts.
  const ownSession: Answer = async (req, res) => {
    const found = await readOwnSession(await http.parts(), {
      accessToken: () => transport.readAccessToken(req),
      refreshToken: () => transport.readRefreshCookie(req)
    })
    sendJson(res, found ?? {})
  }

  const listSessions: Answer = async (req, res) => {
    const { parts, user } = await passWithDid(http, req, {})
    sendJson(res, await listOwnSessions(parts, user))
  }

  const revokeSession: Answer = async (req, res, sessionId) => {
    const { parts, user } = await passWithDid(http, req, {})
    if (typeof sessionId !== 'string' || !SESSION_ID.test(sessionId)) throw new DidAuthError('ERR_SESSION_NOT_FOUND')
    await revokeOwnSession(parts, user, sessionId)
    sendEmpty(res)
  }

  const resourceToken: Answer = async (req, res) => {
    const { parts, user } = await passWithDid(http, req, { checkSession: true })
    const { resource } = await readBody(req, MAX_BODY_BYTES)
    sendJson(res, await issueResourceToken(parts, user, resource))
  }

  /** Handles a public route: pages of every origin may read it, unless the application's own CORS decides. */
  const published =
    (describe: (parts: Parts, mountPath: string) => object | Promise<object>): Answer =>
    async (req, res) => {
      if (!res.hasHeader('Access-Control-Allow-Origin')) res.setHeader('Access-Control-Allow-Origin', '*')
      const body = await describe(await http.parts(), req.baseUrl)
      sendJson(res, body, { 'Cache-Control': 'public, max-age=300' })
    }

  const siweRoutes = (siwe: SiweSettings): Route[] => {
    const nonce: Answer = async (req, res) => {
      const parts = await http.parts()
      await charge(parts, http.callerOf(req), 'nonces')
      const { nonce, expiresInSeconds } = issueNonce(parts, siwe)
      const headers = { 'Challenge-Expires-In': String(expiresInSeconds) }
      if (req.method === 'POST' || NAMES_JSON.test(req.headers.accept ?? '')) sendJson(res, { nonce }, headers)
      else sendText(res, nonce, headers)
    }
    const verify = proving(async (client, req, res) => {
      const body = readSiweLogin(await readBody(req, MAX_SIWE_BODY_BYTES))
      const { tokens, user } = await logInWithSiwe(await http.parts(), siwe, { ...body, client })
      transport.sendTokens(res, tokens, {}, user)
    })
    const { path } = siwe
    return [
      { method: 'GET', path: `${path}/nonce`, answer: nonce },
      { method: 'POST', path: `${path}/nonce`, answer: unsafe(nonce) },
      { method: 'POST', path: `${path}/verify`, answer: verify },
      { method: 'POST', path: `${path}/logout`, answer: logout }
    ]
  }

  // A route is there where its path is configured.
  const known: (Omit<Route, 'path'> & { path: string | undefined })[] = [
    { method: 'POST', path: paths.requestSignup, answer: unsafe(didFromBody(signUpChallenge)) },
    { method: 'GET', path: paths.requestSignup, hasParameter: true, answer: signUpChallenge },
    { method: 'POST', path: paths.signup, answer: signup },
    { method: 'POST', path: paths.requestAuth, answer: unsafe(didFromBody(loginChallenge)) },
    { method: 'GET', path: paths.requestAuth, hasParameter: true, answer: loginChallenge },
    { method: 'POST', path: paths.auth, answer: login },
    { method: 'POST', path: paths.refreshToken, answer: unsafe(refresh) },
    { method: 'POST', path: paths.logout, answer: logout },
    { method: 'GET', path: paths.session, answer: ownSession },
    { method: 'GET', path: paths.sessions, answer: listSessions },
    { method: 'DELETE', path: paths.sessions, hasParameter: true, answer: revokeSession },
    { method: 'POST', path: paths.resourceToken, answer: resourceToken },
    { method: 'GET', path: paths.jwks, answer: published((parts) => parts.resourceKeys.publish()) },
    { method: 'GET', path: paths.discovery, answer: published(describeService) },
    ...(siwe === undefined ? [] : siweRoutes(siwe))
  ]
  const routes = known.filter((route): route is Route => route.path !== undefined)
  const find = createRouteFinder(routes)

  const answerRequest: RequestHandler = (req, res, next) => {
    handleAsClient(req, res, () => {
      const found = find(req)
      if (found === undefined) {
        next()
        return
      }
      found
        .answer(req, res, found.parameter)
        .catch((error: unknown) => http.sendError(req, res, error))
        // Only the application's own code can fail now: its logger, or its hooks on the response.
        .catch(next)
    })
  }

  // Express knows an error handler by its four parameters.
  const answerParserError: ErrorRequestHandler = (error: unknown, req, res, next) => {
    const refusal = toParserRefusal(error)
    const found = find(req)
    if (refusal === undefined || found === undefined) next(error)
    else http.sendError(req, res, found.answer === logout ? refusedLogOut(req, res, refusal) : refusal)
  }

  app.use(answerRequest)
  app.use(createStartPattern(routes.map(({ path }) => path)), answerParserError)
}

/** Describes this service to clients and other services: its paths below the mount path, and the URL of its keys. */
function describeService({ settings }: Pick<Parts, 'settings'>, mountPath: string): object {
  const { serviceUrl, serviceDid, networks, loginDomains, paths, resources } = settings
  const siwe = settings.siwe && { network: settings.siwe.network, nonceSeconds: settings.siwe.nonceSeconds }
  const network = siwe?.network ?? networkOfDid(serviceDid)
  const jwks_uri = paths.jwks && createRouteUrl(serviceUrl, mountPath, paths.jwks)
  return { version: 1, serviceUrl, serviceDid, network, networks, loginDomains, paths, siwe, jwks_uri, resources }
}

function isTokenRefusal(error: unknown): boolean {
  if (!(error instanceof DidAuthError)) return false
  return ['ERR_ACCESS_TOKEN_MISSING', 'ERR_ACCESS_TOKEN', 'ERR_ACCESS_TOKEN_EXPIRED'].includes(error.code)
}

/** Creates a pattern whose match is empty, so that Express leaves the path as it is, and skips other paths. */
function createStartPattern(paths: string[]): RegExp {
  const quoted = paths.map((path) => path.replace(/\/$/, '').replace(/[^\w/-]/g, String.raw`\$&`))
  return new RegExp(`^(?=(?:${quoted.join('|')})(?:/|$))`, 'i')
}

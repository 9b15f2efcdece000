import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express'
import type { Settings } from '../config/settings.js'
import { logOut, logOutByRefreshToken } from '../flows/log-out.js'
import type { Parts } from '../flows/parts.js'
import { refreshTokens } from '../flows/refresh-tokens.js'
import { requestLoginChallenge, requestSignUpChallenge, type ChallengeAnswer } from '../flows/request-challenge.js'
import { usesDisclosure } from '../flows/sign-up.js'
import type { Client } from '../ports.js'
import { parseDid } from '../protocol/did.js'
import { fieldOf } from '../protocol/json.js'
import { clientOf } from './client-network.js'
import { routeFinder, type Answer, type AnswerWithParameter, type Route } from './find-route.js'
import { guardCsrf } from './guard-csrf.js'
import { loginAnswers } from './login-answers.js'
import { parserRefusal } from './parser-refusal.js'
import { MAX_BODY_BYTES, MAX_SIGN_UP_BODY_BYTES, readBody, readIdempotencyKey, type Body } from './read-request.js'
import { assertNotForged, authenticateRequest, type HttpParts } from './require-did.js'
import { sendEmpty, sendJson } from './send-answer.js'
import { sessionRoutes } from './session-routes.js'
import { DidAuthError } from '../errors.js'

export interface DidAuthRoutes {
  /** All our routes, with their body reader and error handler. Other requests pass it untouched. */
  answerRequest: RequestHandler
  /** Sends our error answer where a body parser of the application refused the body of a request to one of our routes. */
  answerParserError: ErrorRequestHandler
  /** Where to mount it: a match of length zero, so that Express leaves the path as it is, and skips other paths. */
  ownPaths: RegExp
}

/** Makes the two middlewares, which are all that an application gets from us. */
export function didAuthRoutes(http: HttpParts, settings: Settings): DidAuthRoutes {
  const { transport, limits } = http
  const { paths } = settings

  const unsafe =
    (answer: Answer): Answer =>
    async (req, res) => {
      if (http.useCookies) guardCsrf(req, http.trustedOrigins)
      await answer(req, res)
    }

  const challenge =
    (
      request: (parts: Parts, did: string, from: { mountPath: string; client: Client }) => Promise<ChallengeAnswer>
    ): AnswerWithParameter =>
    async (req, res, received) => {
      const did = parseDid(received)
      await limits.chargeAnonymous(req, did)
      const from = { mountPath: req.baseUrl, client: clientOf(req) }
      const { expiresInSeconds, ...body } = await request(await http.parts(), did, from)
      sendJson(res, body, { 'Challenge-Expires-In': String(expiresInSeconds) })
    }

  const didFromBody =
    (answer: AnswerWithParameter): Answer =>
    async (req, res) => {
      await answer(req, res, fieldOf(await readBody(req, MAX_BODY_BYTES), 'did'))
    }

  const readSmallBody = (req: Request) => (): Promise<Body> => readBody(req, MAX_BODY_BYTES)

  const refresh: Answer = async (req, res) => {
    const idempotencyKey = readIdempotencyKey(req)
    const refreshToken = await transport.readRefreshToken(req, readSmallBody(req))
    const { isRepeated, ...tokens } = await refreshTokens(await http.parts(), { refreshToken, idempotencyKey })
    transport.sendTokens(res, tokens, isRepeated ? { 'Idempotent-Replayed': 'true' } : {})
  }

  /** A good access token decides which session ends; else a refresh token does. */
  const endSession = async (req: Request): Promise<void> => {
    let refusal: unknown
    try {
      const { claims } = await authenticateRequest(http, req)
      await logOut(await http.parts(), claims.sid)
      return
    } catch (error) {
      if (!isTokenRefusal(error)) throw error
      refusal = error
    }
    const refreshToken = await transport.readRefreshToken(req, readSmallBody(req))
    if (refreshToken === undefined) throw refusal
    await logOutByRefreshToken(await http.parts(), refreshToken)
  }

  const logOutAnswer: Answer = async (req, res) => {
    try {
      await endSession(req)
    } catch (error) {
      throw refusedLogOut(req, res, error)
    }
    transport.clearTokens(res)
    sendEmpty(res)
  }

  /** A foreign page must not log a visitor out. Every other refusal clears the cookies as well. */
  const refusedLogOut = (req: Request, res: Response, error: unknown): unknown => {
    try {
      assertNotForged(http, req)
    } catch (forgery) {
      return forgery
    }
    transport.clearTokens(res)
    return error
  }

  const maxSignUpBytes = usesDisclosure(settings) ? MAX_SIGN_UP_BODY_BYTES : MAX_BODY_BYTES
  const { logInAnswer, signUpAnswer } = loginAnswers(http, maxSignUpBytes)
  const signUpChallenge = challenge(requestSignUpChallenge)
  const loginChallenge = challenge(requestLoginChallenge)
  const routes: Route[] = [
    { method: 'POST', path: paths.requestSignup, answer: unsafe(didFromBody(signUpChallenge)) },
    { method: 'GET', path: paths.requestSignup, answerWithParameter: signUpChallenge },
    { method: 'POST', path: paths.signup, answer: unsafe(signUpAnswer) },
    { method: 'POST', path: paths.requestAuth, answer: unsafe(didFromBody(loginChallenge)) },
    { method: 'GET', path: paths.requestAuth, answerWithParameter: loginChallenge },
    { method: 'POST', path: paths.auth, answer: unsafe(logInAnswer) },
    { method: 'POST', path: paths.refreshToken, answer: unsafe(refresh) },
    { method: 'POST', path: paths.logout, answer: logOutAnswer },
    ...sessionRoutes(http, paths)
  ]
  const find = routeFinder(routes)

  const answerRequest: RequestHandler = (req, res, next) => {
    const answer = find(req)
    if (answer === undefined) {
      next()
      return
    }
    answer(req, res)
      .catch((error: unknown) => {
        http.sendError(req, res, error)
      })
      // Only the application's own code can fail now: its logger, or its hooks on the response.
      .catch(next)
  }

  // Express knows an error handler by its four parameters.
  const answerParserError: ErrorRequestHandler = (error: unknown, req, res, next) => {
    const refusal = parserRefusal(error)
    const answer = find(req)
    if (refusal === undefined || answer === undefined) next(error)
    else http.sendError(req, res, answer === logOutAnswer ? refusedLogOut(req, res, refusal) : refusal)
  }

  return { answerRequest, answerParserError, ownPaths: startOf(routes.map(({ path }) => path)) }
}

function isTokenRefusal(error: unknown): boolean {
  if (!(error instanceof DidAuthError)) return false
  return ['ERR_ACCESS_TOKEN_MISSING', 'ERR_ACCESS_TOKEN', 'ERR_ACCESS_TOKEN_EXPIRED'].includes(error.code)
}

function startOf(paths: string[]): RegExp {
  const quoted = paths.map((path) => path.replace(/\/$/, '').replace(/[^\w/-]/g, String.raw`\$&`))
  return new RegExp(`^(?=(?:${quoted.join('|')})(?:/|$))`, 'i')
}

import express, {
  type ErrorRequestHandler,
  type Request,
  type RequestHandler,
  type Response,
  type Router
} from 'express'
import type { Paths } from '../config.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Tokens } from '../flows/issue-tokens.js'
import { logIn } from '../flows/log-in.js'
import { logOut } from '../flows/log-out.js'
import { refreshTokens } from '../flows/refresh-tokens.js'
import { requestLoginChallenge, requestSignUpChallenge, type ChallengeAnswer } from '../flows/request-challenge.js'
import type { Parts } from '../flows/parts.js'
import { signUp } from '../flows/sign-up.js'
import { guardCsrf } from './guard-csrf.js'
import { MAX_BODY_BYTES, MAX_SIGN_UP_BODY_BYTES, readBody, readDid, readLogin, readSignUp } from './read-request.js'
import { requireDidHandler, type HttpParts } from './require-did.js'
import { sendJson } from './send-answer.js'

/** Refusals of somebody who named a DID and proved nothing. */
const UNPROVED: ReadonlySet<DidAuthErrorCode> = new Set(['ERR_SIGNATURE', 'ERR_CHALLENGE'])

/** Makes the one router that holds all our routes, with their body reader and error handler. */
export function didAuthRouter(http: HttpParts, paths: Readonly<Paths>): Router {
  const router = express.Router()
  const { transport, limits, sendError } = http

  const route =
    (answer: (req: Request, res: Response) => Promise<void>): RequestHandler =>
    (req, res, next) => {
      answer(req, res)
        .catch((error: unknown) => {
          sendError(req, res, error)
        })
        // Only the application's own logger, or what it hung on the response, can have failed now.
        .catch(next)
    }

  const unsafe = (answer: (req: Request, res: Response) => Promise<void>): RequestHandler =>
    route(async (req, res) => {
      if (http.useCookies) guardCsrf(req, http.trustedOrigins)
      await answer(req, res)
    })

  const challengeRoutes = (path: string, request: (parts: Parts, did: string) => Promise<ChallengeAnswer>): void => {
    const answer = async (req: Request, res: Response, did: string): Promise<void> => {
      await limits.chargeNaming(req, did)
      const { expiresInSeconds, ...body } = await request(await http.parts(), did)
      sendJson(res, body, { 'Challenge-Expires-In': String(expiresInSeconds) })
    }
    router.post(
      path,
      unsafe(async (req, res) => answer(req, res, readDid(await readBody(req, MAX_BODY_BYTES))))
    )
    router.get(
      `${path.replace(/\/+$/, '')}/:did`,
      route(async (req, res) => answer(req, res, readDid(req.params)))
    )
  }

  /** A proof costs its sender nothing of the naming budget when it is good. */
  const proof = async (req: Request, res: Response, did: string, prove: () => Promise<Tokens>): Promise<void> => {
    await limits.assertNaming(req, did)
    try {
      transport.sendTokens(res, await prove())
    } catch (error) {
      if (error instanceof DidAuthError && UNPROVED.has(error.code)) await limits.chargeNaming(req, did)
      throw error
    }
  }

  challengeRoutes(paths.requestSignup, requestSignUpChallenge)
  challengeRoutes(paths.requestAuth, requestLoginChallenge)

  router.post(
    paths.signup,
    unsafe(async (req, res) => {
      const request = readSignUp(await readBody(req, MAX_SIGN_UP_BODY_BYTES))
      await proof(req, res, request.did, async () => signUp(await http.parts(), request))
    })
  )

  router.post(
    paths.auth,
    unsafe(async (req, res) => {
      const request = readLogin(await readBody(req, MAX_BODY_BYTES))
      await proof(req, res, request.did, async () => logIn(await http.parts(), request))
    })
  )

  router.post(
    paths.refreshToken,
    unsafe(async (req, res) => {
      const body = await readBody(req, MAX_BODY_BYTES)
      const tokens = await refreshTokens(await http.parts(), transport.readRefreshToken(req, body))
      transport.sendTokens(res, tokens)
    })
  )

  router.post(
    paths.logout,
    requireDidHandler(http, false),
    route(async (req, res) => {
      await logOut(await http.parts(), req.auth?.sessionId)
      transport.sendLoggedOut(res)
    })
  )

  router.use(routerErrors(http))
  return router
}

/** What Express itself refuses in one of our routes: the only parameter is a DID, and it was badly percent-encoded. */
function routerErrors(http: HttpParts): ErrorRequestHandler {
  // Express knows an error handler by its four parameters.
  return (error: unknown, req, res, _next) => {
    http.sendError(req, res, error instanceof URIError ? new DidAuthError('ERR_DID') : error)
  }
}

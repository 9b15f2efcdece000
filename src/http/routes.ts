import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express'
import type { Paths } from '../config-options.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Tokens } from '../flows/issue-tokens.js'
import { logIn } from '../flows/log-in.js'
import { logOut } from '../flows/log-out.js'
import type { Parts } from '../flows/parts.js'
import { refreshTokens } from '../flows/refresh-tokens.js'
import { requestLoginChallenge, requestSignUpChallenge, type ChallengeAnswer } from '../flows/request-challenge.js'
import { signUp } from '../flows/sign-up.js'
import { parseDid } from '../protocol/did.js'
import { fieldOf } from '../protocol/json.js'
import { routeFinder, type Answer, type AnswerForDid } from './find-route.js'
import { guardCsrf } from './guard-csrf.js'
import { parserRefusal } from './parser-refusal.js'
import { MAX_BODY_BYTES, MAX_SIGN_UP_BODY_BYTES, readBody, readLogin, readSignUp } from './read-request.js'
import { passWithDid, type HttpParts } from './require-did.js'
import { sendJson } from './send-answer.js'

/** Refusals that cost us work and their sender nothing: the challenge is unspent, and the same body can come again. */
const UNPROVED: ReadonlySet<DidAuthErrorCode> = new Set([
  'ERR_SIGNATURE',
  'ERR_CHALLENGE',
  'ERR_CREDENTIAL',
  'ERR_CREDENTIAL_EXPIRED',
  'ERR_CREDENTIAL_ISSUER',
  'ERR_RESOLVER'
])

export interface DidAuthRoutes {
  /** Holds all our routes, with their body reader and error handler. A request that is not ours passes it untouched. */
  answerRequest: RequestHandler
  /** Answers in our words where a body parser of the application refused what was sent to one of our routes. */
  answerParserError: ErrorRequestHandler
  /** Where to mount it: a match of no length, so that Express takes nothing off the path, and no step for other paths. */
  ownPaths: RegExp
}

/** Makes the two middlewares that are all we put on an application. */
export function didAuthRoutes(http: HttpParts, paths: Readonly<Paths>): DidAuthRoutes {
  const { transport, limits } = http

  const unsafe =
    (answer: Answer): Answer =>
    async (req, res) => {
      if (http.useCookies) guardCsrf(req, http.trustedOrigins)
      await answer(req, res)
    }

  const challenge =
    (request: (parts: Parts, did: string, mountPath: string) => Promise<ChallengeAnswer>): AnswerForDid =>
    async (req, res, received) => {
      const did = parseDid(received)
      await limits.chargeNaming(req, did)
      const { expiresInSeconds, ...body } = await request(await http.parts(), did, req.baseUrl)
      sendJson(res, body, { 'Challenge-Expires-In': String(expiresInSeconds) })
    }

  const didFromBody =
    (answer: AnswerForDid): Answer =>
    async (req, res) => {
      await answer(req, res, fieldOf(await readBody(req, MAX_BODY_BYTES), 'did'))
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

  const signUpAnswer: Answer = async (req, res) => {
    const request = readSignUp(await readBody(req, MAX_SIGN_UP_BODY_BYTES))
    await proof(req, res, request.did, async () => signUp(await http.parts(), request))
  }

  const logInAnswer: Answer = async (req, res) => {
    const request = readLogin(await readBody(req, MAX_BODY_BYTES))
    await proof(req, res, request.did, async () => logIn(await http.parts(), request))
  }

  const refreshAnswer: Answer = async (req, res) => {
    const body = await readBody(req, MAX_BODY_BYTES)
    transport.sendTokens(res, await refreshTokens(await http.parts(), transport.readRefreshToken(req, body)))
  }

  const logOutAnswer: Answer = async (req, res) => {
    await passWithDid(http, req, false)
    await logOut(await http.parts(), req.auth?.sessionId)
    transport.sendLoggedOut(res)
  }

  const signUpChallenge = challenge(requestSignUpChallenge)
  const loginChallenge = challenge(requestLoginChallenge)
  const find = routeFinder({
    posts: new Map([
      [paths.requestSignup, unsafe(didFromBody(signUpChallenge))],
      [paths.signup, unsafe(signUpAnswer)],
      [paths.requestAuth, unsafe(didFromBody(loginChallenge))],
      [paths.auth, unsafe(logInAnswer)],
      [paths.refreshToken, unsafe(refreshAnswer)],
      [paths.logout, logOutAnswer]
    ]),
    gets: new Map([
      [paths.requestSignup, signUpChallenge],
      [paths.requestAuth, loginChallenge]
    ])
  })

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
      // Only the application's own logger, or what it hung on the response, can have failed now.
      .catch(next)
  }

  // Express knows an error handler by its four parameters.
  const answerParserError: ErrorRequestHandler = (error: unknown, req, res, next) => {
    const refusal = parserRefusal(error)
    if (refusal === undefined || find(req) === undefined) next(error)
    else http.sendError(req, res, refusal)
  }

  return { answerRequest, answerParserError, ownPaths: startOf(Object.values(paths)) }
}

function startOf(paths: string[]): RegExp {
  const quoted = paths.map((path) => path.replace(/\/$/, '').replace(/[^\w/-]/g, String.raw`\$&`))
  return new RegExp(`^(?=(?:${quoted.join('|')})(?:/|$))`, 'i')
}

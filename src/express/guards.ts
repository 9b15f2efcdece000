import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { SiweSettings } from '../config/settings.js'
import { assertAllowed, assertOptions, type DidAuthInfo } from '../did-auth-info.js'
import { DidAuthError } from '../errors.js'
import { isBytes } from '../protocol/is-bytes.js'
import { verifyApprovedRequest } from '../http/approval.js'
import { guardOptionNames, hasToken, passWithDid, type GuardOptions, type HttpParts } from '../http/guard.js'
import { JSON_TYPE, parseJson, receiveBody } from '../http/read-request.js'
import type { AuthenticatedUser } from '../ports.js'
import { ExpressRequest, hasParsedBody } from './express-routes.js'
import { sendError } from './send-error.js'

/** Maximum body in bytes of a request that its user approves: the default limit of `express.json()`. */
const MAX_APPROVED_BODY_BYTES = 100 * 1024

/**
 * Tells the user in one printable line of 1 to 500 characters what a request does. The request has its `body`. Another
 * text is 400. For an invalid body, throw `new DidAuthError('ERR_INVALID')`.
 */
export type DescribeRequest = (req: Request) => string | Promise<string>

/** Member that a guard sets. Its global type is that of `express-did-auth/types`, or that of another package. */
export interface Guarded {
  auth?: DidAuthInfo | undefined
}

/** Creates a middleware for protected routes: it sets `req.user` and `req.auth`, and answers every refusal itself. */
export function createDidGuard(http: HttpParts, options: GuardOptions): RequestHandler {
  const { optional = false, allow } = options
  assertOptions(options, guardOptionNames)
  const guard = createGuard(
    http,
    async (req) => {
      await admit(http, req, options)
    },
    allow && (async ({ auth }) => auth && assertAllowed(allow, auth))
  )
  return (req, res, next: NextFunction | undefined) => {
    if (next === undefined) {
      throw new TypeError('requireDid is the middleware itself: write app.get(path, requireDid, handler), without ()')
    }
    if (optional && !hasToken(http, req)) {
      // Values of an earlier middleware would pass for those of the login.
      Object.assign(req, { user: undefined, auth: undefined })
      next()
    } else guard(req, res, next)
  }
}

/** Creates a middleware for routes whose requests the user's wallet signs, one by one. It answers refusals itself. */
export function createApprovalGuard(http: HttpParts, siwe: SiweSettings, describe: DescribeRequest): RequestHandler {
  return createGuard(http, async (req) => {
    const user = await admit(http, req, {})
    const rawBody = await readApprovedBody(req)
    const isJson = JSON_TYPE.test(req.headers['content-type'] ?? '')
    req.body = rawBody.length === 0 ? undefined : isJson ? parseJson(rawBody) : rawBody
    // `_body` tells the parsers of Express 4 that the body was read; those of Express 5 notice it themselves.
    Object.assign(req, { _body: true })
    const line: unknown = await describe(req)
    const approval = await verifyApprovedRequest(http, siwe, new ExpressRequest(req), { user, line, rawBody })
    const { auth } = req as Guarded
    if (auth !== undefined) auth.approval = { ...approval, rawBody }
  })
}

async function admit(http: HttpParts, req: Request, options: GuardOptions): Promise<AuthenticatedUser> {
  // A WeakSet of requests would remember what was counted as well, at the cost of a hash and garbage per request.
  const { user, auth } = await passWithDid(http, new ExpressRequest(req), options, (req as Guarded).auth)
  Object.assign(req, { user: { did: user.claims.sub }, auth })
  return user
}

async function readApprovedBody(req: Request): Promise<Uint8Array> {
  if (req.readableDidRead || hasParsedBody(req)) {
    const cause = new Error('requireDid.approved has to run before body parsers: they have read this body')
    throw new DidAuthError('ERR_CONFIG', { cause })
  }
  const body = req.readableEnded ? undefined : await receiveBody(new ExpressRequest(req), MAX_APPROVED_BODY_BYTES)
  return isBytes(body) ? body : new Uint8Array()
}

/**
 * Creates a middleware that lets a request pass when `pass` and then `allow` resolve, and answers what they throw. The
 * application's error handler gets an error of `allow` that is no DidAuthError.
 */
function createGuard(
  http: HttpParts,
  pass: (req: Request) => Promise<void>,
  allow?: (req: Request) => Promise<void>
): RequestHandler {
  const passOrAnswer = async (req: Request, res: Response, next: NextFunction): Promise<void> => {
    let isAdmitted = false
    try {
      await pass(req)
      isAdmitted = true
      await allow?.(req)
    } catch (error) {
      if (isAdmitted && !(error instanceof DidAuthError)) throw error
      sendError(http.answerError, req, res, error)
      return
    }
    next()
  }
  return (req, res, next) => {
    // Only the application's own code can fail now: its logger, or its hooks on the response.
    passOrAnswer(req, res, next).catch(next)
  }
}

import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { Settings, SiweSettings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import { admitUser } from '../flows/authenticate.js'
import type { Caller, Quotas } from '../flows/limits.js'
import type { Parts } from '../flows/parts.js'
import { verifyRequestApproval, type Approval } from '../flows/verify-approval.js'
import type { AuthenticatedUser } from '../ports.js'
import { assertSameSite, isSafeMethod } from '../protocol/cross-origin.js'
import { approvalStatement } from '../protocol/format-siwe-message.js'
import { encodeHex } from '../protocol/encoding.js'
import { readField } from '../protocol/json.js'
import { isForeignPage } from './client-network.js'
import { JSON_TYPE, parseJson, readBodyBytes } from './read-request.js'
import type { SendError } from './send-error.js'
import type { TokenTransport } from './token-transport.js'

/** The default limit of `express.json()`. */
const MAX_APPROVED_BODY_BYTES = 100 * 1024

/** Refuses a request that cookies may authenticate and another site made. @throws DidAuthError ERR_CROSS_ORIGIN */
export function assertNotForged({ transport, settings }: HttpParts, req: Request): void {
  // A foreign page cannot make a request that carries the header and no cookie.
  if (transport.useCookies && (transport.hasTokenCookie(req) || req.headers.authorization === undefined)) {
    assertSameSite(req, settings.trustedOrigins)
  }
}

/** Dependencies of the handlers in this folder. Settings and quotas are used before a request has its deadline. */
export interface HttpParts {
  settings: Settings
  quotas: Quotas
  /** The parts of one request, whose deadline begins now. Resolves once curve and signer are there. */
  parts: () => Promise<Parts>
  callerOf: (req: Request) => Caller
  transport: TokenTransport
  sendError: SendError
}

/** Options of a guard. */
export interface GuardOptions {
  /**
   * Also asks the store whether the session of the access token was ended: logout and revocation count at once, for one
   * more look into the store. A token without session is refused. Default false.
   */
  checkSession?: boolean | undefined
  /** Lets a request without token pass, with `req.user` undefined. An invalid token is still refused. Default false. */
  optional?: boolean | undefined
}

/**
 * Lets a request pass only with a valid access token, and sets `req.user` and `req.auth`. Cross-site forgery is checked
 * first, then {@link admitUser}.
 * @returns the user, and the parts for the rest of the request, which have its deadline
 * @throws DidAuthError ERR_CROSS_ORIGIN, ERR_DUPLICATE_COOKIE, as `admitUser`
 */
export async function passWithDid(
  http: HttpParts,
  req: Request,
  { checkSession = false }: GuardOptions
): Promise<{ parts: Parts; user: AuthenticatedUser }> {
  const { transport, settings } = http
  const resourceToken = transport.readResourceToken(req)
  if (resourceToken === undefined) assertNotForged(http, req)
  const parts = await http.parts()
  const user = await admitUser(parts, {
    accessToken: resourceToken === undefined ? transport.readAccessToken(req) : undefined,
    resourceToken,
    checkSession,
    // A WeakSet of requests would say the same, for a hash and work for the garbage collector with each request.
    countedClaims: req.auth?.claims,
    isForeignRead: isSafeMethod(req.method) && isForeignPage(req, settings.trustedOrigins)
  })
  const { claims, canonicalDid, address } = user
  if (req.auth?.claims !== claims) req.auth = { sessionId: claims.sid, canonicalDid, address, claims }
  req.user = { did: claims.sub }
  return { parts, user }
}

/** Makes a middleware for protected routes. It answers every refusal itself. */
export function createDidGuard(http: HttpParts, options: GuardOptions): RequestHandler {
  const { optional = false } = options
  const hasNoToken = (req: Request): boolean =>
    req.headers.authorization === undefined && !http.transport.hasTokenCookie(req)

  const guard = createGuard(http, (req) => passWithDid(http, req, options))
  return (req, res, next: NextFunction | undefined) => {
    if (next === undefined) {
      throw new TypeError('requireDid is the middleware itself: write app.get(path, requireDid, handler), without ()')
    }
    if (optional && hasNoToken(req)) next()
    else guard(req, res, next)
  }
}

/** Creates a middleware that lets a request pass when `pass` resolves, and answers what it throws. */
function createGuard(http: HttpParts, pass: (req: Request) => Promise<unknown>): RequestHandler {
  const passOrAnswer = async (req: Request, res: Response, next: NextFunction): Promise<void> => {
    try {
      await pass(req)
    } catch (error) {
      http.sendError(req, res, error)
      return
    }
    next()
  }
  return (req, res, next) => {
    // Only the application's own code can fail now: its logger, or its hooks on the response.
    passOrAnswer(req, res, next).catch(next)
  }
}

/**
 * Tells the user in one printable line of 1 to 500 characters what a request does. The request has its `body`. Another
 * text is 400. For an invalid body, throw `new DidAuthError('ERR_INVALID')`.
 */
export type DescribeRequest = (req: Request) => string | Promise<string>

/** Makes a middleware for routes whose requests the user's wallet signs, one by one. It answers refusals itself. */
export function createApprovalGuard(http: HttpParts, siwe: SiweSettings, describe: DescribeRequest): RequestHandler {
  return createGuard(http, async (req) => {
    const { user } = await passWithDid(http, req, {})
    const rawBody = await readBodyBytes(req, MAX_APPROVED_BODY_BYTES)
    const isJson = JSON_TYPE.test(req.headers['content-type'] ?? '')
    req.body = rawBody.length === 0 ? undefined : isJson ? parseJson(rawBody) : rawBody
    // `_body` tells the parsers of Express 4 that the body was read; those of Express 5 notice it themselves.
    Object.assign(req, { _body: true })
    const line: unknown = await describe(req)
    const parts = await http.parts()
    const { method, originalUrl: path } = req
    const pathHash = encodeHex(parts.curve.sha256(path))
    const statement = approvalStatement(line, { method, path, pathHash })
    if (statement === undefined) throw invalidLine(line)
    const request = { user, statement, rawBody, approval: readApproval(req), client: http.callerOf(req) }
    const approval = await verifyRequestApproval(parts, siwe, request)
    if (req.auth !== undefined) req.auth.approval = { ...approval, rawBody }
  })
}

/** Creates the error for a line that no wallet can show: a text quotes the request; anything else is a fault here. */
function invalidLine(line: unknown): Error {
  const expected = 'one printable line of 1 to 500 characters'
  if (typeof line !== 'string') return new TypeError(`describe of requireDid.approved: return ${expected}`)
  return new DidAuthError('ERR_INVALID', { reason: { check: 'describe of requireDid.approved', expected } })
}

/** Reads the header `DID-Approval`, base64url of JSON, whose length Node bounds. @throws DidAuthError ERR_JSON */
function readApproval({ headers }: Request): Approval | undefined {
  const received = headers['did-approval']
  if (typeof received !== 'string') return undefined
  const fields = parseJson(Buffer.from(received, 'base64url'))
  const message = readField(fields, 'message')
  return { message: typeof message === 'string' ? message : '', signature: readField(fields, 'signature') }
}

import type { Request, RequestHandler } from 'express'
import type { SiweSettings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import { verifyApproval, type Approval } from '../flows/verify-approval.js'
import { approvalStatement } from '../protocol/format-siwe-message.js'
import { fieldOf } from '../protocol/json.js'
import { JSON_TYPE, parseJson, readBytesOf } from './read-request.js'
import { guardOf, passWithDid, type HttpParts } from './require-did.js'

/** As `express.json()` has it. */
const MAX_BODY_BYTES = 100 * 1024
/** With a line of 500 characters it fits into a statement. */
const MAX_URL_LENGTH = 1_400

/** Tells the user in one printable line of at most 500 characters what a request does. It has its `body` by now. */
export type DescribeRequest = (req: Request) => string | Promise<string>

/** Makes a middleware for routes whose requests the user's wallet signs, one by one. It answers refusals itself. */
export function requireApprovalHandler(http: HttpParts, siwe: SiweSettings, describe: DescribeRequest): RequestHandler {
  return guardOf(http, async (req) => {
    const { user } = await passWithDid(http, req, {})
    if (req.originalUrl.length > MAX_URL_LENGTH) throw new DidAuthError('ERR_TOO_LARGE')
    const rawBody = await readBytesOf(req, MAX_BODY_BYTES)
    const isJson = JSON_TYPE.test(req.headers['content-type'] ?? '')
    req.body = rawBody.length === 0 ? undefined : isJson ? parseJson(rawBody) : rawBody
    // What the parsers of Express 4 look for; those of Express 5 see that nothing is left.
    Object.assign(req, { _body: true })
    const statement = approvalStatement(req.method, req.originalUrl, await describe(req))
    if (statement === undefined) {
      throw new TypeError('describe of requireDid.approved: give one printable line of 1 to 500 characters')
    }
    const request = { user, statement, rawBody, approval: readApproval(req), client: http.callerOf(req) }
    const approval = await verifyApproval(await http.parts(), siwe, request)
    if (req.auth !== undefined) req.auth.approval = { ...approval, rawBody }
  })
}

/** The header `DID-Approval`, base64url of JSON, whose length Node bounds. @throws DidAuthError ERR_JSON */
function readApproval({ headers }: Request): Approval | undefined {
  const received = headers['did-approval']
  if (typeof received !== 'string') return undefined
  const fields = parseJson(Buffer.from(received, 'base64url'))
  const message = fieldOf(fields, 'message')
  return { message: typeof message === 'string' ? message : '', signature: fieldOf(fields, 'signature') }
}

import type { SiweSettings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import { verifyRequestApproval, type Approval } from '../flows/verify-approval.js'
import type { HttpRequest } from '../http-messages.js'
import type { AuthenticatedUser } from '../ports.js'
import { encodeHex } from '../protocol/encoding.js'
import { approvalStatement } from '../protocol/format-siwe-message.js'
import { readField } from '../protocol/json.js'
import type { LoginProof } from '../protocol/login-proof.js'
import type { HttpParts } from './guard.js'
import { parseJson } from './read-request.js'

/** A request that its user has to approve. */
export interface ApprovedRequest {
  user: AuthenticatedUser
  /** The line that `describe` returned, not yet checked. */
  line: unknown
  rawBody: Uint8Array
}

/**
 * Verifies that the user's wallet signed this request: method, path and query, body and line.
 * @returns message and signature
 * @throws DidAuthError ERR_INVALID for a line that quotes what no wallet can show, ERR_JSON for a malformed header,
 * any code of `verifyRequestApproval`; TypeError for a line that is no text
 */
export async function verifyApprovedRequest(
  http: HttpParts,
  siwe: SiweSettings,
  request: HttpRequest,
  { user, line, rawBody }: ApprovedRequest
): Promise<LoginProof> {
  const parts = await http.parts(request.id)
  const { method, originalUrl: path } = request
  const pathHash = encodeHex(parts.curve.sha256(path))
  const statement = approvalStatement(line, { method, path, pathHash })
  if (statement === undefined) throw createLineError(line)
  const approval = readApproval(request)
  return verifyRequestApproval(parts, siwe, { user, statement, rawBody, approval, client: http.callerOf(request) })
}

/** Creates the error for a line that no wallet can show: a text quotes the request; anything else is a fault here. */
function createLineError(line: unknown): Error {
  const expected = 'one printable line of 1 to 500 characters'
  if (typeof line !== 'string') return new TypeError(`describe of requireDid.approved: return ${expected}`)
  return new DidAuthError('ERR_INVALID', { reason: { check: 'describe of requireDid.approved', expected } })
}

/** Reads the header `DID-Approval`, base64url of JSON, whose length Node bounds. @throws DidAuthError ERR_JSON */
function readApproval({ headers }: HttpRequest): Approval | undefined {
  const received = headers['did-approval']
  if (typeof received !== 'string') return undefined
  const fields = parseJson(Buffer.from(received, 'base64url'))
  const message = readField(fields, 'message')
  return { message: typeof message === 'string' ? message : '', signature: readField(fields, 'signature') }
}

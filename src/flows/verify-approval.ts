import type { SiweSettings } from '../config/settings.js'
import { DidAuthError, errorStatuses } from '../errors.js'
import type { AuthenticatedUser } from '../ports.js'
import { parseEthrDid, toContractDid } from '../protocol/did.js'
import { encodeHex } from '../protocol/encoding.js'
import type { LoginProof } from '../protocol/login-proof.js'
import { assertInTime, assertOwnSite, parseSiweMessage } from '../protocol/siwe-message.js'
import { chargeRefusal, type Caller } from './limits.js'
import type { LoginParts } from './parts.js'
import { consumeNonce, issueNonce, verifyNonce } from './nonces.js'
import { findControllers, isContractDid } from './user.js'
import { verifyAccount } from './verify-account.js'

/** Message and signature of an approval, as received. */
export type Approval = Pick<LoginProof, 'message'> & { signature: unknown }

/** A request that its user has to approve, with the received approval. */
export interface RequestToApprove {
  user: AuthenticatedUser
  /** Statement that the user's wallet shows: the effect of the request, and the request itself. */
  statement: string
  rawBody: Uint8Array
  approval: Approval | undefined
  client: Caller
}

/**
 * Verifies that a user approved a request: by a signed EIP-4361 message with this statement, the hash of this body, and
 * a nonce for approvals. It consumes the nonce.
 * @throws DidAuthError ERR_APPROVAL, with a nonce and the statement for the next attempt; ERR_TOO_MANY_REQUESTS,
 * ERR_CHAIN, ERR_RESOLVER, ERR_BUSY, ERR_STORE
 */
export async function verifyRequestApproval(
  parts: LoginParts,
  siwe: SiweSettings,
  request: RequestToApprove
): Promise<LoginProof> {
  const { approval, statement, client } = request
  try {
    return await consumeApproval(parts, siwe, request)
  } catch (error) {
    if (approval !== undefined) await chargeRefusal(parts, { client }, error)
    if (!(error instanceof DidAuthError) || ![401, 403].includes(errorStatuses[error.code])) throw error
    const { nonce } = issueNonce(parts, siwe.approvals)
    const reason = error.reason ?? { check: error.code }
    throw new DidAuthError('ERR_APPROVAL', { details: { nonce, statement }, reason })
  }
}

async function consumeApproval(
  parts: LoginParts,
  siwe: SiweSettings,
  { user, statement, rawBody, approval, client }: RequestToApprove
): Promise<LoginProof> {
  if (approval === undefined) throw createRefusal('approval', 'the header DID-Approval')
  const message = parseSiweMessage(approval.message)
  assertOwnSite(message, siwe.isOwnDomain)
  const nonce = verifyNonce(parts, siwe.approvals, message.nonce)
  assertInTime(message, parts.clock.nowSeconds())
  if (message.statement !== statement) throw createRefusal('statement', 'that of this request')
  if (message.requestId !== encodeHex(parts.curve.sha256(rawBody)))
    throw createRefusal('Request ID', 'SHA-256 of the body')
  const account = { address: message.address.toLowerCase(), chainId: message.chainId }
  const controllers = await findControllers(parts, parseEthrDid(user.claims.sub, parts.curve), client)
  if (!controllers.has(account.address)) throw createRefusal('address', 'one that controls the DID of the session')
  const method = await verifyAccount(parts, { account, ...approval, client })
  // The same address may belong to another party as a contract on another chain, or as a key.
  const { canonicalDid } = user
  const isOtherParty =
    method === 'eoa' ? isContractDid(parts.settings, canonicalDid) : toContractDid(account) !== canonicalDid
  if (isOtherParty) throw createRefusal('chain', 'that of the session')
  await consumeNonce(parts, nonce)
  return { message: approval.message, signature: String(approval.signature) }
}

function createRefusal(check: string, expected: string): DidAuthError {
  return new DidAuthError('ERR_APPROVAL', { reason: { check, expected } })
}

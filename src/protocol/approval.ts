import { DidAuthError } from '../errors.js'
import { recoverPersonalSigner, type Curve } from './curve.js'
import { addressOfDid } from './did.js'
import { encodeHex } from './encoding.js'
import { parseApprovalStatement, type ApprovedRequest } from './format-siwe-message.js'
import { parseOwnSiweMessage, type LoginProof } from './login-proof.js'
import { parseSignature } from './personal-sign.js'

/** Evidence of an approved request, as in `req.auth.approval`. */
export interface ApprovalProof extends LoginProof {
  /** Bytes of the request's body. Absent if the request had no body. */
  rawBody?: Uint8Array | undefined
}

/**
 * Verifies that a key which controls a DID approved a request. It needs neither the service's secret nor a network.
 *
 * It proves neither the time of the approval nor that the service issued the nonce: for these, you trust the log. It
 * refuses signatures of contract wallets, because only their chain can verify them.
 * @param approval - `domains`: hosts of the service and of its pages, as for `verifyLoginProof`. `controllers`: lower
 *   case addresses that controlled the DID at that time, if its document decided; default: the address of the DID
 * @returns the signer's address in lower case, the request as the message names it, and the single-use nonce;
 *   `issuedAt` is by the user's clock
 * @throws DidAuthError ERR_MESSAGE if the message is not an approval (a login is none), ERR_MESSAGE_DOMAIN if it is for
 * another service, ERR_SIGNATURE if the signature has the wrong form, ERR_APPROVAL for another body or another key,
 * ERR_DID_UNSUPPORTED
 * @example
 * const domains = acceptedLoginDomains('https://auth.example.com', [])
 * const { line, method, path } = verifyApproval(await loadCurve(), { ...evidence, did, domains })
 */
export function verifyApproval(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover' | 'decompress' | 'sha256'>,
  approval: ApprovalProof & { did: string; domains: readonly string[]; controllers?: readonly string[] }
): ApprovedRequest & { address: string; domain: string; nonce: string; issuedAt: string } {
  const { message, signature, rawBody = new Uint8Array(), did, domains } = approval
  const { controllers = [addressOfDid(did, curve)] } = approval
  const siwe = parseOwnSiweMessage(message, domains)
  const request = parseApprovalStatement(siwe.statement)
  if (request === undefined) throw new DidAuthError('ERR_MESSAGE')
  const address = recoverPersonalSigner(curve, message, parseSignature(signature, siwe.chainId))
  const isSigner = address !== undefined && controllers.includes(address) && siwe.address.toLowerCase() === address
  if (!isSigner || siwe.requestId !== encodeHex(curve.sha256(rawBody))) throw new DidAuthError('ERR_APPROVAL')
  return { ...request, address, domain: siwe.domain, nonce: siwe.nonce, issuedAt: siwe.issuedAt }
}

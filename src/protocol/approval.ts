import { DidAuthError } from '../errors.js'
import type { Curve } from './curve.js'
import { addressOfDid } from './did.js'
import { encodeHex } from './encoding.js'
import { parseApprovalStatement, type ApprovedRequest } from './format-siwe-message.js'
import { parseOwnSiweMessage, type LoginProof } from './login-proof.js'
import { parseSignature, recoverPersonalSigner } from './personal-sign.js'

/** The evidence of an approved request: `req.auth.approval`. */
export interface ApprovalProof extends LoginProof {
  /** The bytes of the request's body. Absent means a request without a body. */
  rawBody?: Uint8Array | undefined
}

/**
 * Verifies that a key which controls a DID approved a request, without the service's secret and without a network. It
 * does not prove when that was, nor that the service issued the nonce: both are as reliable as the log. The signature
 * of a contract is refused, because its chain decides about that.
 * @param approval - `domains` as for `verifyLoginProof`: hosts of the service and of its pages; `controllers`, lower
 *   case, where the DID's document decided then
 * @returns the signer's address in lower case, the request as the text names it, and the nonce, which is used once;
 *   `issuedAt` is by the user's clock
 * @throws DidAuthError ERR_MESSAGE for a text that is not an approval (a login is not one), ERR_MESSAGE_DOMAIN for one
 * of another service, ERR_SIGNATURE for what no key makes, ERR_APPROVAL for another body or another key,
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

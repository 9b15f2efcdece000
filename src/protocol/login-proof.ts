import { DidAuthError } from '../errors.js'
import { recoverPersonalSigner, type Curve } from './curve.js'
import { addressOfDid, chainIdOfDid } from './did.js'
import { RESERVED_STATEMENT, type SiweMessage } from './format-siwe-message.js'
import { parseSignature } from './personal-sign.js'
import { assertOwnSite, parseSiweMessage } from './siwe-message.js'

/** Message that a user signed to log in or to sign up, with its signature. */
export interface LoginProof {
  /** The complete text, exactly as it was signed. */
  message: string
  /** `0x` and hexadecimal digits. The signature of a key has 65 bytes. */
  signature: string
}

const LOGIN_MESSAGE =
  /^(?:Login to|URL:) ([^\n]+)\nVerification code: ([0-9a-f]{64})(?:\n(?:My credentials are:[^\n]*)?)?$/

/**
 * Verifies that a key which controls a DID signed a login at a service. It needs neither the service's secret nor a
 * network.
 *
 * It proves neither the time of the login nor that the service issued the challenge: for these, you trust the log. It
 * refuses signatures of contract wallets, because only their chain can verify them.
 * @param login - `domains`: the result of `acceptedLoginDomains`, and the hosts of other pages that log in by EIP-4361.
 *   `controllers`: lower case addresses that controlled the DID at that time, if its document decided; default: the
 *   address of the DID
 * @returns the signer's address in lower case, the domain, and the challenge or nonce; `issuedAt` (EIP-4361 only) is by
 *   the user's clock
 * @throws DidAuthError ERR_MESSAGE if the message is not a login (an approval is none), ERR_MESSAGE_DOMAIN if it is for
 * another service, ERR_SIGNATURE if the signature has the wrong form, ERR_CHALLENGE for another key,
 * ERR_DID_UNSUPPORTED
 * @example
 * const domains = acceptedLoginDomains('https://auth.example.com', [])
 * const { address } = verifyLoginProof(await loadCurve(), { ...event.proof, did: event.did, domains })
 */
export function verifyLoginProof(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover' | 'decompress'>,
  login: LoginProof & { did: string; domains: readonly string[]; controllers?: readonly string[] }
): { address: string; domain: string; challenge: string; issuedAt?: string } {
  const { message, signature, did, domains, controllers = [addressOfDid(did, curve)] } = login
  const [, domain, challenge = ''] = LOGIN_MESSAGE.exec(message) ?? []
  const siwe = domain === undefined ? parseLogin(message, domains) : undefined
  if (domain !== undefined && !domains.includes(domain)) throw new DidAuthError('ERR_MESSAGE_DOMAIN')
  const address = recoverPersonalSigner(curve, message, parseSignature(signature, siwe?.chainId ?? chainIdOfDid(did)))
  const isNamed = siwe === undefined || siwe.address.toLowerCase() === address
  if (address === undefined || !controllers.includes(address) || !isNamed) throw new DidAuthError('ERR_CHALLENGE')
  if (siwe === undefined) return { address, domain: domain ?? '', challenge }
  return { address, domain: siwe.domain, challenge: siwe.nonce, issuedAt: siwe.issuedAt }
}

function parseLogin(message: string, domains: readonly string[]): SiweMessage {
  const siwe = parseOwnSiweMessage(message, domains)
  if (RESERVED_STATEMENT.test(siwe.statement ?? '')) throw new DidAuthError('ERR_MESSAGE')
  return siwe
}

/** Parses an EIP-4361 message for one of these domains. @throws DidAuthError ERR_MESSAGE, ERR_MESSAGE_DOMAIN */
export function parseOwnSiweMessage(message: string, domains: readonly string[]): SiweMessage {
  const siwe = parseSiweMessage(message)
  assertOwnSite(siwe, (host) => domains.some((domain) => domain.toLowerCase() === host))
  return siwe
}

import { DidAuthError } from '../errors.js'

/** The longest signature of a contract wallet that is read, in bytes. A Safe of a hundred owners has 6,500. */
export const MAX_CONTRACT_SIGNATURE_BYTES = 8_192

/** Bytes in hexadecimal, with `0x` in front. */
export type Hex = `0x${string}`

const HEX = /^0x(?:[0-9a-fA-F]{2})*$/
/** Addresses below are contracts of the chain itself, of which one answers what it is asked, also the magic value. */
const FIRST_ACCOUNT = 2n ** 32n
/** Both wrappers are known by their last 32 bytes. */
const DEPLOYING = '6492'.repeat(16)
const DELEGATING = '8010'.repeat(16)

/**
 * Parses what an account of any kind answers to `personal_sign`. A key makes 65 bytes, a contract decides for itself.
 * @returns lower case
 * @throws DidAuthError ERR_SIGNATURE when it is not 0 to 8,192 bytes in hexadecimal
 * @see EIP-1271
 */
export function parseAccountSignature(value: unknown): Hex {
  const maxLength = 2 + 2 * MAX_CONTRACT_SIGNATURE_BYTES
  if (typeof value === 'string' && value.length <= maxLength && HEX.test(value)) return value.toLowerCase() as Hex
  const reason = { check: 'signature', expected: '0x and at most 8192 bytes in hexadecimal', got: typeof value }
  throw new DidAuthError('ERR_SIGNATURE', { reason })
}

/** Whether a signature has the form of one by a key: 65 bytes. */
export function isKeySignature(signature: Hex): boolean {
  return signature.length === 132
}

/** Whether a signature tells how its contract is deployed, so that it may be asked before. @see ERC-6492 */
export function hasDeployment(signature: Hex): boolean {
  return signature.endsWith(DEPLOYING)
}

/** Asserts: no account of the chain itself, no delegation. @throws DidAuthError ERR_CONTRACT_SIGNATURE @see ERC-8010 */
export function assertContractAskable(address: string, signature: Hex): void {
  const refused = (check: string, expected: string): DidAuthError =>
    new DidAuthError('ERR_CONTRACT_SIGNATURE', { reason: { check, expected } })
  if (BigInt(address) < FIRST_ACCOUNT) throw refused('address', 'no contract of the chain itself')
  if (signature.endsWith(DELEGATING)) throw refused('signature', 'no ERC-8010 wrapper')
}

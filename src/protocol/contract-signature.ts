import { DidAuthError } from '../errors.js'

/** Maximum length of a contract wallet's signature, in bytes. A Safe with a hundred owners needs 6,500. */
export const MAX_CONTRACT_SIGNATURE_BYTES = 8_192

/** Hexadecimal bytes with the prefix `0x`. */
export type Hex = `0x${string}`

const HEX = /^0x(?:[0-9a-fA-F]{2})*$/
/**
 * The lowest address of an account. Lower ones are precompiled contracts of the chain. One of them (0x4, identity)
 * returns its input, and the input of an EIP-1271 call begins with the value that means "valid".
 */
const FIRST_ACCOUNT = 2n ** 32n
/** Last 32 bytes of a signature in a wrapper of ERC-6492 or ERC-8010. */
const ERC_6492_SUFFIX = '6492'.repeat(16)
const ERC_8010_SUFFIX = '8010'.repeat(16)

/**
 * Parses the `personal_sign` result of any kind of account. Keys return 65 bytes; contracts choose their own form.
 * @returns the signature in lower case
 * @throws DidAuthError ERR_SIGNATURE unless it is 0 to 8,192 bytes in hexadecimal
 * @see EIP-1271
 */
export function parseAccountSignature(value: unknown): Hex {
  const maxLength = 2 + 2 * MAX_CONTRACT_SIGNATURE_BYTES
  if (typeof value === 'string' && value.length <= maxLength && HEX.test(value)) return value.toLowerCase() as Hex
  const reason = { check: 'signature', expected: '0x and at most 8192 bytes in hexadecimal', got: typeof value }
  throw new DidAuthError('ERR_SIGNATURE', { reason })
}

/** Whether a signature has the length of a key's signature, 65 bytes. */
export function isKeySignature(signature: Hex): boolean {
  return signature.length === 132
}

/**
 * Whether a signature contains the deployment data of its contract, so that it can be verified before deployment.
 * @see ERC-6492
 */
export function hasDeployment(signature: Hex): boolean {
  return signature.endsWith(ERC_6492_SUFFIX)
}

/**
 * Asserts that a contract may be called about a signature: its address is not reserved for precompiled contracts, and
 * the signature is in no wrapper for delegated accounts.
 * @throws DidAuthError ERR_CONTRACT_SIGNATURE
 * @see ERC-8010
 */
export function assertContractAskable(address: string, signature: Hex): void {
  const refused = (check: string, expected: string): DidAuthError =>
    new DidAuthError('ERR_CONTRACT_SIGNATURE', { reason: { check, expected } })
  if (BigInt(address) < FIRST_ACCOUNT) throw refused('address', 'not a precompiled contract of the chain')
  if (signature.endsWith(ERC_8010_SUFFIX)) throw refused('signature', 'no ERC-8010 wrapper')
}

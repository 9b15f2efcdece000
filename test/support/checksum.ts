import { keccak256, toUtf8Bytes } from 'ethers'

/**
 * An address in the spelling that a wallet of a chain shows.
 *
 * @param chainId - undefined: EIP-55, without a chain; 30 and 31: Rootstock
 * @see EIP-55, EIP-1191: a letter is upper case where the hash of the (prefixed) address has a digit of 8 or more
 */
export function checksumAddress(address: string, chainId?: number): string {
  const digits = address.toLowerCase().slice(2)
  const prefix = chainId === undefined ? '' : `${String(chainId)}0x`
  const hash = keccak256(toUtf8Bytes(prefix + digits)).slice(2)
  return `0x${digits.replace(/./g, (digit, at: number) => (parseInt(hash.charAt(at), 16) >= 8 ? digit.toUpperCase() : digit))}`
}

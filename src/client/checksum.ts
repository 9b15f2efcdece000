import { keccak_256 } from '@noble/hashes/sha3.js'
import { checksumAddress } from '../protocol/curve.js'
import { hexOf, utf8 } from './seal.js'

const keccak = { keccak256Hex: (text: string): string => hexOf(keccak_256(utf8(text))) }

/** An address with its checksum. Wallets show their sign-in window only with it; some report lower case. */
export function withChecksum(address: string): string {
  return checksumAddress(keccak, address)
}

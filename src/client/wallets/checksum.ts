import { keccak_256 } from '@noble/hashes/sha3.js'
import { checksumAddress } from '../../protocol/curve.js'
import { encodeHex, utf8 } from '../wire/seal.js'

const keccak = { keccak256Hex: (text: string): string => encodeHex(keccak_256(utf8(text))) }

/** Adds the checksum to an address. Wallets show their sign-in window only with it, but some report lower case. */
export function addChecksum(address: string): string {
  return checksumAddress(keccak, address)
}

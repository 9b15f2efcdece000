import { secp256k1 } from '@noble/curves/secp256k1'
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils'

export const makeKey = (): string => bytesToHex(secp256k1.utils.randomSecretKey())

/** Creates a wallet that signs without a prompt. */
export function createKeyWallet(hex: string): { address: string; signMessage: (text: string) => Promise<string> } {
  const key = hexToBytes(hex)
  return {
    address: `0x${bytesToHex(keccak_256(secp256k1.getPublicKey(key, false).subarray(1)).subarray(-20))}`,
    // Signs like `personal_sign` (EIP-191, version 0x45). The signature is r, s and v, which is 27 or 28.
    signMessage: async (text) => {
      const message = `\u0019Ethereum Signed Message:\n${utf8ToBytes(text).length}${text}`
      const signature = secp256k1.sign(keccak_256(utf8ToBytes(message)), key, { lowS: true })
      return `0x${bytesToHex(signature.toBytes('compact'))}${(27 + signature.recovery).toString(16)}`
    }
  }
}

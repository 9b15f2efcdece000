import sha3 from 'js-sha3'
import secp256k1 from 'secp256k1'

/** A wallet that signs natively: ethers takes a millisecond a signature, and would be all that is measured. */
export interface BenchWallet {
  did: string
  address: string
  personalSign(message: string): string
}

export function benchWallet(number: number): BenchWallet {
  return walletOfKey(Buffer.from(number.toString(16).padStart(64, '0'), 'hex'))
}

export function walletOfKey(privateKey: Uint8Array): BenchWallet {
  const publicKey = secp256k1.publicKeyCreate(privateKey, false)
  const address = `0x${sha3.keccak256(publicKey.subarray(1)).slice(-40)}`
  return {
    did: `did:ethr:rsk:${address}`,
    address,
    personalSign(message) {
      const hash = sha3.keccak256.array(`\x19Ethereum Signed Message:\n${Buffer.byteLength(message)}${message}`)
      const { signature, recid } = secp256k1.ecdsaSign(Uint8Array.from(hash), privateKey)
      return `0x${Buffer.from(signature).toString('hex')}${(27 + recid).toString(16)}`
    }
  }
}

import { secp256k1 } from '@noble/curves/secp256k1.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { checkShapes, type Curve } from '../protocol/curve.js'

/** Curve in pure JavaScript, for browsers, Workers and tests. Verifying takes ten times as long as in WebAssembly. */
export const pureCurve: Omit<Curve, 'kind'> = {
  sha256,
  keccak256: keccak_256,
  keccak256Hex: (data) => bytesToHex(keccak_256(data)),
  sign: (hash, privateKey) => {
    if (hash.length !== 32 || privateKey.length !== 32) throw new TypeError('a hash and a private key have 32 bytes')
    const signature = secp256k1.sign(hash, privateKey, { lowS: true })
    return { signature: signature.toBytes('compact'), recovery: signature.recovery }
  },
  ...checkShapes({
    verify: (hash, signature, publicKey) =>
      secp256k1.verify(signature, hash, publicKey, { lowS: true, format: 'compact' }),
    recover: (hash, signature, recovery) =>
      secp256k1.Signature.fromBytes(signature, 'compact')
        .addRecoveryBit(recovery)
        // eslint-disable-next-line @typescript-eslint/no-deprecated -- the types of this curve lack its successor
        .recoverPublicKey(hash)
        .toBytes(false),
    publicKeyOf: (privateKey) => secp256k1.getPublicKey(privateKey, false),
    decompress: (compressedKey) => secp256k1.Point.fromBytes(compressedKey).toBytes(false)
  })
}

import { secp256k1 } from '@noble/curves/secp256k1.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import type { Curve } from '../protocol/curve.js'

/**
 * The curve in JavaScript alone, for browsers, Workers and tests: no WebAssembly, nothing to load, no module of Node. A
 * verification takes about ten times as long as by {@link loadCurve}.
 */
export const pureCurve: Omit<Curve, 'kind'> = {
  sha256,
  keccak256: keccak_256,
  keccak256Hex: (data) => bytesToHex(keccak_256(data)),
  sign: (hash, privateKey) => {
    if (hash.length !== 32) throw new TypeError('a hash has 32 bytes')
    const signature = secp256k1.sign(hash, privateKey, { lowS: true })
    return { signature: signature.toBytes('compact'), recovery: signature.recovery }
  },
  verify: (hash, signature, publicKey) => {
    if (hash.length !== 32 || signature.length !== 64 || publicKey.length !== 65 || publicKey[0] !== 4) return false
    try {
      return secp256k1.verify(signature, hash, publicKey, { lowS: true, format: 'compact' })
    } catch {
      // It throws where r or s is out of range.
      return false
    }
  },
  recover: (hash, signature, recovery) => {
    if (hash.length !== 32 || signature.length !== 64 || (recovery !== 0 && recovery !== 1)) return undefined
    const { Signature } = secp256k1
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- its successor is not among the types of this curve
    return pointOf(() => Signature.fromBytes(signature, 'compact').addRecoveryBit(recovery).recoverPublicKey(hash))
  },
  publicKeyOf: (privateKey) =>
    privateKey.length === 32 && secp256k1.utils.isValidSecretKey(privateKey)
      ? secp256k1.getPublicKey(privateKey, false)
      : undefined,
  decompress: (compressedKey) =>
    compressedKey.length === 33 ? pointOf(() => secp256k1.Point.fromBytes(compressedKey)) : undefined
}

/** What noble answers as a point and refuses by a throw. */
function pointOf(compute: () => { toBytes(isCompressed: boolean): Uint8Array }): Uint8Array | undefined {
  try {
    return compute().toBytes(false)
  } catch {
    return undefined
  }
}

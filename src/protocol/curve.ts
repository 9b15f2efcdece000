/**
 * Signatures of secp256k1 and the hashes SHA-256 and Keccak-256: everything that runs in native or WASM code.
 * Lengths: `hash` 32 bytes, `signature` 64 bytes (r then s, big-endian), `publicKey` 65 bytes (uncompressed, first byte
 * 4). Strings are hashed as UTF-8.
 */
export interface Curve {
  /**
   * Build in use: `native` (libsecp256k1 compiled for this platform), `wasm` (libsecp256k1 in WebAssembly), or `pure`
   * (JavaScript) in runtimes that compile no WebAssembly, such as Workers.
   */
  readonly kind: 'native' | 'wasm' | 'pure'
  /** Returns the SHA-256 hash. */
  sha256(data: string | Uint8Array): Uint8Array
  /** Returns the Keccak-256 hash. */
  keccak256(data: string | Uint8Array): Uint8Array
  /** Returns lower-case hexadecimal without `0x`. */
  keccak256Hex(data: string | Uint8Array): string
  /** Returns a deterministic (RFC 6979) low-s signature. @throws TypeError for a wrong length */
  sign(hash: Uint8Array, privateKey: Uint8Array): { signature: Uint8Array; recovery: number }
  /** Returns false for a high s. Replace it by n - s first if you accept it. */
  verify(hash: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): boolean
  /** Recovers the public key that made the signature; undefined if no key can have made it. */
  recover(hash: Uint8Array, signature: Uint8Array, recovery: number): Uint8Array | undefined
  /** Returns the public key of a private key; undefined if the private key is zero or not below the curve's order. */
  publicKeyOf(privateKey: Uint8Array): Uint8Array | undefined
  /** Decompresses a public key of 33 bytes (2 or 3, then x); undefined if no point of the curve has that x. */
  decompress(compressedKey: Uint8Array): Uint8Array | undefined
}

/** A recoverable signature: 64 bytes (r then s), and the number of the candidate key that made it. */
export interface RecoverableSignature {
  /** 64 bytes, with a low s. */
  bytes: Uint8Array
  /** Number of the candidate, which `v` of the signature encodes. */
  recovery: 0 | 1
}

/** Functions of a curve that fail without throwing. */
type Checks = Pick<Curve, 'verify' | 'recover' | 'publicKeyOf' | 'decompress'>

/**
 * Adds checks of lengths and first bytes to the functions of a library: some builds fill up a short hash with bytes of
 * an earlier call. The functions return undefined or false for a wrong shape, and if the library throws.
 */
export function checkShapes({ verify, recover, publicKeyOf, decompress }: Checks): Checks {
  return {
    verify: (hash, signature, publicKey) =>
      hash.length === 32 &&
      signature.length === 64 &&
      publicKey.length === 65 &&
      publicKey[0] === 4 &&
      (ignoreThrow(() => verify(hash, signature, publicKey)) ?? false),
    recover: (hash, signature, recovery) =>
      hash.length === 32 && signature.length === 64 && (recovery === 0 || recovery === 1)
        ? ignoreThrow(() => recover(hash, signature, recovery))
        : undefined,
    publicKeyOf: (privateKey) => (privateKey.length === 32 ? ignoreThrow(() => publicKeyOf(privateKey)) : undefined),
    decompress: (compressedKey) =>
      compressedKey.length === 33 && (compressedKey[0] === 2 || compressedKey[0] === 3)
        ? ignoreThrow(() => decompress(compressedKey))
        : undefined
  }
}

function ignoreThrow<T>(compute: () => T): T | undefined {
  try {
    return compute()
  } catch {
    return undefined
  }
}

/** Adds the checksum to an address of `0x` and 40 hexadecimal digits; some wallets require it. @see EIP-55 */
export function checksumAddress(curve: { keccak256Hex(text: string): string }, address: string): string {
  const lower = address.toLowerCase()
  const hash = curve.keccak256Hex(lower.slice(2))
  return lower.replace(/[a-f]/g, (letter, at: number) => (hash.charAt(at - 2) > '7' ? letter.toUpperCase() : letter))
}

/** Returns the Ethereum address of a public key, lower case with `0x`. @see Ethereum yellow paper, appendix F */
export function addressOfPublicKey(curve: Pick<Curve, 'keccak256Hex'>, publicKey: Uint8Array): string {
  return `0x${curve.keccak256Hex(publicKey.subarray(1)).slice(-40)}`
}

/** Returns the hash that `personal_sign` signs. @see EIP-191, version 0x45 */
export function hashPersonalMessage(curve: Pick<Curve, 'keccak256'>, message: string): Uint8Array {
  const length = new TextEncoder().encode(message).length
  return curve.keccak256(`\x19Ethereum Signed Message:\n${String(length)}${message}`)
}

/** Recovers the address that signed a message with `personal_sign`; undefined if no key can have made the signature. */
export function recoverPersonalSigner(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover'>,
  message: string,
  { bytes, recovery }: RecoverableSignature
): string | undefined {
  const publicKey = curve.recover(hashPersonalMessage(curve, message), bytes, recovery)
  return publicKey && addressOfPublicKey(curve, publicKey)
}

/**
 * The arithmetic of secp256k1 and the two hashes that go with it: all that the protocol needs from native or WASM code.
 * Byte shapes: `hash` 32 bytes, `signature` 64 bytes (r then s, big-endian), `publicKey` 65 bytes (uncompressed,
 * starting with 4). Strings are hashed as UTF-8.
 */
export interface Curve {
  /** Build that runs: `native` (libsecp256k1 compiled for this platform) or `wasm` (libsecp256k1 in WebAssembly). */
  readonly kind: 'native' | 'wasm'
  sha256(data: string | Uint8Array): Uint8Array
  keccak256(data: string | Uint8Array): Uint8Array
  /** Returns lower-case hexadecimal without `0x`. */
  keccak256Hex(data: string | Uint8Array): string
  /** Returns a deterministic (RFC 6979) low-s signature. */
  sign(hash: Uint8Array, privateKey: Uint8Array): { signature: Uint8Array; recovery: number }
  /** Returns false for a high s: normalise first if a high s is acceptable. */
  verify(hash: Uint8Array, signature: Uint8Array, publicKey: Uint8Array): boolean
  /** Recovers the public key that made the signature, or undefined when there is none. */
  recover(hash: Uint8Array, signature: Uint8Array, recovery: number): Uint8Array | undefined
  /** Returns the public key of a private key; undefined if that is zero, or not below the curve's order. */
  publicKeyOf(privateKey: Uint8Array): Uint8Array | undefined
  /** Returns the public key of 33 bytes (2 or 3, then x), or undefined if no point of the curve has that x. */
  decompress(compressedKey: Uint8Array): Uint8Array | undefined
}

/** The part of a curve that a library of secp256k1 has. */
export type Arithmetic = Pick<Curve, 'sign' | 'verify' | 'recover' | 'publicKeyOf' | 'decompress'>

/** Checks lengths: some builds fill a short hash with bytes of the last caller. Errors become undefined or false. */
export function checkShapes({ sign, verify, recover, publicKeyOf, decompress }: Arithmetic): Arithmetic {
  return {
    sign: (hash, privateKey) => {
      if (hash.length !== 32 || privateKey.length !== 32) throw new TypeError('a hash and a private key have 32 bytes')
      return sign(hash, privateKey)
    },
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

/** Adds the checksum to an address of `0x` and 40 digits: wallets and services require it. @see EIP-55 */
export function checksumAddress(curve: { keccak256Hex(text: string): string }, address: string): string {
  const lower = address.toLowerCase()
  const hash = curve.keccak256Hex(lower.slice(2))
  return lower.replace(/[a-f]/g, (letter, at: number) => (hash.charAt(at - 2) > '7' ? letter.toUpperCase() : letter))
}

/** Returns the Ethereum address of a public key, lower case with `0x`. @see Ethereum yellow paper, appendix F */
export function addressOfPublicKey(curve: Pick<Curve, 'keccak256Hex'>, publicKey: Uint8Array): string {
  return `0x${curve.keccak256Hex(publicKey.subarray(1)).slice(-40)}`
}

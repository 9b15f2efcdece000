import { hash } from 'node:crypto'
import { lazy } from '../lazy.js'
import type { Curve } from '../protocol/curve.js'

type Arithmetic = Pick<Curve, 'kind' | 'sign' | 'verify' | 'recover' | 'publicKeyOf' | 'decompress'>

/**
 * Loads libsecp256k1, once: the native build of the optional package `secp256k1` where it loads, else the WASM build in
 * `@bitauth/libauth`.
 *
 * On first use, not on import: libauth has a top-level await, which would keep `require()` of this package from working.
 */
export function loadCurve(): Promise<Curve> {
  return curve()
}

const curve = lazy(() => loadNative().catch(loadWasm).then(withHashes))

/**
 * Makes a curve of a build: adds the two hashes, and asserts the shapes of all bytes, because the WASM build would complete
 * a hash that is too short by bytes of the last caller. Keccak in WASM takes a third of the time of JavaScript.
 */
export async function withHashes(arithmetic: Arithmetic): Promise<Curve> {
  const { kind, sign, verify, recover, publicKeyOf, decompress } = arithmetic
  const { createKeccak } = await import('hash-wasm')
  const keccak = await createKeccak(256)
  return {
    kind,
    sign: (hash, privateKey) => {
      if (hash.length !== 32 || privateKey.length !== 32) throw new TypeError('a hash and a private key have 32 bytes')
      return sign(hash, privateKey)
    },
    verify: (hash, signature, publicKey) =>
      hash.length === 32 &&
      signature.length === 64 &&
      publicKey.length === 65 &&
      publicKey[0] === 4 &&
      verify(hash, signature, publicKey),
    recover: (hash, signature, recovery) =>
      hash.length === 32 && signature.length === 64 && (recovery === 0 || recovery === 1)
        ? recover(hash, signature, recovery)
        : undefined,
    publicKeyOf: (privateKey) => (privateKey.length === 32 ? publicKeyOf(privateKey) : undefined),
    decompress: (compressedKey) =>
      compressedKey.length === 33 && (compressedKey[0] === 2 || compressedKey[0] === 3)
        ? decompress(compressedKey)
        : undefined,
    sha256: (data) => hash('sha256', data, 'buffer'),
    keccak256: (data) => keccak.init().update(data).digest('binary'),
    keccak256Hex: (data) => keccak.init().update(data).digest('hex')
  }
}

/**
 * The native build; its bindings, because the package's main file falls back silently to JavaScript, forty times slower.
 *
 * @throws Error when it is not installed, does not load here, or is older than version 4
 */
export async function loadNative(): Promise<Arithmetic> {
  // Bundlers take an import for optional only when `catch` stands directly on it.
  const { default: native } = await import('secp256k1/bindings.js').catch((cause: unknown) => {
    throw new Error('there is no native build of secp256k1', { cause })
  })
  // Version 3, which other packages may have brought along, has other functions under the same path.
  if (typeof native.ecdsaRecover !== 'function') throw new Error('secp256k1 is older than version 4')
  return {
    kind: 'native',
    sign: (hash, privateKey) => {
      const { signature, recid } = native.ecdsaSign(hash, privateKey)
      return { signature, recovery: recid }
    },
    verify: (hash, signature, publicKey) => orUndefined(() => native.ecdsaVerify(signature, hash, publicKey)) ?? false,
    recover: (hash, signature, recovery) => orUndefined(() => native.ecdsaRecover(signature, recovery, hash, false)),
    publicKeyOf: (privateKey) =>
      native.privateKeyVerify(privateKey) ? native.publicKeyCreate(privateKey, false) : undefined,
    decompress: (compressedKey) => orUndefined(() => native.publicKeyConvert(compressedKey, false))
  }
}

/** The native build throws for bytes that are no signature or key. */
function orUndefined<T>(compute: () => T): T | undefined {
  try {
    return compute()
  } catch {
    return undefined
  }
}

/** The WASM build. Its functions return a string where they fail. */
export async function loadWasm(): Promise<Arithmetic> {
  const { secp256k1: wasm } = await import('@bitauth/libauth')
  const keyOf = (publicKey: Uint8Array | string): Uint8Array | undefined =>
    typeof publicKey === 'string' ? undefined : publicKey
  return {
    kind: 'wasm',
    sign: (hash, privateKey) => {
      const signed = wasm.signMessageHashRecoverableCompact(privateKey, hash)
      if (typeof signed === 'string') throw new Error(signed)
      return { signature: signed.signature, recovery: signed.recoveryId }
    },
    verify: (hash, signature, publicKey) => wasm.verifySignatureCompactLowS(signature, publicKey, hash),
    recover: (hash, signature, recovery) =>
      keyOf(wasm.recoverPublicKeyUncompressed(signature, recovery as 0 | 1, hash)),
    publicKeyOf: (privateKey) => keyOf(wasm.derivePublicKeyUncompressed(privateKey)),
    decompress: (compressedKey) => keyOf(wasm.uncompressPublicKey(compressedKey))
  }
}

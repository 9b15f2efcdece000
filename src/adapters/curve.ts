import { hash } from 'node:crypto'
import { createLazy } from '../lazy.js'
import { checkShapes, type Curve } from '../protocol/curve.js'

/** The functions of a curve that a library of secp256k1 provides. */
type Build = Omit<Curve, 'sha256' | 'keccak256' | 'keccak256Hex'>

/** The shortest WebAssembly module: magic number and version. */
const EMPTY_MODULE = Uint8Array.of(0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0)

/**
 * Loads libsecp256k1 once: the native build of the optional package `secp256k1` if it loads, else the WASM build in
 * `@bitauth/libauth`. That package has a top-level await, so a static import would make `require()` of this one fail.
 * Runtimes that compile no WASM get the build in JavaScript.
 */
export const loadCurve: () => Promise<Curve> = createLazy(() =>
  canCompileWasm() ? loadNative().catch(loadWasm).then(addHashes) : loadPure()
)

/** Whether this runtime compiles WebAssembly. Workers refuse it, and `node --jitless` does not know it. */
function canCompileWasm(): boolean {
  // The types of Node do not contain it.
  const { WebAssembly: wasm } = globalThis as unknown as { WebAssembly: { Module: new (bytes: Uint8Array) => object } }
  try {
    return Boolean(new wasm.Module(EMPTY_MODULE))
  } catch {
    return false
  }
}

async function loadPure(): Promise<Curve> {
  const { pureCurve } = await import('./curve-pure.js')
  return { kind: 'pure', ...pureCurve }
}

/** Completes a build by the two hashes. Keccak in WASM takes a third of the time of JavaScript. */
export async function addHashes({ kind, sign, ...arithmetic }: Build): Promise<Curve> {
  const { createKeccak } = await import('hash-wasm')
  const keccak = await createKeccak(256)
  return {
    kind,
    sign,
    ...checkShapes(arithmetic),
    sha256: (data) => hash('sha256', data, 'buffer'),
    keccak256: (data) => keccak.init().update(data).digest('binary'),
    keccak256Hex: (data) => keccak.init().update(data).digest('hex')
  }
}

/**
 * Loads the native bindings directly, because the main file of their package may fall back to JavaScript, which is 40
 * times slower.
 * @throws Error if there are no usable bindings
 */
export async function loadNative(): Promise<Build> {
  // Bundlers treat an import as optional only if `catch` is called directly on it.
  const { default: native } = await import('secp256k1/bindings.js').catch((cause: unknown) => {
    throw new Error('there is no native build of secp256k1', { cause })
  })
  // Another package may depend on version 3, which exports other functions under the same path.
  if (typeof native.ecdsaRecover !== 'function') throw new Error('secp256k1 is older than version 4')
  return {
    kind: 'native',
    sign: (hash, privateKey) => {
      assertLengths(hash, privateKey)
      const { signature, recid } = native.ecdsaSign(hash, privateKey)
      return { signature, recovery: recid }
    },
    verify: (hash, signature, publicKey) => native.ecdsaVerify(signature, hash, publicKey),
    recover: (hash, signature, recovery) => native.ecdsaRecover(signature, recovery, hash, false),
    publicKeyOf: (privateKey) => native.publicKeyCreate(privateKey, false),
    decompress: (compressedKey) => native.publicKeyConvert(compressedKey, false)
  }
}

/** Loads the WASM build. Its functions return a string if they fail. */
export async function loadWasm(): Promise<Build> {
  const { secp256k1: wasm } = await import('@bitauth/libauth')
  const parsePublicKey = (publicKey: Uint8Array | string): Uint8Array | undefined =>
    typeof publicKey === 'string' ? undefined : publicKey
  return {
    kind: 'wasm',
    sign: (hash, privateKey) => {
      assertLengths(hash, privateKey)
      const signed = wasm.signMessageHashRecoverableCompact(privateKey, hash)
      if (typeof signed === 'string') throw new Error(signed)
      return { signature: signed.signature, recovery: signed.recoveryId }
    },
    verify: (hash, signature, publicKey) => wasm.verifySignatureCompactLowS(signature, publicKey, hash),
    recover: (hash, signature, recovery) =>
      parsePublicKey(wasm.recoverPublicKeyUncompressed(signature, recovery as 0 | 1, hash)),
    publicKeyOf: (privateKey) => parsePublicKey(wasm.derivePublicKeyUncompressed(privateKey)),
    decompress: (compressedKey) => parsePublicKey(wasm.uncompressPublicKey(compressedKey))
  }
}

function assertLengths(hash: Uint8Array, privateKey: Uint8Array): void {
  if (hash.length !== 32 || privateKey.length !== 32) throw new TypeError('a hash and a private key have 32 bytes')
}

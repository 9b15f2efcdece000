// Bindings of `secp256k1` 5, which curve.ts imports directly and not through the main file.
declare module 'secp256k1/bindings.js' {
  const bindings: {
    ecdsaSign(hash: Uint8Array, privateKey: Uint8Array): { signature: Uint8Array; recid: number }
    ecdsaVerify(signature: Uint8Array, hash: Uint8Array, publicKey: Uint8Array): boolean
    ecdsaRecover(signature: Uint8Array, recovery: number, hash: Uint8Array, isCompressed: boolean): Uint8Array
    publicKeyCreate(privateKey: Uint8Array, isCompressed: boolean): Uint8Array
    publicKeyConvert(publicKey: Uint8Array, isCompressed: boolean): Uint8Array
  }
  export default bindings
}

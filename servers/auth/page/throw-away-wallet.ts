import { secp256k1 } from '@noble/curves/secp256k1'
import { keccak_256 } from '@noble/hashes/sha3'
import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils'

const STORAGE_KEY = 'throw-away-key'

/** A wallet that signs without asking. */
export interface ThrowAwayWallet {
  address: string
  signMessage(text: string): Promise<string>
}

/** Makes a key. It lies in this tab's storage, which ends with the tab, so that a reload finds it. */
export function makeThrowAwayWallet(): ThrowAwayWallet {
  const key = secp256k1.utils.randomSecretKey()
  sessionStorage.setItem(STORAGE_KEY, bytesToHex(key))
  return walletOf(key)
}

/** The wallet that this tab had before a reload. */
export function findThrowAwayWallet(): ThrowAwayWallet | undefined {
  const text = sessionStorage.getItem(STORAGE_KEY)
  return text === null || !/^[0-9a-f]{64}$/.test(text) ? undefined : walletOf(hexToBytes(text))
}

/** Deletes the key. */
export function forgetThrowAwayWallet(): void {
  sessionStorage.removeItem(STORAGE_KEY)
}

function walletOf(key: Uint8Array): ThrowAwayWallet {
  const hash = keccak_256(secp256k1.getPublicKey(key, false).subarray(1))
  return {
    address: `0x${bytesToHex(hash.subarray(-20))}`,
    signMessage: async (text) => `0x${bytesToHex(sign(personalHash(text), key))}`
  }
}

/** What `personal_sign` signs (EIP-191, version 0x45). */
function personalHash(text: string): Uint8Array {
  const bytes = utf8ToBytes(text)
  return keccak_256(concatBytes(utf8ToBytes(`\u0019Ethereum Signed Message:\n${bytes.length}`), bytes))
}

/** r, s and v of 27 or 28, as wallets write it. */
function sign(hash: Uint8Array, key: Uint8Array): Uint8Array {
  const signature = secp256k1.sign(hash, key, { lowS: true })
  return concatBytes(signature.toBytes('compact'), Uint8Array.of(27 + signature.recovery))
}

import { bytesToHex, concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { pureCurve } from '../adapters/curve-pure.js'
import { addressOfPublicKey } from '../protocol/curve.js'

const ICON = 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"/>'

/** How a wallet of a test introduces itself to a page. */
export interface WalletInfo {
  /** A UUID of version 4. */
  uuid: string
  name: string
  /** A data URI. */
  icon: string
  /** The domain of the wallet, reversed. */
  rdns: string
}

/** An account of a wallet: what a seed stands for. */
export interface WalletKey {
  seed: string
  privateKey: Uint8Array
  /** Lower case with `0x`. */
  address: string
  /** Signs bytes by `personal_sign`: `0x` and 65 bytes in hexadecimal. @see EIP-191, version 0x45 */
  sign(message: Uint8Array): string
}

/** @throws RangeError for one seed in 2^128, whose hash is no private key */
export function walletKey(seed: string): WalletKey {
  const privateKey = pureCurve.sha256(`wallet of a test: ${seed}`)
  const publicKey = pureCurve.publicKeyOf(privateKey)
  if (publicKey === undefined) throw new RangeError('take another seed')
  const sign = (message: Uint8Array): string => {
    const prefix = utf8ToBytes(`\x19Ethereum Signed Message:\n${String(message.length)}`)
    const { signature, recovery } = pureCurve.sign(pureCurve.keccak256(concatBytes(prefix, message)), privateKey)
    return `0x${bytesToHex(signature)}${(27 + recovery).toString(16)}`
  }
  return { seed, privateKey, address: addressOfPublicKey(pureCurve, publicKey), sign }
}

/** How the wallet of a seed introduces itself: the same in every run. Pages tell wallets apart by `rdns`. */
export function walletInfo(seed: string): WalletInfo {
  const hex = bytesToHex(pureCurve.sha256(`name of a test's wallet: ${seed}`))
  const uuid = [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)]
  return { uuid: uuid.join('-'), name: seed, icon: ICON, rdns: `example.wallet-${hex.slice(32, 40)}` }
}

/** The DID of an address on a network, which is empty for Ethereum. */
export function didOn(network: string, address: string): string {
  return ['did:ethr', network, address].filter(Boolean).join(':')
}

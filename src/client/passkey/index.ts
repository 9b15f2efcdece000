/** A passkey as a wallet: its key is computed from a secret of the passkey, and stored nowhere. */
export * from '../errors.js'
export { createPasskey, openPasskey, type PasskeyOptions, type PasskeyWallet } from './passkey-wallet.js'
export type { PlainWallet } from '../wallet.js'

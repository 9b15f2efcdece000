/** A passkey as a wallet. Its private key is derived from a secret of the passkey, and stored nowhere. */
export * from '../wire/errors.js'
export { createPasskey, openPasskey, type PasskeyOptions, type PasskeyWallet } from './passkey-wallet.js'
export type { PlainWallet } from '../wallets/wallet.js'

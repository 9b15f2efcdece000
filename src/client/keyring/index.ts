/** The key of a vault, stored in the vault itself: encrypted for a code on paper, for passkeys and for wallets. */
export * from '../errors.js'
export { createKeyring, openKeyring, type Keyring, type KeyringSlot, type KeyringVault } from './keyring.js'
export { passkey, recovery, wallet, type Unlocker } from './unlockers.js'

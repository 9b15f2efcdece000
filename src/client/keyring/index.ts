/** The key of a vault, kept in the vault itself: encrypted for a code on paper, for passkeys and for wallets. */
export * from '../errors.js'
export { createKeyring, openKeyring, type Keyring, type KeyringVault } from './keyring.js'
export type { KeyringSlot, Unlocker } from './keyring-entry.js'
export { passkey, recovery, wallet } from './unlockers.js'

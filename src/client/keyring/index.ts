/** The keyring of a vault: its key, stored in the vault and encrypted for a recovery code, passkeys and wallets. */
export * from '../wire/errors.js'
export { createKeyring, openKeyring, type Keyring, type KeyringSlot, type KeyringVault } from './keyring.js'
export { passkey, recovery, wallet, type Unlocker } from './unlockers.js'

/** The client of the vault: reads and writes a user's contents, encrypted where the caller gives a key. */
export * from '../errors.js'
export * from './vault-client.js'
export type { VaultBackup, VaultKey, VaultList, VaultStorage, Written } from './vault-answers.js'

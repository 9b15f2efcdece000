/** The client of the vault: reads and writes a user's contents, and encrypts them if the caller provides a key. */
export * from '../wire/errors.js'
export { VaultClient } from './vault-client.js'
export type { EntryOptions, ReadOptions, VaultAuth, VaultClientOptions, WriteOptions } from './vault-types.js'
export type { ResourceAuth } from '../wire/resource-fetch.js'
export type { VaultBackup, VaultKey, VaultList, VaultStorage, Written } from './vault-types.js'

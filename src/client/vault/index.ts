/**
 * The client of the vault: reads and writes a user's contents, encrypted where the caller gives a key.
 */
export { ContentError, type ContentProblem } from '../content-errors.js'
export { DidAuthClientError, type ClientErrorCode, type ClientErrorDetails } from '../errors.js'
export * from './vault-client.js'
export type { VaultBackup, VaultKey, VaultList, VaultStorage, Written } from './vault-answers.js'
export type { EntryOptions, ReadOptions, VaultAuth, VaultClientOptions, WriteOptions } from './vault-options.js'

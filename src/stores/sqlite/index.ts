export { sqliteStore, type SqliteStoreOptions } from './sqlite-store.js'
export type * from '../port-types.js'

import type { Store } from '../../ports.js'
import { MemoryStore, type MemoryStoreOptions } from './memory-store.js'

/**
 * A store in this process's memory, bounded in count and time. A restart loses it, and ends all sessions.
 *
 * A session needs up to 400 bytes, and twice as many once it was refreshed 16 times.
 *
 * @example
 * ```ts
 * setupDidAuth(app, { ...config, store: memoryStore({ maxSessions: 10_000 }) })
 * ```
 */
export function memoryStore(options?: MemoryStoreOptions): Store {
  return new MemoryStore(options)
}

/** Whether a store, or a part of one, is a memory store, which loses all data at a restart. */
export function isMemoryStore(store: object): boolean {
  return store instanceof MemoryStore
}

export type { MemoryStoreOptions } from './memory-store.js'

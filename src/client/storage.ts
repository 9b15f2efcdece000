import { browser, type WebStorage } from './browser.js'
import type { askDatabase } from './indexed-db.js'

/** Storage of the client's session: `memory()`, `local()`, `session()`, `indexedDb()`, or one of your own. */
export interface ClientStorage {
  get(key: string): Promise<string | null | undefined> | string | null | undefined
  set(key: string, value: string): unknown
  delete(key: string): unknown
  /** Runs one after the other what all who share the storage run under a name. Default: the browser's locks. */
  lock?<T>(name: string, run: () => Promise<T>): Promise<T>
  /** Calls a function with each change by another tab, once this tab can read the value. */
  onChange?(listener: (change: { readonly key: string | null }) => void): void
  /** Says that no other tab or process sees it: then no lock is needed, and other tabs are told nothing. */
  readonly isPrivate?: boolean
}

/** Keeps the session while the page is open; a reload signs out. No other script of the page sees it. */
export function memory(): ClientStorage {
  const values = new Map<string, string>()
  return {
    isPrivate: true,
    get: (key) => values.get(key),
    set: (key, value) => values.set(key, value),
    delete: (key) => values.delete(key)
  }
}

/** Keeps the session in `localStorage`, for all tabs. Every script of the page's origin can read it. */
export function local(): ClientStorage {
  return {
    ...webStorage(() => browser.localStorage),
    onChange: (listener) => browser.addEventListener?.('storage', listener)
  }
}

/**
 * Keeps the session in `sessionStorage`, for one tab until it is closed. Every script of the page can read it. A tab
 * that the user duplicates has a copy, as a thief would: the second of the two that refreshes ends the session of both.
 */
export function session(): ClientStorage {
  return webStorage(() => browser.sessionStorage)
}

/** Stores values in memory if the browser has no such storage, forbids it, or it is full. */
function webStorage(open: () => WebStorage): ClientStorage {
  const kept = new Map<string, string>()
  const attempt = <T>(use: (area: WebStorage) => T): T | undefined => {
    try {
      return use(open())
    } catch {
      return undefined
    }
  }
  return {
    get: (key) => kept.get(key) ?? attempt((area) => area.getItem(key)),
    set(key, value) {
      kept.set(key, value)
      attempt((area) => {
        area.setItem(key, value)
        kept.delete(key)
      })
    },
    delete(key) {
      kept.delete(key)
      attempt((area) => area.removeItem(key))
    }
  }
}

/** Keeps the session in IndexedDB, for all tabs and workers. Every script of the page's origin can read it. */
export function indexedDb(): ClientStorage {
  const databases = browser.indexedDB
  if (!databases) return memory()
  const ask = async (use: Parameters<typeof askDatabase>[1]) =>
    (await import('./indexed-db.js')).askDatabase(databases, use)
  return {
    get: (key) => ask((values) => values.get(key)),
    set: (key, value) => ask((values) => values.put(value, key)),
    delete: (key) => ask((values) => values.delete(key))
  }
}

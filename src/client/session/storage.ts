import { browser, type WebStorage } from '../wire/browser.js'
import type { askDatabase } from './indexed-db.js'

/** Storage of the client's session: `memory()`, `local()`, `session()`, `indexedDb()`, or your own. */
export interface ClientStorage {
  /** Reads a value; null or undefined if there is none. */
  get(key: string): Promise<string | null | undefined> | string | null | undefined
  /** Writes a value, and replaces an older one. A returned promise is awaited. */
  set(key: string, value: string): unknown
  /** Deletes a value, if there is one. A returned promise is awaited. */
  delete(key: string): unknown
  /** Runs a function under an exclusive lock that all users of the storage share. Default: the browser's locks. */
  lock?<T>(name: string, run: () => Promise<T>): Promise<T>
  /** Calls `listener` for each change by another tab, once this tab can read the new value. */
  onChange?(listener: (change: { readonly key: string | null }) => void): void
  /** Whether no other tab or process uses the storage. If so, the client takes no locks and sends no messages. */
  readonly isPrivate?: boolean
  /** Whether each tab has its own values, so that no tab knows whether a session of another tab uses the same key. */
  readonly isPerTab?: boolean
}

/** Keeps the session until the page is closed or reloaded. Other scripts of the page cannot read it. */
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
 * Keeps the session in `sessionStorage`, for one tab until it is closed. Every script of the page can read it. A
 * duplicated tab has a copy of the tokens, which looks like theft: the second tab to refresh ends the session of both.
 */
export function session(): ClientStorage {
  return { ...webStorage(() => browser.sessionStorage), isPerTab: true }
}

/** Creates a storage that falls back to memory if the browser's storage is missing, blocked or full. */
function webStorage(open: () => WebStorage): ClientStorage {
  const unsaved = new Map<string, string>()
  const attempt = <T>(use: (area: WebStorage) => T): T | undefined => {
    try {
      return use(open())
    } catch {
      return undefined
    }
  }
  return {
    get: (key) => unsaved.get(key) ?? attempt((area) => area.getItem(key)),
    set(key, value) {
      unsaved.set(key, value)
      attempt((area) => {
        area.setItem(key, value)
        unsaved.delete(key)
      })
    },
    delete(key) {
      unsaved.delete(key)
      attempt((area) => area.removeItem(key))
    }
  }
}

/** Keeps the session in IndexedDB, for all tabs and workers. Every script of the page's origin can read it. */
export function indexedDb(): ClientStorage {
  if (!browser.indexedDB) return memory()
  const ask = async (...call: Parameters<typeof askDatabase>) => (await import('./indexed-db.js')).askDatabase(...call)
  return {
    get: (key) => ask('get', key) as Promise<string | undefined>,
    set: (key, value) => ask('put', key, value),
    delete: (key) => ask('delete', key)
  }
}

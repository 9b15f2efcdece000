import { browser, type DatabaseRequest, type WebStorage } from './browser.js'

/** Where the client keeps its session: `memory()`, `local()`, `session()`, `indexedDb()`, or one of your own. */
export interface ClientStorage {
  get(key: string): Promise<string | null | undefined> | string | null | undefined
  set(key: string, value: string): unknown
  delete(key: string): unknown
  /** Runs one after the other what is given for a name, by all who share the storage. The browser's locks when absent. */
  lock?<T>(name: string, run: () => Promise<T>): Promise<T>
  /** Says that no other tab or process sees it: then no lock is needed, and other tabs are told nothing. */
  readonly isPrivate?: boolean
}

/** Keeps the session while the page is open. No other script reads it from a disk; a reload signs out. */
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
  return webStorage(() => browser.localStorage)
}

/** Keeps the session in `sessionStorage`, for one tab until it is closed. Every script of the page can read it. */
export function session(): ClientStorage {
  return webStorage(() => browser.sessionStorage)
}

/** Where the browser has no such storage, forbids it, or it is full, values are kept in memory. */
function webStorage(open: () => WebStorage | undefined): ClientStorage {
  const { get, set, delete: remove } = memory()
  const area = <T>(use: (area: WebStorage) => T): T | undefined => {
    try {
      const opened = open()
      return opened && use(opened)
    } catch {
      return undefined
    }
  }
  return {
    get: (key) => get(key) ?? area((values) => values.getItem(key)),
    set(key, value) {
      const isKept = area((values) => {
        values.setItem(key, value)
        return true
      })
      return isKept ? remove(key) : set(key, value)
    },
    delete(key) {
      remove(key)
      area((values) => {
        values.removeItem(key)
      })
    }
  }
}

interface Database {
  createObjectStore(name: string): void
  transaction(name: string, mode: string, options: object): Transaction
  close(): void
}

interface Transaction extends DatabaseRequest {
  objectStore(name: string): {
    get(key: string): DatabaseRequest
    put(value: string, key: string): DatabaseRequest
    delete(key: string): DatabaseRequest
  }
}

/** Keeps the session in IndexedDB, for all tabs and workers. Every script of the page's origin can read it. */
export function indexedDb(): ClientStorage {
  const factory = browser.indexedDB
  if (factory === undefined) return memory()
  const run = async (use: (values: ReturnType<Transaction['objectStore']>) => DatabaseRequest): Promise<unknown> => {
    const opening = factory.open('did-auth', 1)
    const database = parseDatabase(
      await settled(opening, 'onsuccess', () => {
        parseDatabase(opening.result).createObjectStore('values')
      })
    )
    try {
      const transaction = database.transaction('values', 'readwrite', { durability: 'strict' })
      const request = use(transaction.objectStore('values'))
      await settled(transaction, 'oncomplete')
      return request.result
    } finally {
      database.close()
    }
  }
  return {
    async get(key) {
      const value = await run((values) => values.get(key))
      return typeof value === 'string' ? value : undefined
    },
    set: (key, value) => run((values) => values.put(value, key)),
    delete: (key) => run((values) => values.delete(key))
  }
}

function settled(request: DatabaseRequest, success: string, onupgradeneeded?: () => void): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const fail = (): void => {
      reject(new Error('IndexedDB failed', { cause: request.error }))
    }
    const succeed = (): void => {
      resolve(request.result)
    }
    Object.assign(request, { [success]: succeed, onupgradeneeded, onerror: fail, onabort: fail })
  })
}

function parseDatabase(result: unknown): Database {
  return result as Database
}

/** A browser wallet, or any other provider of EIP-1193. */
export interface Eip1193Provider {
  request(args: { method: string; params?: readonly unknown[] }): Promise<unknown>
  on?(event: string, listener: (value: never) => void): unknown
}

/** `localStorage` and `sessionStorage`. */
export interface WebStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/** The part of IndexedDB that the client uses. */
export interface DatabaseRequest<T = string | undefined> {
  readonly result: T
  readonly error: unknown
  onsuccess?: (() => void) | null
  oncomplete?: (() => void) | null
  onerror: (() => void) | null
  onupgradeneeded?: (() => void) | null
}

export interface DatabaseTransaction extends DatabaseRequest<undefined> {
  objectStore(name: string): {
    get(key: string): DatabaseRequest
    put(value: string, key: string): DatabaseRequest
    delete(key: string): DatabaseRequest
  }
}

export interface Database {
  createObjectStore(name: string): void
  transaction(name: string, mode: string): DatabaseTransaction
  close(): void
}

/** The databases of an origin. */
export interface IndexedDatabases {
  open(name: string, version: number): DatabaseRequest<Database>
}

/** A passkey that was made or asked. */
export interface PasskeyAnswer {
  readonly rawId: ArrayBuffer
  getClientExtensionResults(): { readonly prf?: { readonly results?: { readonly first?: ArrayBuffer } } }
}

/** A channel to the other tabs of this origin. */
export interface Channel {
  onmessage: ((event: { readonly data: unknown }) => void) | null
  postMessage(message: unknown): void
  /** Exists only in Node: an open channel does not keep the process alive. */
  unref?(): void
}

/**
 * Members of a browser that the client uses. Reading some throws if the user has forbidden storage. These declarations
 * stand for the DOM's, which users on Node need not have.
 */
export interface Browser {
  readonly window?: unknown
  readonly location?: { readonly href: string; readonly host: string; readonly protocol: string }
  readonly ethereum?: Eip1193Provider
  /** Absent outside of browsers, which its user takes for a failure as the others. */
  readonly localStorage: WebStorage
  readonly sessionStorage: WebStorage
  readonly indexedDB?: IndexedDatabases
  readonly navigator?: {
    readonly locks?: { request<T>(name: string, run: () => Promise<T>): Promise<T> }
    /** Passkeys need `PublicKeyCredential` as well. */
    readonly credentials?: Record<'create' | 'get', (options: object) => Promise<PasskeyAnswer>>
  }
  readonly PublicKeyCredential?: { getClientCapabilities?(): Promise<Readonly<Record<string, boolean>>> }
  readonly BroadcastChannel?: new (name: string) => Channel
  /** Exists only on a page, like the next two. */
  dispatchEvent?(event: Event): boolean
  addEventListener?(type: string, listener: (event: never) => void): void
  removeEventListener?(type: string, listener: (event: never) => void): void
}

export const browser = globalThis as unknown as Browser

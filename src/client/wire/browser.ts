/** A browser wallet, or any other provider of EIP-1193. */
export interface Eip1193Provider {
  /** Sends a JSON-RPC request to the wallet, which may prompt the user. */
  request(args: { method: string; params?: readonly unknown[] }): Promise<unknown>
  /** Adds a listener, here for `accountsChanged`. If absent, a change of account is not noticed. */
  on?(event: string, listener: (value: never) => void): unknown
}

/** `localStorage` and `sessionStorage`. */
export interface WebStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/** The part of IndexedDB that the client uses. */
export interface DatabaseRequest<T = unknown> {
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
    put(value: unknown, key: string): DatabaseRequest
    /** Fails if the key exists. */
    add(value: unknown, key: string): DatabaseRequest
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

/** A pair of keys of WebCrypto. The type follows the global `crypto`, because only the DOM names it. */
export type DeviceKeyPair = Extract<Awaited<ReturnType<typeof crypto.subtle.generateKey>>, { privateKey: unknown }>

/** The browser's answer for a passkey that was created or used. */
export interface PasskeyAnswer {
  readonly rawId: ArrayBuffer
  getClientExtensionResults(): { readonly prf?: { readonly results?: { readonly first?: ArrayBuffer } } }
}

/** A message channel to the other tabs of this origin. */
export interface Channel {
  onmessage: ((event: { readonly data: unknown }) => void) | null
  postMessage(message: unknown): void
  /** Lets the process exit while the channel is open. Exists only in Node. */
  unref?(): void
}

/**
 * Browser globals that the client uses. Reading some of them throws if the user has blocked storage. These types
 * replace those of the DOM, which projects for Node may not have.
 */
export interface Browser {
  readonly window?: unknown
  readonly location?: { readonly href: string; readonly host: string; readonly protocol: string }
  readonly ethereum?: Eip1193Provider
  /** Undefined outside of browsers. `storage.ts` catches the error of its use. */
  readonly localStorage: WebStorage
  readonly sessionStorage: WebStorage
  readonly indexedDB?: IndexedDatabases
  readonly navigator?: {
    readonly locks?: { request<T>(name: string, run: () => Promise<T>): Promise<T> }
    /** Passkeys also need `PublicKeyCredential`. */
    readonly credentials?: Record<'create' | 'get', (options: object) => Promise<PasskeyAnswer>>
  }
  readonly PublicKeyCredential?: { getClientCapabilities?(): Promise<Readonly<Record<string, boolean>>> }
  readonly BroadcastChannel?: new (name: string) => Channel
  /** Exists only on a page, like the next two members. */
  dispatchEvent?(event: Event): boolean
  addEventListener?(type: string, listener: (event: never) => void): void
  removeEventListener?(type: string, listener: (event: never) => void): void
}

export const browser = globalThis as unknown as Browser

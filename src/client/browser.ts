import type { Eip1193Provider } from './wallet.js'

/** `localStorage` and `sessionStorage`. */
export interface WebStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/** What IndexedDB answers, in the few words that the client needs of it. */
export interface DatabaseRequest {
  readonly result: unknown
  readonly error: unknown
}

export interface DatabaseFactory {
  open(name: string, version: number): DatabaseRequest
}

/** A channel to the other tabs of this origin. */
export interface Channel {
  onmessage: ((event: { readonly data: unknown }) => void) | null
  postMessage(message: unknown): void
  /** Node's: an open channel keeps no process alive. */
  unref?(): void
}

/**
 * What the client uses of a browser, where it is there. Reading some of these throws where the user has forbidden storage.
 *
 * These few declarations stand for the DOM's, so that users on Node need none of it.
 */
export interface Browser {
  readonly window?: unknown
  readonly location?: { readonly href: string; readonly origin: string }
  readonly ethereum?: Eip1193Provider
  readonly localStorage?: WebStorage
  readonly sessionStorage?: WebStorage
  readonly indexedDB?: DatabaseFactory
  readonly navigator?: { readonly locks?: { request<T>(name: string, run: () => Promise<T>): Promise<T> } }
  readonly BroadcastChannel?: new (name: string) => Channel
  addEventListener?(type: string, listener: (event: object) => void): void
  removeEventListener?(type: string, listener: (event: object) => void): void
  dispatchEvent?(event: Event): boolean
}

export const browser = parseBrowser(globalThis)

function parseBrowser(scope: object): Browser {
  return scope as Browser
}

import type { ResourceAuth } from '../wire/resource-fetch.js'

/** The part of a `DidAuthClient` that the vault client needs. */
export interface VaultAuth extends Partial<Pick<ResourceAuth, 'tokenFor'>> {
  /** Sends a request with the session. A path is relative to the URL of the vault. */
  fetch(path: string, init?: RequestInit & { readonly fetch?: typeof globalThis.fetch }): Promise<Response>
  /** The current session. Undefined if no user is logged in. */
  readonly session: { readonly did: string } | undefined
}

/** Options of a vault client. */
export interface VaultClientOptions {
  /**
   * A client of the vault or, with `resource`, of a service whose tokens the vault accepts, also a `MachineClient`. It
   * must be logged in, except for `get` with a DID.
   */
  readonly auth: VaultAuth | ResourceAuth
  /** URL of the vault, as the service of `auth` lists it in `resources`. */
  readonly resource?: string
  /** URL at which the vault is reachable. Default: `resource`. */
  readonly url?: string
  /**
   * Key of 32 bytes that encrypts written contents and decrypts read ones. Off by default: **everybody who knows a DID
   * and a key's name can read the vault**. Names of keys and sizes are never encrypted. A lost key is lost content.
   */
  readonly encrypt?: { readonly key: Uint8Array }
  /** Replaces `fetch`. It gets absolute URLs and the token of `auth`. */
  readonly fetch?: (url: string, init?: RequestInit) => Promise<Response>
  /** Time limit for a response with its body, in seconds. Default 60. */
  readonly timeoutSeconds?: number
}

/** Options of every call. */
export interface ReadOptions {
  /** Aborts the call, which throws the signal's reason. */
  readonly signal?: AbortSignal
}

/** Condition of a write. An unmet condition throws `CONFLICT`. */
export interface WriteOptions extends ReadOptions {
  /** Requires that the list still has this ETag; `*` requires that the list exists. */
  readonly ifMatch?: string
  /** Requires that the list does not exist. */
  readonly ifNoneMatch?: '*'
}

/** The entries that a write affects, and its condition. */
export interface EntryOptions extends WriteOptions {
  /** Id of one entry. Default: all entries of the key. */
  readonly id?: string
}

/** The contents under a key, in the order in which they were written. */
export interface VaultList {
  /** Decrypted if the client has `encrypt`. Empty if the key does not exist. */
  readonly contents: string[]
  /** ETag of the list, for `ifMatch`. */
  readonly etag: string
}

/** A write that the vault has made durable. */
export interface Written {
  /** CID of the stored content; with `encrypt`, of the ciphertext. */
  readonly id: string
  /** ETag of the changed list. */
  readonly etag: string
  /** Whether the vault's IPFS node already has the content. */
  readonly isPinned: boolean
}

/** A key with its entries. */
export interface VaultKey {
  /** Name of the key, 1 to 512 bytes. */
  readonly key: string
  /** `size` is the stored size in bytes. */
  readonly entries: readonly { readonly id: string; readonly size: number }[]
}

/** Used and available storage, in bytes and entries. */
export interface VaultStorage {
  /** Bytes of all entries. With `encrypt`, of the ciphertext. */
  readonly used: number
  /** Bytes until the quota is used up. */
  readonly available: number
  /** Number of entries of all keys. */
  readonly usedEntries: number
  /** Number of entries until the quota is used up. */
  readonly availableEntries: number
}

/** Everything that a user has stored. */
export interface VaultBackup {
  /** DID of the vault's owner. `restore` refuses the backup of another user. */
  readonly did: string
  /** Whether contents are in their stored form, which `restore` requires. */
  readonly raw?: true
  /** All entries in the order of writing. `id` is the CID of the stored content. */
  readonly entries: readonly { readonly key: string; readonly id: string; readonly content: string }[]
}

/** What the vault client needs of a `DidAuthClient` with the vault's URL. */
export interface VaultAuth {
  fetch(path: string, init?: RequestInit): Promise<Response>
  readonly session: { readonly did: string } | undefined
}

/** Which vault, and whether contents are encrypted. */
export interface VaultClientOptions {
  /** Logged in for all but `get` with a DID. */
  readonly auth: VaultAuth
  /**
   * Encrypts every content with this key of 32 bytes, and decrypts what is read. Off when absent: **everybody can read the
   * vault**, who knows a DID and the name of a key. Names of keys and sizes stay readable. A lost key is lost content.
   */
  readonly encrypt?: { readonly key: Uint8Array }
  /** In place of `auth.fetch`. */
  readonly fetch?: VaultAuth['fetch']
  /** How long one answer may take, with its body. Default 60. */
  readonly timeoutSeconds?: number
}

/** What every call takes. */
export interface ReadOptions {
  /** Ends the wait; the call throws its reason. */
  readonly signal?: AbortSignal
}

/** On what condition a write happens; else the error is `CONFLICT`. */
export interface WriteOptions extends ReadOptions {
  /** The list still has this ETag; `*`: there is a list. */
  readonly ifMatch?: string
  /** There is no list. */
  readonly ifNoneMatch?: '*'
}

/** Which entries a write is about, and its condition. */
export interface EntryOptions extends WriteOptions {
  /** Of one entry. All entries of the key when absent. */
  readonly id?: string
}

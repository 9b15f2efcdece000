import { parseFields } from '../json.js'
import { refusalOf, type Answer } from '../request.js'

/** The contents under a key, in the order in which they were written. */
export interface VaultList {
  readonly contents: string[]
  /** For `ifMatch`. */
  readonly etag: string
}

/** A write that the vault has made durable. */
export interface Written {
  /** The cid of what was stored: with `encrypt`, that of the ciphertext. */
  readonly id: string
  /** The ETag of the list as it is now. */
  readonly etag: string
  /** False while the vault's IPFS node does not have it yet. */
  readonly isPinned: boolean
}

/** A key with its entries. */
export interface VaultKey {
  readonly key: string
  /** `size` in bytes, as stored. */
  readonly entries: readonly { readonly id: string; readonly size: number }[]
}

/** Bytes and entries. */
export interface VaultStorage {
  readonly used: number
  readonly available: number
  readonly usedEntries: number
  readonly availableEntries: number
}

/** The key of the user's keyring. Its content is ciphertext already, so clients do not encrypt it. */
export const KEYRING_KEY = 'did-auth.keyring'

/** Everything that a user has stored. */
export interface VaultBackup {
  readonly did: string
  /** Contents are as stored, which `restore` takes. */
  readonly raw?: true
  readonly entries: readonly { readonly key: string; readonly id: string; readonly content: string }[]
}

/** The ETag of the list that was read or written. */
export function etagOf({ response }: Answer): string {
  return response.headers.get('etag') ?? ''
}

/** What every write answers. */
export function changeOf(answer: Answer): Omit<Written, 'id'> {
  return { etag: etagOf(answer), isPinned: answer.response.headers.get('pin-status') !== 'pending' }
}

/** The JSON of an answer. @throws DidAuthClientError PROTOCOL where it is not the one that was asked for */
export function jsonLike<T>(answer: Answer, isExpected: (json: Partial<Record<keyof T, unknown>>) => boolean): T {
  if (!isExpected(parseFields(answer.json) as Partial<Record<keyof T, unknown>>)) throw refusalOf(answer)
  return answer.json as T
}

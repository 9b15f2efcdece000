import { parseFields } from '../json.js'
import { jsonIn, refusalOf, type Answer } from '../request.js'

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
  /** Of the list as it is now. */
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

/** Everything that a user has stored. */
export interface VaultBackup {
  readonly did: string
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

export function parseTexts(answer: Answer): string[] {
  const json = jsonIn(answer)
  if (!Array.isArray(json) || !json.every((one) => typeof one === 'string')) throw refusalOf(answer)
  return json
}

export function parseKeys(answer: Answer): VaultKey[] {
  const keys = parseFields(jsonIn(answer)).keys
  if (!Array.isArray(keys)) throw refusalOf(answer)
  return keys as VaultKey[]
}

export function parseStorage(answer: Answer): VaultStorage {
  const json = jsonIn(answer)
  if (typeof parseFields(json).used !== 'number') throw refusalOf(answer)
  return json as VaultStorage
}

export function parseBackup(answer: Answer): VaultBackup {
  const json = jsonIn(answer)
  if (typeof parseFields(json).did !== 'string' || !Array.isArray(parseFields(json).entries)) throw refusalOf(answer)
  return json as VaultBackup
}

import { authRoutes } from '../http/did-auth.js'
import { ServerError } from '../http/server-error.js'
import type { PinWorker } from '../ipfs/pin-worker.js'
import type {
  EntryChange,
  EntryPlace,
  EntryStore,
  EntryWrite,
  NewContent,
  Precondition
} from '../storage/content-store.js'

const MAX_KEY_BYTES = 512

const NO_KEYS: ReadonlySet<string> = new Set(['', '.', '..'])

/** C0, DEL and C1. */
const CONTROL_CHARACTER = /\p{Cc}/u

const reservedKeys: ReadonlySet<string> = new Set(authRoutes.map((route) => route.slice(1)))

/** Whether a path is that of a route of the login in other letters, such as `/LOGOUT`, which Express takes for the route. */
export function isOddSpelling(path: string): boolean {
  const name = path.replace(/^\/|\/$/g, '')
  return !reservedKeys.has(name) && reservedKeys.has(name.toLowerCase())
}

/**
 * A key to write under, as Express has decoded it from its path segment: 1 to 512 bytes of UTF-8, no control characters,
 * and neither `.` nor `..`, which clients resolve in paths. The names of the library's routes are reserved, without regard
 * to case: a POST would not arrive here.
 *
 * @throws ServerError ERR_KEY, ERR_RESERVED_KEY
 */
export function parseKey(text: string): string {
  const isKey = !NO_KEYS.has(text) && Buffer.byteLength(text) <= MAX_KEY_BYTES && !CONTROL_CHARACTER.test(text)
  if (!isKey) throw new ServerError('ERR_KEY')
  if (reservedKeys.has(text.toLowerCase())) throw new ServerError('ERR_RESERVED_KEY')
  return text
}

const ENTITY_TAGS = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"(?:[ \t]*,[ \t]*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")*$/

/**
 * What a write requires of the list that it changes: `If-Match` with ETags or `*`, and `If-None-Match: *`. A weak ETag
 * matches no list.
 *
 * @throws ServerError ERR_INVALID_REQUEST for any other value: a write that ignored it could overwrite what it must not
 * @see RFC 9110, sections 13.1.1 and 13.1.2
 */
export function parsePrecondition(headers: Readonly<Record<string, string | string[] | undefined>>): Precondition {
  const ifMatch = headers['if-match']
  const ifNoneMatch = headers['if-none-match']
  if (ifNoneMatch !== undefined && ifNoneMatch !== '*') {
    throw new ServerError('ERR_INVALID_REQUEST', { detail: 'If-None-Match is * on a write' })
  }
  return {
    ...(ifMatch !== undefined && { ifMatch: parseEntityTags(String(ifMatch)) }),
    ...(ifNoneMatch !== undefined && { ifNoneMatch })
  }
}

function parseEntityTags(text: string): readonly string[] | '*' {
  if (text === '*') return text
  if (!ENTITY_TAGS.test(text)) {
    throw new ServerError('ERR_INVALID_REQUEST', { detail: 'If-Match is * or a list of quoted ETags' })
  }
  return text.match(/(?:W\/)?"[^"]*"/g) ?? []
}

/** How much one DID may store. */
export type Quota = EntryWrite['quota']

/** What the vault is built of. */
export interface VaultParts {
  store: EntryStore
  /** Undefined without an IPFS node: pins that were made before stay in the ledger. */
  pins: Pick<PinWorker, 'settle'> | undefined
  quota: Quota
}

/** A write that is durable here. */
export interface Written {
  /** ETag of the list as it is now, quoted. */
  etag: string
  /** Whether the node has what it should; true without a node. */
  isSettled: boolean
}

/**
 * Writes entries: each write is one verb of the store, which changes content, index, quota and ledger together or not at
 * all. Then the node follows, for which a caller waits 2 s at most.
 */
export class Vault {
  readonly #parts: VaultParts

  constructor(parts: VaultParts) {
    this.#parts = parts
  }

  /**
   * Stores content under a key.
   *
   * @param replaces - the entries whose place it takes
   * @throws ServerError ERR_PRECONDITION, ERR_STORAGE_FULL, ERR_TAKEN_DOWN, ERR_STORAGE
   */
  async write(
    place: EntryPlace & Precondition,
    content: NewContent,
    replaces: EntryWrite['replaces']
  ): Promise<Written> {
    const { store, quota } = this.#parts
    return this.#settle(await store.writeEntry({ ...place, content, replaces, quota }))
  }

  /** Removes one entry of a key, or all. @throws ServerError ERR_PRECONDITION, ERR_STORAGE_FULL, ERR_STORAGE */
  async remove(place: EntryPlace & Precondition, cid?: string): Promise<Written> {
    return this.#settle(await this.#parts.store.removeEntries({ ...place, ...(cid !== undefined && { cid }) }))
  }

  async #settle({ etag, changedPins }: EntryChange): Promise<Written> {
    const { pins } = this.#parts
    return { etag, isSettled: pins === undefined || (await pins.settle(changedPins)) }
  }
}

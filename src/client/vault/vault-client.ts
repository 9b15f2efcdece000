import * as codes from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { isText, parseFields } from '../json.js'
import { ask, parseServiceUrl, readAll, toClientError, readRequiredText } from '../request.js'
import type { Answer, PlainErrorKind, Service } from '../request.js'
import { createResourceFetch, type ResourceAuth } from '../resource-fetch.js'
import {
  crypt,
  decodeBase64url,
  encodeBase64url,
  IV_BYTES,
  KEY_BYTES,
  randomBytes,
  decodeUtf8,
  encodeUtf8
} from '../seal.js'

/** The part of a `DidAuthClient` that the vault client needs. */
export interface VaultAuth extends Partial<Pick<ResourceAuth, 'tokenFor'>> {
  fetch(path: string, init?: RequestInit & { readonly fetch?: typeof globalThis.fetch }): Promise<Response>
  readonly session: { readonly did: string } | undefined
}

/** Options of a vault client: the vault, and whether contents are encrypted. */
export interface VaultClientOptions {
  /**
   * A client of the vault; or with `resource`, of a service whose tokens the vault accepts. It is logged in for all but
   * `get` with a DID.
   */
  readonly auth: VaultAuth
  /** The vault's URL, as the service of `auth` has it in `resources`. */
  readonly resource?: string
  /** URL under which the vault is reached. Default: `resource`. */
  readonly url?: string
  /**
   * Encrypts contents with this key of 32 bytes, and decrypts what is read. Off by default: **everybody can read the
   * vault**, who knows a DID and the name of a key. Names of keys and sizes stay readable. A lost key is lost content.
   */
  readonly encrypt?: { readonly key: Uint8Array }
  /** Sends the requests, with absolute URLs and the token of `auth`, in place of the global one or that of `auth`. */
  readonly fetch?: (url: string, init?: RequestInit) => Promise<Response>
  /** Time limit for one answer with its body. Default 60. */
  readonly timeoutSeconds?: number
}

/** Options of every call. */
export interface ReadOptions {
  /** Ends the wait; the call throws its reason. */
  readonly signal?: AbortSignal
}

/** Condition of a write. If it is not met, the error is `CONFLICT`. */
export interface WriteOptions extends ReadOptions {
  /** Requires that the list still has this ETag; `*`: that there is a list. */
  readonly ifMatch?: string
  /** Requires that there is no list. */
  readonly ifNoneMatch?: '*'
}

/** Entries that a write is about, and its condition. */
export interface EntryOptions extends WriteOptions {
  /** Id of one entry. Default: all entries of the key. */
  readonly id?: string
}

/** The contents under a key, in the order in which they were written. */
export interface VaultList {
  readonly contents: string[]
  /** ETag of the list, for `ifMatch`. */
  readonly etag: string
}

/** A write that the vault has made durable. */
export interface Written {
  /** The cid of what was stored: with `encrypt`, that of the ciphertext. */
  readonly id: string
  /** The ETag of the list as it is now. */
  readonly etag: string
  /** Whether the vault's IPFS node has it already. */
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
  /** Contents are as stored, which `restore` takes. */
  readonly raw?: true
  readonly entries: readonly { readonly key: string; readonly id: string; readonly content: string }[]
}

/** The key of the user's keyring. Its content is ciphertext already, so clients do not encrypt it. */
export const KEYRING_KEY = 'did-auth.keyring'
const VERSION = 'eda1'

/** Names that no key can have: dots, which a URL resolves, and routes of the login, which a POST would reach. */
const UNUSABLE = /^(?:\.{0,2}|(?:request-)?(?:auth|signup)|refresh-token|logout)$/i

/** Kinds of errors by status, for all answers. */
const meanings: Readonly<Record<number, PlainErrorKind>> = { 401: codes.NOT_SIGNED_IN, 403: codes.CROSS_ORIGIN }
/** Kinds of errors by status, for answers that have a code of the vault. */
const codedMeanings: Readonly<Record<number, PlainErrorKind>> = {
  413: codes.TOO_LARGE,
  451: [codes.TAKEN_DOWN[0], 'The operator removed this content.'],
  502: codes.MISSING,
  507: codes.FULL
}

function findErrorKind(status: number, serverCode = '', answer: Answer): PlainErrorKind | '' | undefined {
  if (status === 412) throw new DidAuthClientError(codes.CONFLICT, { status, serverCode, etag: readEtag(answer) })
  if (/_KEY$/.test(serverCode)) return codes.NAME
  return meanings[status] ?? (serverCode && codedMeanings[status])
}

/**
 * The notes of a user in a vault: texts under keys.
 *
 * @example
 * const auth = new DidAuthClient({ url: 'https://vault.example.com', wallet: window.ethereum })
 * await auth.logIn()
 * const vault = new VaultClient({ auth, encrypt: { key } })
 * await vault.add('notes', 'Buy oak')
 * const { contents, etag } = await vault.get('notes')
 * await vault.replace('notes', 'Buy two oaks', { ifMatch: etag })
 */
export class VaultClient {
  readonly #options: VaultClientOptions
  /** The vault, asked with the user's token. */
  readonly #own: Service
  /** The vault, asked without token for what everybody may read. */
  readonly #open: Service

  /** @throws TypeError for another `url`, or a key that is no Uint8Array of 32 bytes: a text would be zeros */
  constructor(options: VaultClientOptions) {
    const { key }: { key?: unknown } = options.encrypt ?? {}
    if (options.encrypt && !(key instanceof Uint8Array && key.length === KEY_BYTES)) {
      throw new TypeError('encrypt.key: give a Uint8Array of 32 bytes')
    }
    this.#options = options
    const { auth, resource, url = resource, fetch, timeoutSeconds } = options
    const service = { fetch, timeoutSeconds, findErrorKind, read: readAll }
    if (resource === undefined) {
      // The vault's paths are strings, so `fetch` is only called with strings.
      const given = fetch && { fetch: fetch as typeof globalThis.fetch }
      this.#open = { ...service, url: '', fetch: (path, init) => auth.fetch(path, { ...init, ...given }) }
      this.#own = this.#open
    } else {
      // Paths below begin with a dot.
      this.#open = { ...service, url: `${parseServiceUrl(String(url))}/`, init: { credentials: 'omit' } }
      // A client without `tokenFor` fails at the first request.
      this.#own = { ...this.#open, fetch: createResourceFetch({ auth: auth as ResourceAuth, resource }, fetch) }
    }
  }

  /** The DID of the user. @throws DidAuthClientError NOT_SIGNED_IN */
  get did(): string {
    const { session } = this.#options.auth
    if (!session) throw new DidAuthClientError(codes.NOT_SIGNED_IN)
    return session.did
  }

  /**
   * Reads the contents under a key; none where nothing is.
   *
   * @param did - whose; those of the user when absent. Needs no session
   * @throws DidAuthClientError KEY, NOT_ENCRYPTED, MISSING, NAME; NOT_SIGNED_IN without a DID; UNAVAILABLE, PROTOCOL,
   * or the signal's reason
   */
  async get(key: string, did: string = this.did, options?: ReadOptions): Promise<VaultList> {
    const answer = await ask(this.#open, { path: joinPath(did, key), signal: options?.signal })
    const isList = (json: unknown): boolean => Array.isArray(json) && json.every((one) => typeof one === 'string')
    const stored = readJsonAs<string[]>(answer, isList)
    const contents = await Promise.all(stored.map((content) => this.#decrypt(content, key, did)))
    return { contents, etag: readEtag(answer) }
  }

  /**
   * Adds content to a key. The same content again changes nothing; with `encrypt`, each call makes another ciphertext.
   *
   * @throws DidAuthClientError CONFLICT; TOO_LARGE, FULL, TAKEN_DOWN, NAME; NOT_SIGNED_IN, SESSION_ENDED,
   * RATE_LIMITED, UNAVAILABLE, CROSS_ORIGIN, PROTOCOL, or the signal's reason
   */
  add(key: string, content: string, options?: WriteOptions): Promise<Written> {
    return this.#write('POST', key, content, options)
  }

  /** Puts content in place of all entries of a key, or of the one with `id`. @throws as {@link VaultClient.add} */
  replace(key: string, content: string, options?: EntryOptions): Promise<Written> {
    return this.#write('PUT', key, content, options)
  }

  /** Deletes all entries of a key, or the one with `id`. None is no error. @throws as {@link VaultClient.add} */
  async delete(key: string, options: EntryOptions = {}): Promise<Omit<Written, 'id'>> {
    return readChange(await this.#ask('DELETE', joinPath(key, options.id), options))
  }

  /** Returns the user's keys, in the order of their first entries. @throws as {@link VaultClient.add} */
  async keys(options?: ReadOptions): Promise<VaultKey[]> {
    const answer = await this.#ask('GET', './keys', options)
    return readJsonAs<{ keys: VaultKey[] }>(answer, ({ keys }) => Array.isArray(keys)).keys
  }

  /** Returns how much the user has stored, and how much more is allowed. @throws as {@link VaultClient.add} */
  async storage(options?: ReadOptions): Promise<VaultStorage> {
    const answer = await this.#ask('GET', './storage', options)
    return readJsonAs<VaultStorage>(answer, ({ used }) => typeof used === 'number')
  }

  /**
   * Every entry of the user with its content; with `raw`, ciphertext as it is stored, for which no key is needed.
   *
   * @throws as {@link VaultClient.get} and {@link VaultClient.add}
   */
  async backup(options: ReadOptions & { readonly raw?: boolean } = {}): Promise<VaultBackup> {
    const answer = await this.#ask('GET', './backup', options)
    const isBackup = (json: { did?: unknown; entries?: unknown }) => isText(json.did) && Array.isArray(json.entries)
    const { did, entries } = readJsonAs<VaultBackup>(answer, isBackup)
    if (options.raw) return { did, raw: true, entries }
    const decrypted = entries.map(async ({ key, id, content }) => {
      return { key, id, content: await this.#decrypt(content, key, did) }
    })
    return { did, entries: await Promise.all(decrypted) }
  }

  /**
   * Writes every entry of a raw backup behind what is there. Entries that are there already stay where they are, so
   * that it can be repeated where it failed.
   *
   * @returns how many entries were written
   * @throws TypeError for a backup that is not raw: what was encrypted would become readable for everybody.
   * DidAuthClientError KEY for one of another DID, KEYRING_EXISTS where the vault has another keyring: both write
   * nothing. Else as {@link VaultClient.add}
   */
  async restore({ did, raw, entries }: VaultBackup, options?: ReadOptions): Promise<number> {
    if (!raw) throw new TypeError('Give a backup({ raw: true })')
    // Ciphertext can be decrypted only under the DID that encrypted it.
    if (did.toLowerCase() !== this.did.toLowerCase()) throw new DidAuthClientError(codes.KEY)
    const present = new Map((await this.keys(options)).map(({ key, entries }) => [key, entries.map(({ id }) => id)]))
    const missing = entries.filter(({ key, id }) => !present.get(key)?.includes(id))
    // First: where there is another, nothing is written.
    missing.sort((one, other) => Number(other.key === KEYRING_KEY) - Number(one.key === KEYRING_KEY))
    for (const { key, content } of missing) {
      const condition = key === KEYRING_KEY && ({ ifNoneMatch: '*' } as const)
      await this.#send('POST', joinPath(key), content, { ...options, ...condition }).catch((cause: unknown) => {
        const isOther = condition && parseFields(cause).code === codes.CONFLICT[0]
        throw isOther ? new DidAuthClientError(codes.KEYRING_EXISTS, { cause }) : cause
      })
    }
    return missing.length
  }

  async #write(method: string, key: string, content: string, options: EntryOptions = {}): Promise<Written> {
    return this.#send(method, joinPath(key, options.id), await this.#encrypt(content, key), options)
  }

  async #send(method: string, path: string, content: string, options: WriteOptions = {}): Promise<Written> {
    const answer = await this.#ask(method, path, options, { content })
    return { id: readRequiredText(answer, 'id'), ...readChange(answer) }
  }

  async #ask(method: string, path: string, options: WriteOptions = {}, body?: object): Promise<Answer> {
    const { signal, ifMatch, ifNoneMatch } = options
    const headers = {
      ...(ifMatch !== undefined && { 'If-Match': ifMatch }),
      ...(ifNoneMatch !== undefined && { 'If-None-Match': ifNoneMatch })
    }
    return ask(this.#own, { method, path, body, headers, signal })
  }

  /** @returns `eda1.<iv>.<ciphertext and tag>`, both in base64url */
  async #encrypt(content: string, key: string): Promise<string> {
    const { encrypt } = this.#options
    if (!encrypt || key === KEYRING_KEY) return content
    const { did } = this
    const iv = randomBytes(IV_BYTES)
    const sealed = await crypt('encrypt', new Uint8Array(encrypt.key), iv, createContext(did, key), encodeUtf8(content))
    // Another user has logged in meanwhile, who could not decrypt it.
    if (this.did !== did) throw new DidAuthClientError(codes.NOT_SIGNED_IN)
    return [VERSION, encodeBase64url(iv), encodeBase64url(sealed)].join('.')
  }

  /** @throws DidAuthClientError NOT_ENCRYPTED for another form; KEY where secret, context or a byte is another */
  async #decrypt(content: string, key: string, did: string): Promise<string> {
    const { encrypt } = this.#options
    if (!encrypt || key === KEYRING_KEY) return content
    const [version, ivText = '', sealedText = '', ...rest] = content.split('.')
    if (version !== VERSION || rest.length > 0 || /[^\w-]/.test(ivText + sealedText)) {
      throw new DidAuthClientError(codes.NOT_ENCRYPTED)
    }
    try {
      const [iv, sealed] = [decodeBase64url(ivText), decodeBase64url(sealedText)]
      return decodeUtf8(await crypt('decrypt', new Uint8Array(encrypt.key), iv, createContext(did, key), sealed))
    } catch (cause) {
      throw new DidAuthClientError(codes.KEY, { cause })
    }
  }
}

/** Returns a relative path: vaults may be below a path. @throws DidAuthClientError NAME, also for half a character */
function joinPath(...segments: readonly (string | undefined)[]): string {
  const path = segments.filter((segment) => segment !== undefined)
  try {
    if (path.some((segment) => UNUSABLE.test(segment))) throw new URIError()
    return `./${path.map(encodeURIComponent).join('/')}`
  } catch (cause) {
    throw new DidAuthClientError(codes.NAME, { cause })
  }
}

/** Creates the context that binds a ciphertext to its user and key, so that it cannot be moved to others. */
const createContext = (did: string, key: string): string => [did.toLowerCase(), key, VERSION].join('\n')

/** Reads the ETag of the list that was read or written. */
function readEtag({ response }: Answer): string {
  return response.headers.get('etag') ?? ''
}

/** Reads the part of the answer that all writes have. */
function readChange(answer: Answer): Omit<Written, 'id'> {
  return { etag: readEtag(answer), isPinned: answer.response.headers.get('pin-status') !== 'pending' }
}

/** Reads the JSON of an answer. @throws DidAuthClientError PROTOCOL if it does not have the expected form */
function readJsonAs<T>(answer: Answer, isExpected: (json: Partial<Record<keyof T, unknown>>) => boolean): T {
  if (!isExpected(parseFields(answer.json) as Partial<Record<keyof T, unknown>>)) throw toClientError(answer)
  return answer.json as T
}

import { canonicalDid } from '../../protocol/canonical-did.js'
import { normalizeEntityTag } from '../../protocol/entity-tag.js'
import * as codes from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { isBytes } from '../../protocol/is-bytes.js'
import { isText, parseFields } from '../wire/json.js'
import { ask, parseServiceUrl, readAll, toClientError, readRequiredText } from '../wire/request.js'
import type { Answer, PlainErrorKind, Service } from '../wire/request.js'
import { createResourceFetch, type ResourceAuth } from '../wire/resource-fetch.js'
import {
  crypt,
  decodeBase64url,
  encodeBase64url,
  getSubtle,
  IV_BYTES,
  KEY_BYTES,
  randomBytes,
  decodeUtf8,
  encodeUtf8
} from '../wire/seal.js'
import type { EntryOptions, ReadOptions, VaultAuth, VaultClientOptions, WriteOptions } from './vault-types.js'
import type { VaultBackup, VaultKey, VaultList, VaultStorage, Written } from './vault-types.js'

/** Name of the key with the user's keyring. Its content is already ciphertext, so clients do not encrypt it. */
export const KEYRING_KEY = 'did-auth.keyring'
const VERSION = 'eda1'

/** Names that no key can have: dots, because URLs resolve them, and login routes, because a POST would reach them. */
const UNUSABLE = /^(?:\.{0,2}|(?:request-)?(?:auth|signup)|refresh-token|logout)$/i

/** Errors by status, for all responses. */
const meanings: Readonly<Record<number, PlainErrorKind>> = { 401: codes.NOT_SIGNED_IN, 403: codes.CROSS_ORIGIN }
/** Errors by status, for responses with an error code of the vault. */
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
 * The client of a user's vault, which stores lists of texts under keys.
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
  /** Settings of requests with the user's token. */
  readonly #withToken: Service
  /** Settings of requests without a token, for public reads. */
  readonly #public: Service

  /** @throws TypeError for an invalid `url`, or a key other than a Uint8Array of 32 bytes: a string becomes zeros */
  constructor(options: VaultClientOptions) {
    const { key }: { key?: unknown } = options.encrypt ?? {}
    if (options.encrypt && !(isBytes(key) && key.length === KEY_BYTES)) {
      throw new TypeError('encrypt.key: expected a Uint8Array of 32 bytes')
    }
    this.#options = options
    const { auth, resource, url = resource, fetch, timeoutSeconds } = options
    const service = { fetch, timeoutSeconds, findErrorKind, read: readAll }
    if (resource === undefined) {
      // The vault's paths are strings, so `fetch` is only called with strings.
      const fetchOption = fetch && { fetch: fetch as typeof globalThis.fetch }
      // The caller gives a client of the vault, since there is no `resource`.
      const vaultAuth = auth as VaultAuth
      this.#public = { ...service, url: '', fetch: (path, init) => vaultAuth.fetch(path, { ...init, ...fetchOption }) }
      this.#withToken = this.#public
    } else {
      // Paths begin with a dot, see joinPath.
      this.#public = { ...service, url: `${parseServiceUrl(String(url))}/`, init: { credentials: 'omit' } }
      // An `auth` without `tokenFor` fails at the first request.
      this.#withToken = { ...this.#public, fetch: createResourceFetch({ auth: auth as ResourceAuth, resource }, fetch) }
    }
  }

  /** DID of the user. @throws DidAuthClientError NOT_SIGNED_IN */
  get did(): string {
    const { session } = this.#options.auth
    if (!session) throw new DidAuthClientError(codes.NOT_SIGNED_IN)
    return session.did
  }

  /**
   * Reads the contents under a key; an unknown key has none.
   *
   * @param did - owner of the list. Default: the user. With a DID, no session is needed
   * @throws DidAuthClientError KEY, NOT_ENCRYPTED, MISSING, NAME; NOT_SIGNED_IN without a DID; UNAVAILABLE, PROTOCOL,
   * or the signal's reason
   */
  async get(key: string, did: string = this.did, options?: ReadOptions): Promise<VaultList> {
    const answer = await ask(this.#public, { path: joinPath(did, key), signal: options?.signal })
    const isList = (json: unknown): boolean => Array.isArray(json) && json.every((item) => typeof item === 'string')
    const stored = readJsonAs<string[]>(answer, isList)
    const contents = await Promise.all(stored.map((content) => this.#decrypt(content, key, did)))
    return { contents, etag: readEtag(answer) }
  }

  /**
   * Adds content to a key. Adding the same content again changes nothing, except with `encrypt`: each call then creates
   * another ciphertext.
   *
   * @throws DidAuthClientError CONFLICT; TOO_LARGE, FULL, TAKEN_DOWN, NAME; NOT_SIGNED_IN, SESSION_ENDED,
   * RATE_LIMITED, UNAVAILABLE, CROSS_ORIGIN, PROTOCOL, or the signal's reason
   */
  add(key: string, content: string, options?: WriteOptions): Promise<Written> {
    return this.#write('POST', key, content, options)
  }

  /** Replaces all entries of a key, or the one with `id`. @throws as {@link VaultClient.add} */
  replace(key: string, content: string, options?: EntryOptions): Promise<Written> {
    return this.#write('PUT', key, content, options)
  }

  /** Deletes all entries of a key, or the one with `id`, if they exist. @throws as {@link VaultClient.add} */
  async delete(key: string, options: EntryOptions = {}): Promise<Omit<Written, 'id'>> {
    return readChange(await this.#ask('DELETE', joinPath(key, options.id), options))
  }

  /** Returns the user's keys, in the order of their first entries. @throws as {@link VaultClient.add} */
  async keys(options?: ReadOptions): Promise<VaultKey[]> {
    const answer = await this.#ask('GET', './keys', options)
    return readJsonAs<{ keys: VaultKey[] }>(answer, ({ keys }) => Array.isArray(keys)).keys
  }

  /** Returns the user's used and available storage. @throws as {@link VaultClient.add} */
  async storage(options?: ReadOptions): Promise<VaultStorage> {
    const answer = await this.#ask('GET', './storage', options)
    return readJsonAs<VaultStorage>(answer, ({ used }) => typeof used === 'number')
  }

  /**
   * Returns every entry of the user with its content. With `raw`, contents are in their stored form, so no encryption
   * key is needed.
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
   * Appends the missing entries of a raw backup to the vault. Existing entries keep their position, so a failed call
   * can be repeated.
   *
   * @returns the number of written entries
   * @throws TypeError for a backup that is not raw, because everybody could read its decrypted contents.
   * DidAuthClientError KEY for a backup of another DID, and KEYRING_EXISTS if the vault has another keyring; both
   * write nothing. Otherwise as {@link VaultClient.add}
   */
  async restore({ did, raw, entries }: VaultBackup, options?: ReadOptions): Promise<number> {
    if (!raw) throw new TypeError('backup: expected one of backup({ raw: true })')
    // Ciphertext can be decrypted only under the DID that encrypted it.
    if (canonicalDid(did) !== canonicalDid(this.did)) throw new DidAuthClientError(codes.KEY)
    const present = new Map((await this.keys(options)).map(({ key, entries }) => [key, entries.map(({ id }) => id)]))
    const missing = entries.filter(({ key, id }) => !present.get(key)?.includes(id))
    // The keyring is written first, so that a conflict with another keyring prevents all writes.
    missing.sort((left, right) => Number(right.key === KEYRING_KEY) - Number(left.key === KEYRING_KEY))
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
      // A proxy that decodes %2F turns the key a/b into key a and id b. The vault compares this header with the path.
      ...(method !== 'GET' && { 'Vault-Key': path.split('/')[1] ?? '' }),
      ...(ifMatch !== undefined && { 'If-Match': ifMatch }),
      ...(ifNoneMatch !== undefined && { 'If-None-Match': ifNoneMatch })
    }
    return ask(this.#withToken, { method, path, body, headers, signal })
  }

  /** Encrypts content, if the client has a key. @returns `eda1.<iv>.<ciphertext and tag>`, both parts in base64url */
  async #encrypt(content: string, key: string): Promise<string> {
    const { encrypt } = this.#options
    if (!encrypt || key === KEYRING_KEY) return content
    const { did } = this
    const iv = randomBytes(IV_BYTES)
    const sealed = await crypt('encrypt', new Uint8Array(encrypt.key), iv, createContext(did, key), encodeUtf8(content))
    // Another user may have logged in during the encryption, and could not decrypt this.
    if (this.did !== did) throw new DidAuthClientError(codes.NOT_SIGNED_IN)
    return [VERSION, encodeBase64url(iv), encodeBase64url(sealed)].join('.')
  }

  /** Decrypts stored content. @throws DidAuthClientError NOT_ENCRYPTED; KEY for another key, DID or name, or changes */
  async #decrypt(content: string, key: string, did: string): Promise<string> {
    const { encrypt } = this.#options
    if (!encrypt || key === KEYRING_KEY) return content
    const [version, ivText = '', sealedText = '', ...extraParts] = content.split('.')
    if (version !== VERSION || extraParts.length > 0 || /[^\w-]/.test(ivText + sealedText)) {
      throw new DidAuthClientError(codes.NOT_ENCRYPTED)
    }
    getSubtle()
    try {
      const [iv, sealed] = [decodeBase64url(ivText), decodeBase64url(sealedText)]
      return decodeUtf8(await crypt('decrypt', new Uint8Array(encrypt.key), iv, createContext(did, key), sealed))
    } catch (cause) {
      throw new DidAuthClientError(codes.KEY, { cause })
    }
  }
}

/** Joins a relative path: a vault's URL may have a path. @throws DidAuthClientError NAME, also for lone surrogates */
function joinPath(...segments: readonly (string | undefined)[]): string {
  const path = segments.filter((segment) => segment !== undefined)
  try {
    if (path.some((segment) => UNUSABLE.test(segment))) throw new URIError()
    return `./${path.map(encodeURIComponent).join('/')}`
  } catch (cause) {
    throw new DidAuthClientError(codes.NAME, { cause })
  }
}

/** Creates the context that binds a ciphertext to its user and key, so that it cannot be moved. */
const createContext = (did: string, key: string): string => [canonicalDid(did), key, VERSION].join('\n')

/** Reads the ETag of a list from a response, which a proxy may have compressed. */
function readEtag({ response }: Answer): string {
  return normalizeEntityTag(response.headers.get('etag') ?? '')
}

/** Reads the headers that responses to all writes have. */
function readChange(answer: Answer): Omit<Written, 'id'> {
  return { etag: readEtag(answer), isPinned: answer.response.headers.get('pin-status') !== 'pending' }
}

/** Returns the JSON of a response. @throws DidAuthClientError PROTOCOL if it does not have the expected form */
function readJsonAs<T>(answer: Answer, isExpected: (json: Partial<Record<keyof T, unknown>>) => boolean): T {
  if (!isExpected(parseFields(answer.json) as Partial<Record<keyof T, unknown>>)) throw toClientError(answer)
  return answer.json as T
}

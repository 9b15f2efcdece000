import { CONFLICT, CROSS_ORIGIN, NAME, NOT_SIGNED_IN } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { exchange, refusalOf, textIn, type Answer } from '../exchange.js'
import { KEY_BYTES } from '../seal.js'
import { decryptEntry, encryptEntry } from './envelope.js'
import type { EntryOptions, ReadOptions, VaultClientOptions, WriteOptions } from './vault-options.js'
import {
  changeOf,
  etagOf,
  notOurs,
  parseBackup,
  parseKeys,
  parseStorage,
  parseTexts,
  type VaultBackup,
  type VaultKey,
  type VaultList,
  type VaultStorage,
  type Written
} from './vault-answers.js'

/** What a URL would resolve, and the routes of the login, which a POST would reach. */
const UNUSABLE = /^(?:\.{0,2}|(?:request-)?(?:auth|signup)|refresh-token|logout)$/i

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

  /** @throws TypeError for a key that is no Uint8Array of 32 bytes: of a text, the key would be zeros */
  constructor(options: VaultClientOptions) {
    const { key }: { key?: unknown } = options.encrypt ?? {}
    if (options.encrypt && !(key instanceof Uint8Array && key.length === KEY_BYTES)) {
      throw new TypeError('encrypt.key: give a Uint8Array of 32 bytes')
    }
    this.#options = options
  }

  /**
   * Reads the contents under a key; none where nothing is.
   *
   * @param did - whose; those of the user when absent. Needs no session
   * @throws DidAuthClientError KEY, NOT_ENCRYPTED, MISSING, NAME; NOT_SIGNED_IN without a DID; UNAVAILABLE, PROTOCOL,
   * or the signal's reason
   */
  async get(key: string, did: string = this.#did(), options?: ReadOptions): Promise<VaultList> {
    const answer = await this.#ask('GET', pathOf(did, key), options)
    const contents = parseTexts(answer)
    return {
      contents: await Promise.all(contents.map((content) => this.#decrypt(content, key, did))),
      etag: etagOf(answer)
    }
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

  /** Deletes all entries of a key, or the one with `id`. What is not there is deleted. @throws as {@link VaultClient.add} */
  async delete(key: string, options: EntryOptions = {}): Promise<Omit<Written, 'id'>> {
    return changeOf(await this.#ask('DELETE', pathOf(key, options.id), options))
  }

  /** The user's keys, in the order of their first entries. @throws as {@link VaultClient.add} */
  async keys(options?: ReadOptions): Promise<VaultKey[]> {
    return parseKeys(await this.#ask('GET', './keys', options))
  }

  /** What the user stores, and may store beside it. @throws as {@link VaultClient.add} */
  async storage(options?: ReadOptions): Promise<VaultStorage> {
    return parseStorage(await this.#ask('GET', './storage', options))
  }

  /** Every entry of the user with its content. @throws as {@link VaultClient.get} and {@link VaultClient.add} */
  async backup(options?: ReadOptions): Promise<VaultBackup> {
    const { did, entries } = parseBackup(await this.#ask('GET', './backup', options))
    const decrypted = entries.map(async ({ key, id, content }) => {
      return { key, id, content: await this.#decrypt(content, key, did) }
    })
    return { did, entries: await Promise.all(decrypted) }
  }

  async #write(method: string, key: string, content: string, options: EntryOptions = {}): Promise<Written> {
    const path = pathOf(key, options.id)
    const body = JSON.stringify({ content: await this.#encrypt(content, key) })
    const answer = await this.#ask(method, path, options, body)
    const id = textIn(answer, 'id')
    if (id === undefined) throw notOurs(answer)
    return { id, ...changeOf(answer) }
  }

  async #ask(
    method: string,
    path: string,
    { signal, ifMatch, ifNoneMatch }: WriteOptions = {},
    body: string | null = null
  ): Promise<Answer> {
    const {
      auth,
      fetch = (path: string, init?: RequestInit) => auth.fetch(path, init),
      timeoutSeconds = 60
    } = this.#options
    const headers = {
      Accept: 'application/json, application/problem+json',
      ...(body !== null && { 'Content-Type': 'application/json' }),
      ...(ifMatch !== undefined && { 'If-Match': ifMatch }),
      ...(ifNoneMatch !== undefined && { 'If-None-Match': ifNoneMatch })
    }
    const answer = await exchange(path, { method, headers, body }, Infinity, { fetch, timeoutSeconds, signal })
    if (answer.status === 200 || answer.status === 201) return answer
    const refusal = refusalOf(answer)
    const details = { status: refusal.status, serverCode: refusal.serverCode }
    if (details.status === 401) throw new DidAuthClientError(NOT_SIGNED_IN, details)
    if (details.status === 403) throw new DidAuthClientError(CROSS_ORIGIN, details)
    if (details.status === 412) throw new DidAuthClientError(CONFLICT, { ...details, etag: etagOf(answer) })
    throw /_KEY$/.test(details.serverCode ?? '') ? new DidAuthClientError(NAME, details) : refusal
  }

  async #encrypt(content: string, key: string): Promise<string> {
    const { encrypt } = this.#options
    return encrypt ? encryptEntry(content, { did: this.#did(), key }, encrypt.key) : content
  }

  async #decrypt(content: string, key: string, did: string): Promise<string> {
    const { encrypt } = this.#options
    return encrypt ? decryptEntry(content, { did, key }, encrypt.key) : content
  }

  #did(): string {
    const { session } = this.#options.auth
    if (!session) throw new DidAuthClientError(NOT_SIGNED_IN)
    return session.did
  }
}

/** A relative path, so that the vault may stand below a path. @throws DidAuthClientError NAME, also for half a character */
function pathOf(...segments: readonly (string | undefined)[]): string {
  const path = segments.filter((segment) => segment !== undefined)
  try {
    if (path.some((segment) => UNUSABLE.test(segment))) throw new URIError()
    return `./${path.map(encodeURIComponent).join('/')}`
  } catch (cause) {
    throw new DidAuthClientError(NAME, { cause })
  }
}

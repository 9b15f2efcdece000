import * as codes from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { isBytes } from '../../protocol/is-bytes.js'
import { ask, isOutdated, loadCode, parseServiceUrl, readAtMost, readRequiredText } from '../wire/request.js'
import type { PlainErrorKind, Service } from '../wire/request.js'
import { createResourceFetch, type ResourceOptions } from '../wire/resource-fetch.js'
import {
  decodeBase64url,
  encodeBase64url,
  concatBytes,
  decodeUtf8,
  utf8,
  encodeUtf8,
  type Bytes
} from '../wire/seal.js'
import { crypt, IV_BYTES, KEY_BYTES, randomBytes } from '../wire/seal.js'
import { raceWithAbort, throwIfAborted } from '../wire/timing.js'
import { computeCid } from './blocks.js'
import type { RelayLogin } from './log-in.js'

/**
 * The relay and the login: either a `wallet`, or `auth` and `resource` with the client of a service whose tokens the
 * relay accepts.
 */
export interface RelayClientOptions extends Partial<ResourceOptions>, RelayLogin {
  /** URL of the relay, such as `https://relay.example.com`. `url` and `resource` default to each other. */
  readonly url?: string
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
  /** Time limit for a response with its body, in seconds. Default 60. */
  readonly timeoutSeconds?: number
}

/** Options of `send` and `open`. */
export interface SendOptions {
  /** Aborts the call, which throws the signal's reason. */
  readonly signal?: AbortSignal
  /** Receives the remaining storage time of the file. Not called if it is unknown, or if a gateway responds first. */
  readonly onExpiresIn?: (seconds: number) => void
}

/** Options of `open`: further places to look for content. */
export interface OpenOptions extends SendOptions {
  /** IPFS gateways to ask in addition to the relay, such as `https://ipfs.io`. They need not be trusted. */
  readonly gateways?: readonly string[]
}

const CONTEXT = 'relay:1'
const loadFiles = () => loadCode(() => import('./sent-file.js'))
/** Errors by status, for responses with an error code of the relay. */
const meanings: Readonly<Record<number, PlainErrorKind>> = {
  401: codes.CHALLENGE,
  404: codes.NOT_FOUND,
  413: codes.TOO_LARGE,
  451: codes.TAKEN_DOWN,
  502: codes.MISSING,
  507: codes.FULL
}

/**
 * Sends content through a relay and opens it. The relay and the gateways see only ciphertext: the key follows `#` in
 * the URI, which no request contains.
 *
 * @example
 * const relay = new RelayClient({ url: 'https://relay.example.com', wallet: window.ethereum })
 * const uri = await relay.send('The treasure lies under the old oak')
 * const text = await relay.open(uri, { gateways: ['https://ipfs.io'] })
 */
export class RelayClient {
  readonly #options: RelayClientOptions & Service
  /** Settings of requests to the relay. With `auth`, they send its token, which gateways must not get. */
  readonly #relay: Service
  #token: Promise<string> | undefined

  /** @throws TypeError if `url` is not an http(s) URL */
  constructor(options: RelayClientOptions) {
    const { auth, wallet, fetch, resource = options.url, url = resource } = options
    this.#options = {
      ...options,
      url: parseServiceUrl(String(url)),
      init: { redirect: 'manual', credentials: 'omit' },
      findErrorKind: (status, code) =>
        code && (status === 401 && (auth || !wallet) ? codes.NOT_SIGNED_IN : meanings[status]),
      // The maximum that an operator can allow for a file, plus its JSON.
      read: (response) => readAtMost(68_000_000, response)
    }
    this.#relay = auth
      ? { ...this.#options, fetch: createResourceFetch({ auth, resource: String(resource) }, fetch) }
      : this.#options
  }

  /**
   * Encrypts content with a new key and posts it.
   *
   * @param content - a text, bytes, or a file with its name and type; up to about 6 MiB at a relay with default limits
   * @returns `relay://<cid>#<key>`. Everybody who has this URI can read the content, so show it only to the recipient
   * @throws TypeError for other content; TOO_LARGE, FULL, TAKEN_DOWN; CHALLENGE, RATE_LIMITED, UNAVAILABLE,
   * PROTOCOL, errors of the wallet, or the signal's reason
   */
  async send(content: string | Uint8Array | File, options?: SendOptions): Promise<string> {
    // The first byte of the plaintext is the type.
    const [type, bytes] =
      typeof content === 'string'
        ? [1, encodeUtf8(content)]
        : isBytes(content)
          ? [0, content]
          : [2, await (await loadFiles()).encodeFile(content)]
    const typed = concatBytes([[type], bytes])
    const key = randomBytes(KEY_BYTES)
    const iv = randomBytes(IV_BYTES)
    const file = encodeBase64url(concatBytes([iv, await crypt('encrypt', key, iv, CONTEXT, typed)]))
    const cid = await computeCid(utf8(file))
    // Under another CID, the recipient would find nothing or other content.
    if ((await this.#withToken('/file', 'cid', { file }, options)) !== cid) throw new DidAuthClientError(codes.MISMATCH)
    return `relay://${cid}#${encodeBase64url(key)}`
  }

  /**
   * Opens sent content. It asks relay and gateways at once, and uses the first response that matches the CID.
   *
   * @param uri - `relay://<cid>#<key>`, or a link of {@link RelayClient.link}
   * @returns the text, bytes or file, as sent. The sender chose name and type of a file. Offer it as a download: HTML
   * that your page shows runs as your page
   * @throws DidAuthClientError LINK, KEY, MISMATCH, NOT_FOUND, TAKEN_DOWN, MISSING; otherwise as `send`. If relay and
   * gateways all fail, the relay's error
   */
  async open(uri: string, options?: OpenOptions): Promise<string | Uint8Array | File> {
    const [cid, key] = parseRelayUri(uri)
    const typed = await decrypt(await this.#readAnywhere(cid, options), key)
    const content = typed.slice(1)
    if (typed[0] === 2) return (await loadFiles()).decodeFile(content)
    return typed[0] ? decodeUtf8(content) : content
  }

  /**
   * Returns the URI as a link to your page, `https://…#r=<cid>.<key>`, because phone cameras open https but not
   * `relay://`. Browsers never send the part after `#`. On your page, pass `location.href` to {@link RelayClient.open}.
   *
   * @throws DidAuthClientError LINK
   * @example relay.link(uri, 'https://app.example.com/open')
   */
  link(uri: string, page: string): string {
    const [cid, key] = parseRelayUri(uri)
    return new URL(`#r=${cid}.${key}`, page).href
  }

  async #readAnywhere(cid: string, options: OpenOptions = {}): Promise<Bytes> {
    const { gateways = [], signal } = options
    throwIfAborted(signal)
    const race = new AbortController()
    const readFromRelay = async (): Promise<Bytes> => {
      const file = utf8(await this.#withToken(`/file/${cid}`, 'file', undefined, { ...options, signal: race.signal }))
      if ((await computeCid(file)) !== cid) throw new DidAuthClientError(codes.MISMATCH)
      return file
    }
    const readFrom = async (gateway: string): Promise<Bytes> => {
      const { readFromGateway } = await loadCode(() => import('./gateway.js'))
      return readFromGateway(this.#options, gateway, cid, race.signal)
    }
    const first = Promise.any([readFromRelay(), ...gateways.map(readFrom)]).catch((cause: unknown) => {
      throw (cause as AggregateError).errors[0]
    })
    return raceWithAbort(first, signal).finally(() => race.abort())
  }

  /** Sends a request with a token, if there is a wallet. Logs in again once if token or challenge have expired. */
  #withToken(path: string, field: string, body?: object, options?: SendOptions): Promise<string> {
    const { auth, wallet } = this.#options
    if (auth || !(wallet || body)) return this.#ask(path, field, body, options)
    const cachedToken = this.#token
    const login = () =>
      (this.#token ??= this.#logIn().catch((error: unknown) => {
        // Drop the failed login, so that the next call logs in again.
        this.#token = undefined
        throw error
      }))
    const send = async () => this.#ask(path, field, body, options, await raceWithAbort(login(), options?.signal))
    return send().catch((error: unknown) => {
      if (!isOutdated(error, cachedToken)) throw error
      // Another call may already have logged in again.
      if (this.#token === cachedToken) this.#token = undefined
      return send()
    })
  }

  /** Logs in. It takes no signal, because several calls may wait for one login. */
  async #logIn(): Promise<string> {
    const { logIn } = await loadCode(() => import('./log-in.js'))
    return logIn(this.#relay, this.#options)
  }

  async #ask(path: string, field: string, body?: object, options?: SendOptions, Authorization = ''): Promise<string> {
    const answer = await ask(this.#relay, { path, body, headers: { Authorization }, signal: options?.signal })
    const text = readRequiredText(answer, field)
    const seconds = Number(answer.response.headers.get('file-expires-in'))
    if (seconds) options?.onExpiresIn?.(seconds)
    return text
  }
}

/** A relay URI, or a link to a page with `#r=<cid>.<key>`. The page may add its own parameters after `&`. */
const URI = /^(?:relay:\/\/|https?:[^#]*#r=)(baf(?:krei|ybei)[a-z2-7]{52})[#.]([\w-]{43})(?:&.*)?$/

/** Parses a relay URI or link. @throws DidAuthClientError LINK, without the text, which may contain a key */
function parseRelayUri(text: unknown): [cid: string, key: string] {
  const match = URI.exec(String(text).trim())
  if (!match) throw new DidAuthClientError(codes.LINK)
  // The pattern has two groups, and both are required.
  return match.slice(1) as [string, string]
}

/** Decrypts the file of a relay. @throws DidAuthClientError KEY */
async function decrypt(file: Bytes, key: string): Promise<Bytes> {
  try {
    const bytes = decodeBase64url(decodeUtf8(file))
    return await crypt('decrypt', decodeBase64url(key), bytes.slice(0, IV_BYTES), CONTEXT, bytes.slice(IV_BYTES))
  } catch (cause) {
    throw new DidAuthClientError(codes.KEY, { cause })
  }
}

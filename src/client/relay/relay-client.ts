import { loginMessage } from '../../protocol/login-message.js'
import { KEY, MISMATCH } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { exchange, refusalOf, textIn } from '../exchange.js'
import { isOutdated, parseServiceUrl } from '../requests.js'
import {
  crypt,
  decodeBase64url,
  encodeBase64url,
  IV_BYTES,
  joined,
  KEY_BYTES,
  randomBytes,
  textOf,
  utf8,
  utf8Of,
  type Bytes
} from '../seal.js'
import { unlessAborted } from '../timing.js'
import { connectWallet } from '../wallet.js'
import { cidOf } from './cid.js'
import { readFromGateway } from './gateway.js'
import { parseBytes, type OpenOptions, type RelayClientOptions, type SendOptions } from './relay-options.js'
import { parseRelayUri } from './relay-uri.js'

const CONTEXT = 'relay:1'
const BYTES = 0
const TEXT = 1
/** The largest file that a relay can be set to accept, with the JSON around it. */
const MAX_ANSWER_BYTES = 68_000_000

/**
 * Sends content through a relay and opens it. The relay and the gateways see only what is encrypted: the key stands behind
 * `#` in the URI, and is in no request.
 *
 * @example
 * const relay = new RelayClient({ url: 'https://relay.example.com', wallet: window.ethereum })
 * const uri = await relay.send('The treasure lies under the old oak')
 * const text = await relay.open(uri, { gateways: ['https://ipfs.io'] })
 */
export class RelayClient {
  readonly #options: RelayClientOptions
  readonly #url: string
  #token: Promise<string> | undefined

  /** @throws TypeError for a `url` that is none */
  constructor(options: RelayClientOptions) {
    this.#options = options
    this.#url = parseServiceUrl(options.url)
  }

  /**
   * Encrypts content with a new key, and posts it.
   *
   * @param content - a text, or bytes: about 6 MiB at a relay with default bounds
   * @returns `relay://<cid>#<key>`: everybody who has it can read the content, so show it to the recipient alone
   * @throws TypeError for other content; TOO_LARGE, FULL, TAKEN_DOWN; CHALLENGE, RATE_LIMITED, UNAVAILABLE,
   * PROTOCOL, errors of the wallet, or the signal's reason
   */
  async send(content: string | Uint8Array, options?: SendOptions): Promise<string> {
    const isText = typeof content === 'string'
    const typed = joined([Uint8Array.of(isText ? TEXT : BYTES), isText ? utf8Of(content) : parseBytes(content)])
    const key = randomBytes(KEY_BYTES)
    const iv = randomBytes(IV_BYTES)
    const file = encodeBase64url(joined([iv, await crypt('encrypt', key, iv, CONTEXT, typed)]))
    const cid = await cidOf(utf8(file))
    // Under another cid, the recipient would not find it, or find something else.
    if ((await this.#withToken('/file', 'cid', { file }, options)) !== cid) throw new DidAuthClientError(MISMATCH)
    return `relay://${cid}#${encodeBase64url(key)}`
  }

  /**
   * Opens what was sent. The relay and all gateways are asked at once, and the first one whose bytes have the cid wins.
   *
   * @param uri - `relay://<cid>#<key>`, or a link made by {@link RelayClient.link}
   * @returns the text, or the bytes, as it was sent
   * @throws DidAuthClientError LINK, KEY, MISMATCH, NOT_FOUND, TAKEN_DOWN, MISSING; else as `send`. Where all fail, the
   * error is the relay's
   */
  async open(uri: string, { gateways = [], signal }: OpenOptions = {}): Promise<string | Uint8Array> {
    const { cid, keyBytes } = parseRelayUri(uri)
    const file = await this.#readAnywhere(cid, gateways, signal)
    try {
      const sealed = decodeBase64url(textOf(file))
      const iv = sealed.slice(0, IV_BYTES)
      const typed = await crypt('decrypt', keyBytes, iv, CONTEXT, sealed.slice(IV_BYTES))
      const content = typed.slice(1)
      return typed[0] === TEXT ? textOf(content) : content
    } catch (cause) {
      throw new DidAuthClientError(KEY, { cause })
    }
  }

  /**
   * The same as a link to a page of yours, because the cameras of phones open https and not `relay://`. The part behind `#`
   * stays in the browser; on the page, give `location.href` to {@link RelayClient.open}.
   *
   * @returns `https://…#r=<cid>.<key>`
   * @throws DidAuthClientError LINK
   * @example relay.link(uri, 'https://app.example.com/open')
   */
  link(uri: string, page: string): string {
    const { cid, key } = parseRelayUri(uri)
    return new URL(`#r=${cid}.${key}`, page).href
  }

  async #readAnywhere(cid: string, gateways: readonly string[], signal: AbortSignal | undefined): Promise<Bytes> {
    signal?.throwIfAborted()
    const race = new AbortController()
    const sources = gateways.map((gateway) => readFromGateway(gateway, cid, { ...this.#options, signal: race.signal }))
    if (this.#options.wallet || !sources.length) sources.unshift(this.#read(cid, race.signal))
    const first = Promise.any(sources).catch((cause: unknown) => {
      throw cause instanceof AggregateError ? cause.errors[0] : cause
    })
    return unlessAborted(first, signal).finally(() => {
      race.abort()
    })
  }

  /** @returns UTF-8 of the file, which has the cid */
  async #read(cid: string, signal: AbortSignal): Promise<Bytes> {
    const file = utf8(await this.#withToken(`/file/${cid}`, 'file', undefined, { signal }))
    if ((await cidOf(file)) !== cid) throw new DidAuthClientError(MISMATCH)
    return file
  }

  /** Asks with a token. Logs in again, once, where one of before is refused, or a challenge came too late. */
  #withToken(path: string, field: string, body?: object, options: SendOptions = {}): Promise<string> {
    const before = this.#token
    const send = async (): Promise<string> =>
      this.#ask(path, field, body, options, await unlessAborted((this.#token ??= this.#logIn()), options.signal))
    return send().catch((error: unknown) => {
      if (!isOutdated(error, before)) throw error
      // Unless another call has logged in again.
      if (this.#token === before) this.#token = undefined
      return send()
    })
  }

  /** Without a signal, because several calls wait for one login. */
  async #logIn(): Promise<string> {
    const { wallet, network, domain = new URL(this.#url).host, credential } = this.#options
    try {
      const { did, signMessage } = await connectWallet(wallet, network)
      const challenge = await this.#ask('/request-auth', 'challenge', { did })
      const proof = credential
        ? { jwt: await credential(challenge, did) }
        : { did, sig: await signMessage(loginMessage(domain, challenge)), challenge }
      return await this.#ask('/auth', 'token', proof)
    } catch (error) {
      // Not for ever: the next call logs in again.
      this.#token = undefined
      throw error
    }
  }

  /** @returns the text in a field of the answer */
  async #ask(
    path: string,
    field: string,
    body?: object,
    { signal, onExpiresIn }: SendOptions = {},
    Authorization = ''
  ): Promise<string> {
    const init = {
      headers: { Accept: 'application/problem+json', 'Content-Type': 'application/json', Authorization },
      redirect: 'manual',
      credentials: 'omit',
      ...(body && { method: 'POST', body: JSON.stringify(body) })
    } as const
    const answer = await exchange(this.#url + path, init, MAX_ANSWER_BYTES, { ...this.#options, signal })
    const text = answer.status === 200 && textIn(answer, field)
    if (!text) throw refusalOf(answer, body)
    const seconds = Number(answer.headers.get('file-expires-in'))
    if (seconds) onExpiresIn?.(seconds)
    return text
  }
}

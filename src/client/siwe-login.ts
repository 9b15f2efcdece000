import { formatSiweMessage, type SiweMessage } from '../protocol/format-siwe-message.js'
import { browser } from './browser.js'
import { PROTOCOL } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { isText, parseFields } from './json.js'
import type { Setting } from './options.js'
import { ask, jsonOf } from './request.js'
import type { ClientSession } from './session-keeper.js'
import { orOnceMore, sendProof, type LogInOptions, type SignedIn } from './sign-in.js'
import { chainIdOf, connectWallet, type Wallet } from './wallet.js'

/** An EIP-4361 text as it was signed. */
export interface SignedSiwe {
  readonly message: string
  /** `0x` and hex. */
  readonly signature: string
  /** What signed: a change of its account signs out. */
  readonly wallet?: Wallet | undefined
  readonly signal?: AbortSignal | undefined
}

/** The code of the other logins that means to the user what this one does. */
function usualCode(code: string): string {
  return code
    .replace(/^ERR_MESSAGE_DOMAIN$/, 'ERR_CROSS_ORIGIN')
    .replace(/^ERR_MESSAGE$/, 'ERR_CHALLENGE')
    .replace(/^ERR_(CONTRACT_.*|NETWORK)$/, 'ERR_BUSINESS_LOGIC')
}

/** Opens the session of a login that it is given. */
type Enter = (signIn: () => Promise<SignedIn>, wallet: Wallet | undefined) => Promise<ClientSession>

/** Logs in by EIP-4361 texts. Apart from the client, which loads it when it is wanted, so that other pages need not. */
export class SiweLogin {
  readonly #setting: Setting
  readonly #enter: Enter
  /** Asked for ahead of the click, and until when it is good by the monotonic clock. */
  #prepared: { readonly nonce: string; readonly goodUntil: number } | undefined

  constructor(setting: Setting, enter: Enter) {
    this.#setting = {
      ...setting,
      meaningOf: (status, code = '', answer) => setting.meaningOf?.(status, usualCode(code), answer)
    }
    this.#enter = enter
  }

  /** Asks for the nonce of the next login ahead of the click. @throws as {@link nonce} does */
  async prepare(signal?: AbortSignal): Promise<void> {
    const { paths, nowSeconds } = this.#setting
    const answer = await ask(this.#setting, { method: 'POST', path: paths.siweNonce ?? '/siwe/nonce', signal })
    const { nonce } = parseFields(jsonOf(answer))
    if (!isText(nonce)) throw new DidAuthClientError(PROTOCOL, { message: 'No nonce' })
    const expiresIn = Number(answer.response.headers.get('Challenge-Expires-In') ?? Infinity)
    this.#prepared = { nonce, goodUntil: nowSeconds() + expiresIn }
  }

  /**
   * A nonce for one login, by whatever account: the prepared one while it is good, else a new one.
   *
   * @throws DidAuthClientError UNAVAILABLE, RATE_LIMITED, PROTOCOL, or the signal's reason
   */
  async nonce(signal?: AbortSignal): Promise<string> {
    if (!this.#prepared || this.#prepared.goodUntil <= this.#setting.nowSeconds()) await this.prepare(signal)
    const nonce = this.#prepared?.nonce ?? ''
    this.#prepared = undefined
    return nonce
  }

  /** What a text says: issued now, and of the site that asks, which is `domain` of the client's options, or the page. */
  fields(account: Pick<SiweMessage, 'address' | 'chainId' | 'nonce'>): SiweMessage {
    const { domain: given, statement, url, wallSeconds } = this.#setting
    const { host, protocol } = browser.location ?? new URL(url)
    const domain = given ?? host
    const issuedAt = new Date(wallSeconds() * 1_000).toISOString()
    return { domain, uri: `${protocol}//${domain}`, statement, issuedAt, ...account }
  }

  /**
   * Opens a session with a text and its signature. The service tells the DID.
   *
   * @throws DidAuthClientError CHALLENGE, CROSS_ORIGIN, REFUSED, RATE_LIMITED, UNAVAILABLE, PROTOCOL; or the signal's reason
   */
  verify({ message, signature, wallet, signal }: SignedSiwe): Promise<ClientSession> {
    const { siweVerify: path = '/siwe/verify' } = this.#setting.paths
    const call = { path, body: { message, signature }, signal }
    return this.#enter(async () => {
      const body = await sendProof(this.#setting, call)
      return { body, did: String(parseFields(body).did) }
    }, wallet)
  }

  /** Has the wallet sign a text, and opens a session; once more by itself where the nonce was out of date. */
  async logIn({ wallet, signal }: LogInOptions): Promise<ClientSession> {
    const { address, signMessage } = await connectWallet(wallet, this.#setting.network, signal)
    return orOnceMore(async () => {
      const [chainId, nonce] = [await chainIdOf(wallet, signal), await this.nonce(signal)]
      const message = formatSiweMessage(this.fields({ address, chainId, nonce }))
      return this.verify({ message, signature: await signMessage(message), wallet, signal })
    })
  }
}

import type { AuthorizedInit, RefusedRequest } from './approve-request.js'
import { browser } from './browser.js'
import { NOT_SIGNED_IN, PROTOCOL } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { parseFields, parseJson } from './json.js'
import {
  completeOptions,
  type DidAuthClientOptions,
  type LogInOptions,
  type Setting,
  type SignUpOptions
} from './options.js'
import { endSession, loadSession, renewSession, startSession } from './own-session.js'
import { askJson, mapToUnavailable } from './request.js'
import type { KeptToken } from './resource-tokens.js'
import { SessionKeeper, type ClientSession, type SessionRecord } from './session-keeper.js'
import { createChallenges, logIn, type Challenges, type SignedIn } from './sign-in.js'
import type { SiweLogin } from './siwe-login.js'
import { raceWithAbort } from './timing.js'
import { toAccountDid, watchAccount, type Wallet } from './wallet.js'

/** Codes of tokens that a refresh replaces: of an expired one, of another service key, of an ended session. */
const RENEWABLE = /^ERR_(ACCESS_TOKEN(_EXPIRED)?|SESSION_ENDED)$/

/** One of the user's sessions, times in whole seconds. */
export interface ListedSession {
  readonly sessionId: string
  readonly createdAt: number
  readonly refreshedAt: number
  readonly expiresAt: number
  readonly isCurrent: boolean
}

/**
 * The client of one service: logs in, keeps the session over lost answers, reloads and other tabs, and sends requests.
 *
 * @example
 * const auth = new DidAuthClient({ url: 'https://api.example.com', mode: 'cookie' })
 * await auth.ready
 * if (auth.session === undefined) await auth.logIn({ wallet: window.ethereum })
 * const notes = await (await auth.fetch('/notes')).json()
 */
export class DidAuthClient {
  /** URL of the service, which ends without a slash. */
  readonly url: string
  /**
   * Resolves when the session was read from the storage, or in cookie mode from the service, and its wallet was looked
   * for. It rejects with UNAVAILABLE where the service was not reached; the next request reads the session again.
   */
  readonly ready: Promise<void>
  readonly #setting: Setting
  readonly #keeper: SessionKeeper
  #loading: Promise<void> | undefined
  #refreshing: Promise<void> | undefined
  /** The logout under way. A login waits for it: with cookies, the logout would end the new session. */
  #leaving: Promise<void> | undefined
  readonly #challenges: Challenges
  #siwe: SiweLogin | undefined
  /** Resource tokens by the URL of the other service. */
  readonly #resourceTokens = new Map<string, KeptToken>()
  #wallet: Wallet | undefined
  #lookingForWallet: Promise<void> | undefined
  /** The pair of a token that was new and refused: its next refusal causes no refresh. */
  #refusedPair: string | undefined

  /** @throws TypeError when `url` or one of `origins` is no URL with http or https */
  constructor(options: DidAuthClientOptions) {
    this.#setting = completeOptions(options)
    this.#keeper = new SessionKeeper(this.#setting)
    const { url, paths } = this.#setting
    this.#challenges = createChallenges(this.#setting, 'challenge', (did) => ({
      path: paths.requestAuth,
      body: { did }
    }))
    this.url = url
    this.useWallet(options.wallet)
    // The wallet is also needed for a session that another tab has opened.
    this.#keeper.subscribe(() => {
      this.#lookingForWallet = this.#findWallet().catch(() => undefined)
    })
    this.ready = this.#load().then(() => this.#lookingForWallet)
    // The next request reports a failure.
    this.ready.catch(() => undefined)
  }

  /** The session, until it has ended. The object is replaced when something in it changes. */
  get session(): ClientSession | undefined {
    return this.#keeper.session
  }

  /** Calls a function when {@link session} has changed, by this tab or another. @returns what unsubscribes */
  subscribe(listener: (session: ClientSession | undefined) => void): () => void {
    return this.#keeper.subscribe(listener)
  }

  /**
   * Asks for a challenge, has the wallet sign it, and opens a session. One that this client had before stays open at
   * the service: {@link logOut} ends it.
   *
   * @throws DidAuthClientError USER_REJECTED, WALLET_BUSY, NO_WALLET, WALLET, CHALLENGE, REFUSED, RATE_LIMITED,
   * UNAVAILABLE, CROSS_ORIGIN, PROTOCOL; or the signal's reason
   * @example
   * button.onclick = () => auth.logIn({ wallet: provider }).catch(({ userMessage }) => alert(userMessage))
   */
  async logIn(options: LogInOptions = {}): Promise<ClientSession> {
    const { message = this.#setting.message } = options
    const all = this.#withWallet(options)
    if (message === 'siwe') return (await this.siwe()).logIn(all)
    return this.#enter(() => logIn(this.#setting, all, this.#challenges), all.wallet)
  }

  /**
   * Signs up: a login with credentials and claims, those given or those that `onDisclosure` returns.
   *
   * @throws as {@link logIn} does, and what `onDisclosure` throws
   * @example
   * await auth.signUp({ onDisclosure: ({ credentials }) => ({ credentials: pick(credentials), claims: [] }) })
   */
  async signUp(options: SignUpOptions = {}): Promise<ClientSession> {
    const all = this.#withWallet({ ...this.#setting.signUp, ...options })
    const { signUp } = await mapToUnavailable('sign-up', undefined, () => import('./sign-up.js'))
    return this.#enter(() => signUp(this.#setting, all), all.wallet)
  }

  /**
   * Fetches the challenge of an account before the click: phones open the wallet only right after a click.
   *
   * @param address - as the wallet spells it. When absent, a login by EIP-4361 is prepared, for any account
   * @throws DidAuthClientError UNAVAILABLE, RATE_LIMITED, PROTOCOL
   */
  async prepare(address?: string): Promise<void> {
    if (!address) return (await this.siwe()).prepare()
    const { wallet } = this.#withWallet<LogInOptions>({})
    const did = await toAccountDid(wallet, address, this.#setting.network)
    await this.#challenges.prepare(did)
  }

  /**
   * Loads the steps of a login by an EIP-4361 text, for what signs by itself, such as the modal of a wallet library:
   * `client/siwe` has adapters for these.
   *
   * @throws DidAuthClientError UNAVAILABLE where they cannot be loaded
   */
  async siwe(): Promise<SiweLogin> {
    const { createSiweLogin } = await mapToUnavailable('siwe', undefined, () => import('./siwe-login.js'))
    return (this.#siwe ??= createSiweLogin(this.#setting, (signIn, wallet) => this.#enter(signIn, wallet)))
  }

  /**
   * `fetch` with the session. A path is one under the service's URL, also with a slash in front. The token is replaced
   * before it ends, and sent only to the service's origin and `origins`. Every answer is returned untouched.
   *
   * With `approve: true`, a request that the service wants approved is signed by the wallet, and sent once more.
   *
   * @throws DidAuthClientError SESSION_ENDED, UNAVAILABLE; to approve NO_WALLET, USER_REJECTED, WALLET_BUSY, WALLET,
   * and PROTOCOL where the service wants another request approved than this one; or the signal's reason
   */
  async fetch(input: string | URL | Request, options: AuthorizedInit = {}): Promise<Response> {
    await this.#load()
    const { url, origins, usesCookies } = this.#setting
    const { fetch = this.#setting.fetch, ...init } = options
    const request = typeof input === 'object' && 'url' in input ? input : undefined
    // The service's URL may have a path of its own, which a slash in front would leave.
    // eslint-disable-next-line @typescript-eslint/no-base-to-string -- anything but a request is a string or a URL
    const path = request?.url ?? String(input).replace(/^\/(?!\/)/, './')
    const { href, origin } = new URL(path, `${url}/`)
    const resource = request ?? href
    if (!origins.has(origin)) return fetch(resource, init)

    const signal = init.signal ?? request?.signal
    const send = async (record: SessionRecord | undefined, init: RequestInit): Promise<Response> => {
      const headers = new Headers(init.headers ?? request?.headers)
      headers.set('Accept', `${headers.get('Accept') ?? '*/*'}, application/problem+json`)
      const token = record?.accessToken
      if (token && !headers.has('Authorization')) headers.set('Authorization', `DIDAuth ${token}`)
      const all = { ...(usesCookies && { credentials: 'include' as const }), ...init, headers }
      return mapToUnavailable(href, signal, () => fetch(resource, all))
    }

    const keeper = this.#keeper
    const { record } = keeper
    if (record && keeper.isNearEnd()) {
      await raceWithAbort(this.#refresh(record), signal).catch((error: unknown) => {
        // A token that is still valid is used while the service cannot refresh it.
        if (parseFields(error).code !== 'UNAVAILABLE' || keeper.secondsLeft() <= 0) throw error
      })
    }
    const used = keeper.record
    let response = await send(used, init)
    if (!used || !canRepeat(init.body ?? request?.body)) return response
    const code = await codeOf401(response)
    if (RENEWABLE.test(code) && (code.endsWith('EXPIRED') || used.pair !== this.#refusedPair)) {
      // Another request may have refreshed meanwhile.
      if (keeper.record?.pair === used.pair) await raceWithAbort(this.#refresh(used), signal)
      response = await send(keeper.record, init)
      if ((await codeOf401(response)) === code) this.#refusedPair = keeper.record?.pair
    }
    if (!init.approve || response.status !== 403) return response
    await this.#lookingForWallet
    // Sent by `fetch`, because the wallet may be open for longer than the token is valid.
    const refused = {
      response,
      href,
      init: options,
      request,
      send: (again: AuthorizedInit) => this.fetch(input, again)
    }
    return (await this.siwe()).approve(this.#withWallet<RefusedRequest>(refused))
  }

  /**
   * A token of this session for another service, cached until shortly before it expires.
   *
   * @param resource - the URL of that service, as `resources` of this one has it
   * @param refused - a token that it refused; another is requested
   * @throws DidAuthClientError NOT_SIGNED_IN; SESSION_ENDED, UNAVAILABLE, RATE_LIMITED, PROTOCOL (also for a resource
   * that is not listed)
   * @example
   * const headers = { Authorization: `Bearer ${await auth.tokenFor('https://api.example.com')}` }
   */
  async tokenFor(resource: string, refused?: string): Promise<string> {
    const { createTokenCache } = await mapToUnavailable('tokenFor', undefined, () => import('./resource-tokens.js'))
    const service = await this.#withSession()
    return createTokenCache(service, this.#resourceTokens, this.session?.sessionId, resource, refused)
  }

  /**
   * Uses a wallet from now on: it approves requests, and a change of its account signs out. A login does this itself,
   * and a reload finds wallets of EIP-6963 and passkeys again. Call it for any other wallet after a reload, and for the
   * wallet of a modal after each login.
   *
   * @param wallet - undefined where there is none
   */
  useWallet(wallet: Wallet | undefined): void {
    if (wallet === this.#wallet) return
    this.#wallet = wallet
    if (!wallet || this.#setting.onAccountChange === 'ignore') return
    watchAccount(wallet, (address) => {
      if (wallet === this.#wallet && !this.session?.did.endsWith(address)) this.logOut().catch(() => undefined)
    })
  }

  /** Returns the user's sessions. The service needs `sessionsPath`. @throws as `tokenFor` does */
  async sessions(): Promise<ListedSession[]> {
    const list = await this.#ownSessions('GET')
    if (!Array.isArray(list)) throw new DidAuthClientError(PROTOCOL)
    return list as ListedSession[]
  }

  /** Ends one of the user's sessions; this one as {@link logOut} does. @throws as {@link sessions} does */
  async revoke(sessionId: string): Promise<void> {
    if (sessionId === this.session?.sessionId) await this.logOut()
    else await this.#ownSessions('DELETE', `/${encodeURIComponent(sessionId)}`)
  }

  /**
   * Ends the session at the service, here and in the other tabs. Without a session it does nothing.
   *
   * @throws DidAuthClientError UNAVAILABLE, CROSS_ORIGIN, PROTOCOL: the service was not told. Tokens of a header are
   * forgotten nevertheless; cookies stay, and so does the session
   */
  logOut(): Promise<void> {
    const { session } = this
    const leaving = this.#load()
      .then(() => this.#settled())
      // A login that came in between stays.
      .then(() => {
        const isOther = session && session.sessionId !== this.session?.sessionId
        return isOther ? undefined : endSession(this.#setting, this.#keeper)
      })
    this.#leaving = leaving.catch(() => undefined)
    return leaving
  }

  /** Waits for a load and a refresh under way, which would bring their session back. */
  #settled(): Promise<unknown> {
    return Promise.allSettled([this.#load(), this.#refreshing])
  }

  /** Loads the session once; again only after a failure. */
  #load(): Promise<void> {
    return (this.#loading ??= loadSession(this.#setting, this.#keeper).catch((error: unknown) => {
      this.#loading = undefined
      throw error
    }))
  }

  /** Refreshes the session. Requests that need a refresh while one is under way share it. */
  #refresh(stale: SessionRecord): Promise<void> {
    return (this.#refreshing ??= renewSession(this.#setting, this.#keeper, stale).finally(() => {
      this.#refreshing = undefined
    }))
  }

  async #enter(signIn: () => Promise<SignedIn>, wallet: Wallet | undefined): Promise<ClientSession> {
    await this.#leaving
    const [signedIn, walletId] = await Promise.all([signIn(), this.#idOf(wallet)])
    await this.#settled()
    const session = await startSession(this.#setting, this.#keeper, { ...signedIn, walletId })
    this.#loading = Promise.resolve()
    this.useWallet(wallet)
    return session
  }

  async #ownSessions(method: 'GET' | 'DELETE', path = ''): Promise<unknown> {
    return askJson(await this.#withSession(), { method, path: this.#setting.paths.sessions + path })
  }

  /** Returns the service, asked with the session's token. @throws DidAuthClientError NOT_SIGNED_IN */
  async #withSession(): Promise<Setting> {
    await this.#load()
    if (!this.session) throw new DidAuthClientError(NOT_SIGNED_IN)
    return { ...this.#setting, fetch: (url, init) => this.fetch(url, init) }
  }

  #withWallet<T extends Pick<LogInOptions, 'wallet'>>(options: T): T {
    return { ...options, wallet: options.wallet ?? this.#wallet ?? browser.ethereum }
  }

  /** Finds the wallet of a login before the reload. A wallet that announces itself later is used from then on. */
  async #findWallet(): Promise<void> {
    const { walletId, did = '' } = this.#keeper.record ?? {}
    if (!walletId || this.#wallet) return
    const { findWalletAgain } = await import('./known-wallets.js')
    await findWalletAgain(walletId, did.slice(-42), (wallet) => {
      if (!this.#wallet) this.useWallet(wallet)
    })
  }

  /** Returns the id of a wallet for the next page. Without it the login works as well. */
  async #idOf(wallet: Wallet | undefined): Promise<string | undefined> {
    if (!wallet || this.#setting.storage.isPrivate) return undefined
    return import('./known-wallets.js').then(({ findWalletId }) => findWalletId(wallet)).catch(() => undefined)
  }
}

/** Returns the code of an answer with status 401. */
async function codeOf401(response: Response): Promise<string> {
  return response.status === 401 ? String(parseFields(parseJson(await response.clone().text())).code) : ''
}

/** Whether a body can be sent again. A stream cannot: sending it consumes it. */
function canRepeat(body: object | string | null | undefined): boolean {
  return !body || typeof body === 'string' || !('getReader' in body || Symbol.asyncIterator in body)
}

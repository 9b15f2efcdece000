import type { AuthorizedInit, RefusedRequest } from './approve-request.js'
import { browser } from '../wire/browser.js'
import { parseFields, parseJson } from '../wire/json.js'
import { loadDeviceKey } from './load-device-key.js'
import {
  completeOptions,
  type DidAuthClientOptions,
  type LogInOptions,
  type Setting,
  type SignUpOptions
} from './options.js'
import { endSession, loadSession, renewSession, startSession } from './own-session.js'
import { canRepeat, loadCode, mapToUnavailable } from '../wire/request.js'
import type { ListedSession, SessionCalls } from './calls.js'
import { SessionKeeper, type ClientSession, type SessionRecord } from './session-keeper.js'
import { shareLogin } from './share-login.js'
import { createChallenges, logIn, type Challenges, type SignedIn } from './sign-in.js'
import type { SiweLogin } from './siwe-login.js'
import { raceWithAbort } from '../wire/timing.js'
import { toAccountDid, watchAccount, type Wallet } from '../wallets/wallet.js'

/** Codes that a refresh can resolve: the token has expired, the service has a new key, or the session was ended. */
const RENEWABLE = /^ERR_(ACCESS_TOKEN(_EXPIRED)?|SESSION_ENDED)$/

/**
 * The client of one service. It logs in, sends authenticated requests, and shares one session between tabs. The session
 * survives lost responses and reloads.
 *
 * @example
 * const auth = new DidAuthClient({ url: 'https://api.example.com', mode: 'cookie' })
 * await auth.ready
 * if (auth.session === undefined) await auth.logIn({ wallet: window.ethereum })
 * const notes = await (await auth.fetch('/notes')).json()
 */
export class DidAuthClient {
  /** URL of the service, without a trailing slash. */
  readonly url: string
  /**
   * Resolves once the session is loaded from the storage (in cookie mode, from the service) and the search for its
   * wallet is done. Rejects with UNAVAILABLE if the service is unreachable; the next request then loads the session.
   */
  readonly ready: Promise<void>
  readonly #setting: Setting
  readonly #keeper: SessionKeeper
  #loading: Promise<void> | undefined
  #refreshing: Promise<void> | undefined
  /** The logout in flight. A login waits for it, because with cookies the logout would end the new session. */
  #loggingOut: Promise<void> | undefined
  readonly #challenges: Challenges
  #siwe: SiweLogin | undefined
  #calls: SessionCalls | undefined
  #wallet: Wallet | undefined
  #lookingForWallet: Promise<void> | undefined
  /** `pair` of the record whose fresh token was refused. Another refusal of that token causes no refresh. */
  #refusedPair: string | undefined

  /** @throws TypeError if `url` or one of `origins` is not an http(s) URL */
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
    // A session that another tab opened needs its wallet, too.
    this.#keeper.subscribe(() => {
      this.#lookingForWallet = this.#findWallet().catch(() => undefined)
    })
    this.ready = this.#load().then(() => this.#lookingForWallet)
    // Prevents an unhandled rejection. The next request reports the failure.
    this.ready.catch(() => undefined)
  }

  /** The current session, or undefined. Each change replaces the object. */
  get session(): ClientSession | undefined {
    return this.#keeper.session
  }

  /** Calls `listener` when {@link session} changes, in this tab or another. @returns a function that unsubscribes */
  subscribe(listener: (session: ClientSession | undefined) => void): () => void {
    return this.#keeper.subscribe(listener)
  }

  /**
   * Requests a challenge, gets it signed by the wallet, and opens a session. It ends the previous session of this
   * client. Concurrent calls with the same wallet and text share one login, which ends once all their signals aborted.
   *
   * @throws DidAuthClientError USER_REJECTED, WALLET_BUSY, NO_WALLET, WALLET, CHALLENGE, REFUSED, RATE_LIMITED,
   * UNAVAILABLE, CROSS_ORIGIN, DUPLICATE_COOKIE, PROTOCOL; or the signal's reason
   * @example
   * button.onclick = () => auth.logIn({ wallet: provider }).catch(({ userMessage }) => alert(userMessage))
   */
  async logIn(options: LogInOptions = {}): Promise<ClientSession> {
    const { message = this.#setting.message } = options
    const loginOptions = this.#withWallet(options)
    if (message === 'siwe') return (await this.siwe()).logIn(loginOptions)
    return this.#share(loginOptions, 'login', (shared) => logIn(this.#setting, shared, this.#challenges))
  }

  /**
   * Signs up: logs in with the given credentials and claims, or with those that `onDisclosure` returns. Concurrent
   * calls with the same wallet, credentials and claims share one sign up.
   *
   * @throws as {@link logIn} does, and errors of `onDisclosure`
   * @example
   * await auth.signUp({ onDisclosure: ({ credentials }) => ({ credentials: pick(credentials), claims: [] }) })
   */
  async signUp(options: SignUpOptions = {}): Promise<ClientSession> {
    const signUpOptions = this.#withWallet({ ...this.#setting.signUp, ...options })
    const { credentials, claims } = signUpOptions
    return this.#share(signUpOptions, JSON.stringify([credentials, claims]), async (shared) => {
      const { signUp } = await loadCode(() => import('./sign-up.js'))
      return signUp(this.#setting, shared)
    })
  }

  /**
   * Fetches the challenge of an account before the click, because phones open the wallet only right after a click.
   *
   * @param address - as the wallet spells it. Without an address, it prepares a login by EIP-4361 for any account
   * @throws DidAuthClientError UNAVAILABLE, RATE_LIMITED, PROTOCOL
   */
  async prepare(address?: string): Promise<void> {
    if (!address) return (await this.siwe()).prepare()
    const { wallet } = this.#withWallet<LogInOptions>({})
    const did = await toAccountDid(wallet, address, this.#setting.network)
    await this.#challenges.prepare(did)
  }

  /**
   * Loads the steps of a login by EIP-4361, for code that gets the text signed without this client. `client/siwe` has
   * adapters for the modals of wallet libraries.
   *
   * @throws DidAuthClientError UNAVAILABLE if the code cannot be loaded
   */
  async siwe(): Promise<SiweLogin> {
    const { createSiweLogin } = await loadCode(() => import('./siwe-login.js'))
    return (this.#siwe ??= createSiweLogin(this.#setting, (signIn, wallet) => this.#enter(signIn, wallet)))
  }

  /**
   * `fetch` with the session. Paths are relative to the service's URL, also with a leading slash. The client refreshes
   * the token before it expires, sends it only to the service's origin and `origins`, and returns responses unchanged.
   *
   * With `deviceProof: true`, a request has a proof of the device's key, see the option `deviceKey`.
   *
   * With `approve: true`, a request that the service requires an approval for is signed by the wallet and sent again.
   *
   * @throws DidAuthClientError SESSION_ENDED, UNAVAILABLE, DUPLICATE_COOKIE; for an approval NO_WALLET, USER_REJECTED,
   * WALLET_BUSY, WALLET, and PROTOCOL if the service requests the approval of another request; or the signal's reason
   */
  async fetch(input: string | URL | Request, options: AuthorizedInit = {}): Promise<Response> {
    await this.#load()
    const { url, origins, usesCookies } = this.#setting
    const { fetch: baseFetch = this.#setting.fetch, deviceProof, ...init } = options
    const fetch = deviceProof ? (await loadDeviceKey()).addProofs(this.#setting, baseFetch, this.session) : baseFetch
    const request = typeof input === 'object' && 'url' in input ? input : undefined
    // The service's URL may have a path, which a leading slash would drop.
    // eslint-disable-next-line @typescript-eslint/no-base-to-string -- anything but a request is a string or a URL
    const path = request?.url ?? String(input).replace(/^\/(?!\/)/, './')
    const { href, origin } = new URL(path, `${url}/`)
    const resource = request ?? href
    if (!origins.has(origin)) return fetch(resource, init)

    const signal = init.signal ?? request?.signal
    const send = async (record: SessionRecord | undefined): Promise<Response> => {
      const headers = new Headers(init.headers ?? request?.headers)
      headers.set('Accept', `${headers.get('Accept') ?? '*/*'}, application/problem+json`)
      const token = record?.accessToken
      if (token && !headers.has('Authorization')) headers.set('Authorization', `DIDAuth ${token}`)
      const fullInit = { ...(usesCookies && { credentials: 'include' as const }), ...init, headers }
      return mapToUnavailable(href, signal, () => fetch(resource, fullInit))
    }

    const keeper = this.#keeper
    const { record } = keeper
    if (record && keeper.isNearEnd()) {
      await raceWithAbort(this.#refresh(record), signal).catch((error: unknown) => {
        // Uses the token while it is valid if the service cannot refresh it.
        if (parseFields(error).code !== 'UNAVAILABLE' || keeper.secondsLeft() <= 0) throw error
      })
    }
    const sentRecord = keeper.record
    let response = await send(sentRecord)
    if (!sentRecord || !canRepeat(init.body ?? request?.body)) return response
    const code = await read401Code(response)
    if (RENEWABLE.test(code) && (code.endsWith('EXPIRED') || sentRecord.pair !== this.#refusedPair)) {
      // Another request may have refreshed in the meantime.
      if (keeper.record?.pair === sentRecord.pair) await raceWithAbort(this.#refresh(sentRecord), signal)
      response = await send(keeper.record)
      if ((await read401Code(response)) === code) this.#refusedPair = keeper.record?.pair
    }
    if (!init.approve || response.status !== 403) return response
    await this.#lookingForWallet
    const refused = {
      response,
      href,
      init: options,
      request,
      // Goes through `fetch` again, because the token may expire while the wallet is open.
      send: (approvedInit: AuthorizedInit) => this.fetch(input, approvedInit)
    }
    return (await this.siwe()).approve(this.#withWallet<RefusedRequest>(refused))
  }

  /**
   * Returns a token of this session for another service. It is cached until shortly before it expires.
   *
   * @param resource - the URL of the other service, as this service lists it in `resources`
   * @param refused - a token that the other service refused, to be replaced by a new one
   * @throws DidAuthClientError NOT_SIGNED_IN; SESSION_ENDED, UNAVAILABLE, RATE_LIMITED, PROTOCOL (also for a resource
   * that is not listed)
   * @example
   * const headers = { Authorization: `Bearer ${await auth.tokenFor('https://api.example.com')}` }
   */
  async tokenFor(resource: string, refused?: string): Promise<string> {
    return (await this.#loadCalls()).tokenFor(resource, refused)
  }

  /**
   * Sets the wallet that approves requests. A change of its account logs out. A login sets its own wallet, and a reload
   * restores wallets of EIP-6963 and passkeys. Call this for any other wallet after a reload, and for the wallet of a
   * modal after each login.
   *
   * @param wallet - undefined to use none
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
    return (await this.#loadCalls()).list()
  }

  /** Ends a session of the user; for the current one, as {@link logOut}. @throws as {@link sessions} does */
  async revoke(sessionId: string): Promise<void> {
    return sessionId === this.session?.sessionId ? this.logOut() : (await this.#loadCalls()).end(sessionId)
  }

  /**
   * Ends the session at the service, here and in the other tabs. Without a session it does nothing.
   *
   * @throws DidAuthClientError UNAVAILABLE, CROSS_ORIGIN, PROTOCOL: the service still has the session. Header mode
   * deletes the tokens anyway; in cookie mode, the client stays logged in
   */
  logOut(): Promise<void> {
    const { session } = this
    const loggingOut = this.#load()
      .then(() => this.#waitUntilSettled())
      // A login in the meantime has opened another session, which stays.
      .then(() => {
        const isOther = session && session.sessionId !== this.session?.sessionId
        return isOther ? undefined : endSession(this.#setting, this.#keeper)
      })
    this.#loggingOut = loggingOut.catch(() => undefined)
    return loggingOut
  }

  /** Waits for a load and a refresh in flight, because they would restore their session. */
  #waitUntilSettled(): Promise<unknown> {
    return Promise.allSettled([this.#load(), this.#refreshing])
  }

  /** Loads the session once. Only a failed load is repeated. */
  #load(): Promise<void> {
    return (this.#loading ??= loadSession(this.#setting, this.#keeper).catch((error: unknown) => {
      this.#loading = undefined
      throw error
    }))
  }

  /** Refreshes the session. Concurrent requests share one refresh. */
  #refresh(stale: SessionRecord): Promise<void> {
    return (this.#refreshing ??= renewSession(this.#setting, this.#keeper, stale).finally(() => {
      this.#refreshing = undefined
    }))
  }

  /** Runs a login, unless the same one is in flight. @param kind - what distinguishes logins by one wallet */
  #share<T extends LogInOptions>(
    options: T,
    kind: string,
    signIn: (options: T) => Promise<SignedIn>
  ): Promise<ClientSession> {
    const { wallet, signal: ownSignal } = options
    return shareLogin([this.#setting, wallet, kind], ownSignal, (signal) =>
      this.#enter(() => signIn({ ...options, signal }), wallet)
    )
  }

  /** Opens the session of a login, and uses its wallet from now on. */
  async #enter(signIn: () => Promise<SignedIn>, wallet: Wallet | undefined): Promise<ClientSession> {
    await this.#loggingOut
    const [signedIn, walletId] = await Promise.all([signIn(), this.#findWalletId(wallet)])
    await this.#waitUntilSettled()
    const session = await startSession(this.#setting, this.#keeper, { ...signedIn, walletId })
    this.#loading = Promise.resolve()
    this.useWallet(wallet)
    return session
  }

  /** Loads the requests to the routes for logged-in users. */
  async #loadCalls(): Promise<SessionCalls> {
    const { createCalls } = await loadCode(() => import('./calls.js'))
    await this.#load()
    return (this.#calls ??= createCalls(this.#setting, this))
  }

  #withWallet<T extends Pick<LogInOptions, 'wallet'>>(options: T): T {
    return { ...options, wallet: options.wallet ?? this.#wallet ?? browser.ethereum }
  }

  /** Restores the wallet of the login after a reload, also if the wallet announces itself later. */
  async #findWallet(): Promise<void> {
    const { record } = this.#keeper
    if (!record?.walletId || this.#wallet) return
    const { findWallet } = await import('./known-wallets.js')
    await findWallet(record.walletId, record, (wallet) => {
      if (!this.#wallet) this.useWallet(wallet)
    })
  }

  /** Finds the id by which a reload restores the wallet. A login succeeds without it. */
  async #findWalletId(wallet: Wallet | undefined): Promise<string | undefined> {
    if (!wallet || this.#setting.storage.isPrivate) return undefined
    return import('./known-wallets.js').then(({ findWalletId }) => findWalletId(wallet)).catch(() => undefined)
  }
}

/** Reads the error code of a 401 response; empty for other statuses. */
async function read401Code(response: Response): Promise<string> {
  return response.status === 401 ? String(parseFields(parseJson(await response.clone().text())).code) : ''
}

import { browser } from './browser.js'
import { CHALLENGE, CROSS_ORIGIN, NOT_SIGNED_IN, REFUSED } from './error-codes.js'
import type { DidAuthClientError } from './errors.js'
import { parseServiceUrl, readAll, readText, type Answer, type PlainErrorKind, type Service } from './request.js'
import { local, memory, type ClientStorage } from './storage.js'
import type { ClientClock } from './timing.js'
import type { Wallet } from './wallet.js'

/** Paths of the service's routes, by default those of a service with default options. */
const defaultPaths = {
  requestAuth: '/request-auth',
  auth: '/auth',
  refreshToken: '/refresh-token',
  logout: '/logout',
  session: '/session',
  sessions: '/sessions'
}

/** What the service's codes mean, by their beginnings. */
const meanings = [
  [/^ERR_(CHALLENGE|SIGNATURE|MESSAGE$)/, CHALLENGE],
  [/^ERR_(CROSS|MESSAGE_)/, CROSS_ORIGIN],
  [/^ERR_(ACCESS|SESSION_E)/, NOT_SIGNED_IN],
  [/^ERR_(BUSINESS|CONTRACT|CREDENTIAL|DI[DS]|NETWORK)/, REFUSED]
] as const

function findErrorKind(status: number, code = '', answer: Answer): PlainErrorKind | undefined {
  const [, kind] = (status < 500 && meanings.find(([codes]) => codes.test(code))) || []
  // The text of business logic is written for users.
  return kind === REFUSED ? [REFUSED[0], readText(answer, 'title')?.slice(0, 200) ?? REFUSED[1]] : kind
}

export type ClientPaths = Readonly<typeof defaultPaths> & {
  /** `/request-signup` when absent. */
  readonly requestSignup?: string | undefined
  /** `/signup` when absent. */
  readonly signup?: string | undefined
  /** `/resource-token` when absent. */
  readonly resourceToken?: string | undefined
  /** `/siwe/nonce` when absent. */
  readonly siweNonce?: string | undefined
  /** `/siwe/verify` when absent. */
  readonly siweVerify?: string | undefined
}

/** `login` is this protocol's own text of two lines, `siwe` that of EIP-4361, for a service with `siwe`. */
export type SignInText = 'login' | 'siwe'

export interface LogInOptions {
  /** In place of the client's own. */
  readonly wallet?: Wallet | undefined
  /** Which text to sign, in place of the client's own. */
  readonly message?: SignInText | undefined
  /** Ends the login; a window that the wallet has open stays open. */
  readonly signal?: AbortSignal | undefined
}

/** A claim of the user, as sign up sends it. */
export interface ClientClaim {
  readonly claimType: string
  readonly claimValue: string
}

/** What the service asks for at sign up. */
export interface DisclosureRequest {
  /** The service's DID. */
  readonly issuer: string
  /** Schemas of credentials. */
  readonly credentials: readonly string[]
  readonly claims: readonly (ClientClaim & { readonly essential?: boolean; readonly reason?: string })[]
  /** The request as it came, signed by the service. */
  readonly jwt: string
}

/** Credentials (compact JWTs) and claims to sign up with. */
export interface Disclosure {
  readonly credentials?: readonly string[]
  readonly claims?: readonly ClientClaim[]
}

export interface SignUpOptions extends Omit<LogInOptions, 'message'>, Disclosure {
  /** Picks what to answer with. Called where the service asks for something. */
  readonly onDisclosure?: ((request: DisclosureRequest) => Disclosure | Promise<Disclosure>) | undefined
}

export interface DidAuthClientOptions {
  /** Where the service's routes are: `https://api.example.com` or, on a page, `/auth`. */
  readonly url: string
  /** What signs. `logIn` may be given another; without any, the browser's `window.ethereum` does. */
  readonly wallet?: Wallet | undefined
  /** Network of the DID: `rsk` when absent, `rsk:testnet`, a hex chain id, empty: Ethereum; `chain` asks the wallet. */
  readonly network?: string | undefined
  /** Which text the wallet signs to log in: `login` when absent. A sign up always has this protocol's own. */
  readonly message?: SignInText | undefined
  /**
   * What stands after `Login to `: the host of `url` when absent. In an EIP-4361 text the site that asks: the host of
   * the page when absent, else that of `url`.
   */
  readonly domain?: string | undefined
  /**
   * The service's own `serviceUrl`, where `url` is another address of it, such as a proxy's. It is the `URI` of an
   * EIP-4361 text; `url` when absent. The service has to accept its host.
   */
  readonly serviceUrl?: string | undefined
  /** A line for people in an EIP-4361 text. None when absent. */
  readonly statement?: string | undefined
  /** How tokens travel: `cookie` where the service has `useCookies`; `header` when absent. */
  readonly mode?: 'header' | 'cookie' | undefined
  /** `memory()` when absent; in cookie mode `local()`, which then holds no token. */
  readonly storage?: ClientStorage | undefined
  /** Further origins that get the access token. */
  readonly origins?: readonly string[] | undefined
  /** The service's paths, where they are not the usual ones. */
  readonly paths?: Partial<ClientPaths> | undefined
  /** What every sign up starts from. */
  readonly signUp?: Omit<SignUpOptions, 'signal'> | undefined
  /** What to do when the user changes the account in the wallet: default `signOut`. Locking it is not a change. */
  readonly onAccountChange?: 'signOut' | 'ignore' | undefined
  /** Called when the session has ended, here, in another tab or at the service. */
  readonly onSignedOut?: ((error: DidAuthClientError<'SESSION_ENDED'>) => void) | undefined
  /** The global one when absent. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** The machine's when absent. For tests. */
  readonly clock?: ClientClock | undefined
}

/** The options, complete. */
export interface Setting
  extends
    Service,
    Pick<DidAuthClientOptions, 'network' | 'message' | 'domain' | 'serviceUrl' | 'statement'>,
    Pick<DidAuthClientOptions, 'signUp' | 'onAccountChange' | 'onSignedOut'> {
  /** `did-auth:<url>`: names the storage's keys, the lock and the channel. */
  readonly name: string
  readonly fetch: typeof globalThis.fetch
  readonly storage: ClientStorage
  /** Monotonic: it measures how long a token has been here. */
  readonly nowSeconds: () => number
  /** Of the wall clock, which all tabs share. */
  readonly wallSeconds: () => number
  /** Whether all tabs have one session, because they have one set of cookies; else each DID has a record of its own. */
  readonly usesCookies: boolean
  readonly origins: ReadonlySet<string>
  readonly paths: ClientPaths
  /** The text after `Login to `. */
  readonly loginDomain: string
}

/** @throws TypeError when `url` or one of `origins` is no URL with http or https */
export function completeOptions(options: DidAuthClientOptions): Setting {
  const url = parseServiceUrl(new URL(options.url, browser.location?.href).href)
  const usesCookies = options.mode === 'cookie'
  const { clock } = options
  return {
    ...options,
    url,
    name: `did-auth:${url}`,
    // A browser's fetch works on its window alone.
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    nowSeconds: () => clock?.nowSeconds() ?? performance.now() / 1000,
    wallSeconds: () => clock?.nowSeconds() ?? Date.now() / 1000,
    usesCookies,
    // Tokens and signatures go nowhere else.
    init: { redirect: 'manual', ...(usesCookies && { credentials: 'include' }) },
    timeoutSeconds: 8,
    findErrorKind,
    read: readAll,
    storage: options.storage ?? (usesCookies ? local() : memory()),
    origins: new Set([url, ...(options.origins ?? [])].map((one) => new URL(parseServiceUrl(one)).origin)),
    paths: { ...defaultPaths, ...options.paths },
    loginDomain: options.domain ?? new URL(url).host
  }
}

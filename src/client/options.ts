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

/** Kinds of errors by the beginning of the service's code. */
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
  /** Wallet of this login. Default: the client's wallet. */
  readonly wallet?: Wallet | undefined
  /** Kind of text to sign. Default: the client's option. */
  readonly message?: SignInText | undefined
  /** Ends the login; a window that the wallet has open stays open. */
  readonly signal?: AbortSignal | undefined
}

/** A claim of the user, as sign up sends it. */
export interface ClientClaim {
  readonly claimType: string
  readonly claimValue: string
}

/** Claims and credentials that the service requests at sign up. */
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
  /** Picks the claims and credentials to send. Called if the service requests any. */
  readonly onDisclosure?: ((request: DisclosureRequest) => Disclosure | Promise<Disclosure>) | undefined
}

export interface DidAuthClientOptions {
  /** URL of the service's routes: `https://api.example.com` or, on a page, `/auth`. */
  readonly url: string
  /** Wallet that signs, unless `logIn` is given another. Default: the browser's `window.ethereum`. */
  readonly wallet?: Wallet | undefined
  /** Network of the DID: `rsk` when absent, `rsk:testnet`, a hex chain id, empty: Ethereum; `chain` asks the wallet. */
  readonly network?: string | undefined
  /** Kind of text that the wallet signs to log in. Default: `login`. A sign up always uses this protocol's own text. */
  readonly message?: SignInText | undefined
  /**
   * Domain after `Login to `: the host of `url` when absent. In an EIP-4361 text the site that asks: the host of
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
  /** Transport of tokens: `cookie` if the service has `useCookies`. Default: `header`. */
  readonly mode?: 'header' | 'cookie' | undefined
  /** `memory()` when absent; in cookie mode `local()`, which then holds no token. */
  readonly storage?: ClientStorage | undefined
  /** Further origins that get the access token. */
  readonly origins?: readonly string[] | undefined
  /** The service's paths, where they are not the usual ones. */
  readonly paths?: Partial<ClientPaths> | undefined
  /** Default options of every sign up. */
  readonly signUp?: Omit<SignUpOptions, 'signal'> | undefined
  /** Reaction to another account in the wallet. Default: `signOut`. Locking the wallet is not a change. */
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
  /** Seconds of the wall clock, which all tabs share. */
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
    // A browser's fetch works only as a method of its window.
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

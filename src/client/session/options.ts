import { browser, type DeviceKeyPair } from '../wire/browser.js'
import { CHALLENGE, CROSS_ORIGIN, DUPLICATE_COOKIE, NOT_SIGNED_IN, REFUSED } from '../wire/error-codes.js'
import type { DidAuthClientError } from '../wire/errors.js'
import { parseServiceUrl, readAll, readText, type Answer, type PlainErrorKind, type Service } from '../wire/request.js'
import { local, memory, type ClientStorage } from './storage.js'
import type { ClientClock } from '../wire/timing.js'
import type { Wallet } from '../wallets/wallet.js'

/** Route paths of a service with default options. */
const defaultPaths = {
  requestAuth: '/request-auth',
  auth: '/auth',
  refreshToken: '/refresh-token',
  logout: '/logout',
  session: '/session'
}

/** Errors by the prefix of the service's code. */
const meanings = [
  [/^ERR_(CHALLENGE|SIGNATURE|MESSAGE$)/, CHALLENGE],
  [/^ERR_(CROSS|DEVICE_P|MESSAGE_)/, CROSS_ORIGIN],
  [/^ERR_(ACCESS|SESSION_E)/, NOT_SIGNED_IN],
  [/^ERR_DUP/, DUPLICATE_COOKIE],
  [/^ERR_(BUSINESS|CONTRACT|CREDENTIAL|DI[DS]|NETWORK)/, REFUSED]
] as const

function findErrorKind(status: number, code = '', answer: Answer): PlainErrorKind | undefined {
  const [, kind] = (status < 500 && meanings.find(([codes]) => codes.test(code))) || []
  const address = /^ERR_(CHALLENGE$|MESSAGE_)/.test(code) && findAddress(answer)
  if (kind && address) return [kind[0], `${kind[1]} Or open ${address}.`]
  // Business logic of the service writes its text for users.
  return kind === REFUSED ? [REFUSED[0], readText(answer, 'title')?.slice(0, 200) ?? REFUSED[1]] : kind
}

/**
 * Returns the address to open if the page reached its service at another host than that of `serviceUrl`. The client
 * cannot know whether the service accepts that host, too.
 */
function findAddress({ response: { headers, url } }: Answer): string | false | undefined {
  const [, address, host] = /realm="(\w+:\/\/([^"/]+))/.exec(String(headers.get('WWW-Authenticate'))) ?? []
  const pageHost = browser.location?.host
  return pageHost && host !== pageHost && pageHost === url.split('/')[2] && address
}

/** Paths of the service's routes, which begin with a slash. */
export type ClientPaths = Readonly<typeof defaultPaths> & {
  /** Default: `/request-signup`. */
  readonly requestSignup?: string | undefined
  /** Default: `/signup`. */
  readonly signup?: string | undefined
  /** Default: `/sessions`. */
  readonly sessions?: string | undefined
  /** Default: `/resource-token`. */
  readonly resourceToken?: string | undefined
  /** Default: `/siwe/nonce`. */
  readonly siweNonce?: string | undefined
  /** Default: `/siwe/verify`. */
  readonly siweVerify?: string | undefined
}

/** `login` is the two-line text of this protocol. `siwe` is the text of EIP-4361, for a service with `siwe`. */
export type SignInText = 'login' | 'siwe'

/** Options of one login. */
export interface LogInOptions {
  /** Wallet of this login. Default: the client's wallet. */
  readonly wallet?: Wallet | undefined
  /** Kind of text to sign. Default: the client's option. */
  readonly message?: SignInText | undefined
  /** Aborts the login, unless another call shares it. A window that the wallet has opened stays open. */
  readonly signal?: AbortSignal | undefined
}

/** A claim that the user makes at sign up. */
export interface ClientClaim {
  /** Name of the claim, such as `email`. */
  readonly claimType: string
  /** Value that the user states. The service cannot verify it. */
  readonly claimValue: string
}

/** Claims and credentials that the service requests at sign up. */
export interface DisclosureRequest {
  /** The service's DID. */
  readonly issuer: string
  /** Schemas of the requested credentials. */
  readonly credentials: readonly string[]
  /** Requested claims. `essential`: the sign up needs the claim. `reason`: text for the user. */
  readonly claims: readonly (ClientClaim & { readonly essential?: boolean; readonly reason?: string })[]
  /** The original request, signed by the service. */
  readonly jwt: string
}

/** Credentials (compact JWTs) and claims to sign up with. */
export interface Disclosure {
  /** At most 20, of 16 KiB each. Default: none. */
  readonly credentials?: readonly string[]
  /** At most 50. Default: none. */
  readonly claims?: readonly ClientClaim[]
}

/** Options of one sign up. */
export interface SignUpOptions extends Omit<LogInOptions, 'message'>, Disclosure {
  /** Chooses the claims and credentials to send. Called if the service requests any. */
  readonly onDisclosure?: ((request: DisclosureRequest) => Disclosure | Promise<Disclosure>) | undefined
}

/** Options of a client. Only `url` is required. */
export interface DidAuthClientOptions {
  /** URL of the service's routes: `https://api.example.com` or, on a page, `/auth`. */
  readonly url: string
  /** Wallet that signs, unless `logIn` gets another one. Default: the browser's `window.ethereum`. */
  readonly wallet?: Wallet | undefined
  /** Network of the DID: `rsk` (default), `rsk:testnet`, a hex chain id, empty: Ethereum, or `chain`: the wallet's. */
  readonly network?: string | undefined
  /** Kind of text that the wallet signs to log in. Default: `login`. Sign up always uses the text of this protocol. */
  readonly message?: SignInText | undefined
  /**
   * Domain after `Login to `. Default: the host of `url`. In an EIP-4361 text, it is the requesting site. Default: the
   * host of the page, or without a page the host of `url`.
   */
  readonly domain?: string | undefined
  /**
   * The `serviceUrl` of the service, if `url` is another address of it, such as a proxy's or an internal one. It
   * becomes the `URI` of an EIP-4361 text, and device proofs have its origin. The service must accept its host.
   * Default: `url`.
   */
  readonly serviceUrl?: string | undefined
  /** Line for the user in an EIP-4361 text. Default: none. */
  readonly statement?: string | undefined
  /** Transport of tokens: `cookie` if the service has `useCookies`. Default: `header`. */
  readonly mode?: 'header' | 'cookie' | undefined
  /** Default: `memory()`; in cookie mode `local()`, which then contains no token. */
  readonly storage?: ClientStorage | undefined
  /**
   * Binds sessions to this device by a key that cannot be copied (RFC 9449), if the service has `deviceBinding`. `true`
   * creates a key per user: in IndexedDB, or for this client object in Node and with a private storage. A given pair
   * (ECDSA, P-256) is not stored.
   */
  readonly deviceKey?: boolean | DeviceKeyPair | undefined
  /** Further origins to which the access token is sent. */
  readonly origins?: readonly string[] | undefined
  /** Paths that the service has changed from the defaults. */
  readonly paths?: Partial<ClientPaths> | undefined
  /** Default options of every sign up. */
  readonly signUp?: Omit<SignUpOptions, 'signal'> | undefined
  /** Reaction to another account in the wallet. Default: `signOut`. Locking the wallet does not count as a change. */
  readonly onAccountChange?: 'signOut' | 'ignore' | undefined
  /** Called when the session has ended: here, in another tab or at the service. */
  readonly onSignedOut?: ((error: DidAuthClientError<'SESSION_ENDED'>) => void) | undefined
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Clock for tests. Default: the machine's clock. */
  readonly clock?: ClientClock | undefined
}

/** State of the device binding of a client object. */
export interface DeviceState {
  /** The newest nonce of the service for proofs. Undefined if the service does not bind sessions. */
  nonce?: string | undefined
  /** Keys of users by name, if they belong to the client object. */
  keys?: Map<string, DeviceKeyPair>
}

/** The complete settings of a client. */
export interface Setting
  extends
    Service,
    Pick<DidAuthClientOptions, 'network' | 'message' | 'domain' | 'serviceUrl' | 'statement'>,
    Pick<DidAuthClientOptions, 'signUp' | 'onAccountChange' | 'onSignedOut' | 'deviceKey'> {
  /** State of the device binding. */
  readonly device: DeviceState
  /** `did-auth:<url>`, the name of the storage keys, the lock and the channel. */
  readonly name: string
  readonly fetch: typeof globalThis.fetch
  readonly storage: ClientStorage
  readonly timeoutSeconds: number
  /** Seconds of a monotonic clock, which measures the age of tokens. */
  readonly nowSeconds: () => number
  /** Seconds of the wall clock, which all tabs share. */
  readonly wallSeconds: () => number
  /** Whether tokens are in cookies, so that all tabs share one session. In header mode, each DID has its own record. */
  readonly usesCookies: boolean
  readonly origins: ReadonlySet<string>
  readonly paths: ClientPaths
  /** The text after `Login to `. */
  readonly loginDomain: string
}

/** Completes the options with defaults. @throws TypeError if `url` or one of `origins` is not an http(s) URL */
export function completeOptions(options: DidAuthClientOptions): Setting {
  const url = parseServiceUrl(new URL(options.url, browser.location?.href).href)
  const usesCookies = options.mode === 'cookie'
  const { clock } = options
  const device: DeviceState = {}
  return {
    ...options,
    url,
    name: `did-auth:${url}`,
    // A browser's `fetch` works only as a method of `window`.
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    nowSeconds: () => clock?.nowSeconds() ?? performance.now() / 1000,
    wallSeconds: () => clock?.nowSeconds() ?? Date.now() / 1000,
    usesCookies,
    // Following a redirect would send tokens and signatures to another server.
    init: { redirect: 'manual', ...(usesCookies && { credentials: 'include' }) },
    timeoutSeconds: 8,
    findErrorKind,
    device,
    read(response) {
      device.nonce = response.headers.get('DPoP-Nonce') ?? device.nonce
      return readAll(response)
    },
    storage: options.storage ?? (usesCookies ? local() : memory()),
    origins: new Set([url, ...(options.origins ?? [])].map((origin) => new URL(parseServiceUrl(origin)).origin)),
    paths: { ...defaultPaths, ...options.paths },
    loginDomain: options.domain ?? new URL(url).host
  }
}

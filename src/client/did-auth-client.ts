import { NotSignedInError, type SessionEndedError } from './errors.js'
import type { ClientClock } from './timing.js'
import type { Wallet } from './wallet.js'

/** Whose session the client has. */
export interface ClientSession {
  readonly did: string
  readonly sessionId: string
  /** When the access token ends, in whole seconds by the service's clock. The session lasts longer. */
  readonly expiresAt: number
}

/** Where the client keeps its session: `memory()`, `local()`, `session()`, `indexedDb()`, or one of your own. */
export interface ClientStorage {
  get(key: string): Promise<string | null | undefined> | string | null | undefined
  set(key: string, value: string): unknown
  delete(key: string): unknown
  /** Runs one after the other what is given for a name, by all who share the storage. */
  lock?<T>(name: string, run: () => Promise<T>): Promise<T>
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

export interface LogInOptions {
  /** In place of the client's. */
  readonly wallet?: Wallet | undefined
  readonly signal?: AbortSignal | undefined
}

export interface SignUpOptions extends LogInOptions, Disclosure {
  /** Picks what to answer with, given what the service asks for. Asked where the service asks for something. */
  readonly onDisclosure?: (request: DisclosureRequest) => Disclosure | Promise<Disclosure>
}

/** One of the user's sessions, times in whole seconds. */
export interface ListedSession {
  readonly sessionId: string
  readonly createdAt: number
  readonly refreshedAt: number
  readonly expiresAt: number
  readonly isCurrent: boolean
}

export interface DidAuthClientOptions {
  /** Where the service's routes are, as in `https://api.example.com` or `https://example.com/auth`. */
  readonly url: string
  /** What signs. Without it, `logIn` takes one, or the browser's `window.ethereum`. */
  readonly wallet?: Wallet
  /** Network of the DID: `rsk`, `rsk:testnet`, a hex chain id, empty for Ethereum. The wallet's chain when absent. */
  readonly network?: string
  /** What stands after `Login to `. The host of `url` when absent. */
  readonly domain?: string
  /** How tokens travel, as the service does it: `cookie` for `useCookies`. `header` when absent. */
  readonly mode?: 'header' | 'cookie'
  /** `memory()` when absent; in cookie mode `local()`, which then holds no token. */
  readonly storage?: ClientStorage
  /** Further origins that get the access token. */
  readonly origins?: readonly string[]
  /** What every `signUp` starts from. */
  readonly signUp?: Omit<SignUpOptions, 'signal'>
  /** What a change of the account in the wallet does: `signOut` when absent. */
  readonly onAccountChange?: 'signOut' | 'ignore'
  /** Called when a session has ended, whatever ended it. */
  readonly onSignedOut?: (error: SessionEndedError) => void
  /** The global one when absent. */
  readonly fetch?: typeof globalThis.fetch
  readonly clock?: ClientClock
}

/** The client of one service. */
export class DidAuthClient {
  /** The service's URL, without a slash at its end. */
  readonly url: string
  /** Resolves when what the storage, or in cookie mode the service, knows of a session has been read. */
  readonly ready: Promise<void> = Promise.resolve()

  constructor(options: DidAuthClientOptions) {
    this.url = options.url.replace(/\/+$/, '')
  }

  get session(): ClientSession | undefined {
    return undefined
  }

  /** @returns what ends the subscription */
  subscribe(_listener: (session: ClientSession | undefined) => void): () => void {
    return () => undefined
  }

  async logIn(_options: LogInOptions = {}): Promise<ClientSession> {
    throw new NotSignedInError()
  }

  async signUp(_options: SignUpOptions = {}): Promise<ClientSession> {
    throw new NotSignedInError()
  }

  async prepare(_address: string): Promise<void> {
    throw new NotSignedInError()
  }

  async fetch(_input: string | URL | Request, _init?: RequestInit): Promise<Response> {
    throw new NotSignedInError()
  }

  async sessions(): Promise<ListedSession[]> {
    throw new NotSignedInError()
  }

  async revoke(_sessionId: string): Promise<void> {
    throw new NotSignedInError()
  }

  async logOut(): Promise<void> {
    throw new NotSignedInError()
  }
}

/**
 * The client of a service of this package, for browsers and Node: it logs in with a wallet, keeps the session, and
 * sends requests with it. It needs no other package.
 */
export type { AuthorizedInit, RefusedRequest } from './approve-request.js'
export { DidAuthClient, type ListedSession } from './did-auth-client.js'
export * from './errors.js'
export type { ClientClaim, ClientPaths, DidAuthClientOptions, Disclosure, DisclosureRequest } from './options.js'
export type { LogInOptions, SignInText, SignUpOptions } from './options.js'
export type { ClientSession } from './session-keeper.js'
export type { SignedSiwe, SiweLogin } from './siwe-login.js'
export type { SiweMessage } from '../protocol/format-siwe-message.js'
export { indexedDb, local, memory, session, type ClientStorage } from './storage.js'
export type { ClientClock } from './timing.js'
export { findWallets, type FoundWallet } from './wallet.js'
export type { Eip1193Provider, EthersSigner, PlainWallet, ViemAccount, ViemWalletClient, Wallet } from './wallet.js'

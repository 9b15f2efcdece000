/** Client of a service with express-did-auth, for browsers and Node. `siwe()` and passkeys load `@noble/hashes`. */
export type { AuthorizedInit, RefusedRequest } from './session/approve-request.js'
export { DidAuthClient } from './session/did-auth-client.js'
export type { ListedSession } from './session/calls.js'
export type { DeviceKeyPair } from './wire/browser.js'
export * from './wire/errors.js'
export type {
  ClientClaim,
  ClientPaths,
  DidAuthClientOptions,
  Disclosure,
  DisclosureRequest
} from './session/options.js'
export type { LogInOptions, SignInText, SignUpOptions } from './session/options.js'
export type { ClientSession } from './session/session-keeper.js'
export type { SignedSiwe, SiweLogin } from './session/siwe-login.js'
export type { SiweMessage } from '../protocol/format-siwe-message.js'
export { indexedDb, local, memory, session, type ClientStorage } from './session/storage.js'
export type { ClientClock } from './wire/timing.js'
export type { FindWalletsOptions, FoundWallet } from './wallets/find-wallets.js'
export { findWallets } from './wallets/wallet.js'
export type { Eip1193Provider, EthersSigner, PlainWallet, Wallet } from './wallets/wallet.js'
export type { ViemAccount, ViemClient, ViemWalletClient } from './wallets/wallet.js'

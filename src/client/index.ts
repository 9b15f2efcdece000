/**
 * The client of a service of this package, for browsers and Node: login, refresh and requests.
 */
export * from './did-auth-client.js'
export * from './errors.js'
export type { ClientClock } from './timing.js'
export type { EthersSigner, Eip1193Provider, PlainWallet, ViemAccount, Wallet } from './wallet.js'

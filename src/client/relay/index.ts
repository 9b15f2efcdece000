/** The client of the relay: sends content that only holders of the link can read. */
export * from '../wire/errors.js'
export type { RelayLogin } from './log-in.js'
export * from './relay-client.js'
export type { EthersSigner, Eip1193Provider, PlainWallet, Wallet } from '../wallets/wallet.js'
export type { ViemAccount, ViemClient, ViemWalletClient } from '../wallets/wallet.js'

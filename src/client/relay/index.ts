/** The client of the relay: sends content that only the holder of the link can read. */
export * from '../errors.js'
export type { RelayLogin } from './log-in.js'
export * from './relay-client.js'
export type { EthersSigner, Eip1193Provider, PlainWallet, ViemAccount, ViemWalletClient, Wallet } from '../wallet.js'

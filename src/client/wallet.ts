import { NoWalletError, UserRejectedError, WalletBusyError, WalletError } from './errors.js'
import { isText, parseFields } from './json.js'
import { unlessAborted } from './timing.js'

/** A browser wallet, or any other provider of EIP-1193. */
export interface Eip1193Provider {
  request(args: { method: string; params?: readonly unknown[] }): Promise<unknown>
  on?(event: string, listener: (value: never) => void): unknown
}

/** A signer of ethers. Its chain is not asked for: without a network the DID is of `rsk`. */
export interface EthersSigner {
  getAddress(): Promise<string>
  signMessage(message: string): Promise<string>
}

/** A local account of viem, as `privateKeyToAccount` makes it. */
export interface ViemAccount {
  readonly type: 'local'
  readonly address: string
  signMessage(args: { message: string }): Promise<string>
}

/** Any other wallet. */
export interface PlainWallet {
  readonly type?: undefined
  readonly address: string
  readonly chainId?: number
  signMessage(text: string): Promise<string> | string
}

/** What signs: all kinds of wallets that the clients accept. */
export type Wallet = Eip1193Provider | EthersSigner | ViemAccount | PlainWallet

/** A wallet with the account that it signs with. */
export interface ConnectedWallet {
  /** Of the account. */
  readonly did: string
  /**
   * Signs by `personal_sign` (EIP-191).
   *
   * @returns `0x` and 65 bytes in hex
   * @throws UserRejectedError, WalletBusyError, WalletError, or the signal's reason
   */
  readonly signMessage: (text: string) => Promise<string>
}

const networks: Readonly<Record<number, string>> = { 1: '', 30: 'rsk', 31: 'rsk:testnet' }

/**
 * Asks a wallet for its account, which makes a browser wallet ask the user.
 *
 * @param network - as in {@link didOfAccount}
 * @param signal - ends every wait; the wallet's own window stays open
 * @throws NoWalletError without wallet or account; UserRejectedError, WalletBusyError, WalletError, or the signal's reason
 */
export async function connectWallet(
  wallet: Wallet | undefined,
  network?: string,
  signal?: AbortSignal
): Promise<ConnectedWallet> {
  if (!wallet) throw new NoWalletError()
  const { address, sign } = await ask(() => openWallet(wallet), signal)
  if (!address) throw new NoWalletError({ message: 'No account' })
  return {
    did: await didOfAccount(wallet, parseHex(address, 40, 'address'), network, signal),
    signMessage: async (text) => parseHex(await ask(() => sign(text), signal), 130, 'signature of 65 bytes')
  }
}

/**
 * The DID of an account.
 *
 * @param wallet - asked for its chain where no network is given; it asks the user for nothing
 * @param network - `rsk`, `rsk:testnet`, a hex chain id, or empty for Ethereum. When absent, the wallet's chain decides: 30
 * is `rsk`, 31 `rsk:testnet`, 1 none, another its hex number; where no chain is known it is `rsk`
 * @throws WalletError, or the signal's reason
 */
export async function didOfAccount(
  wallet: Wallet | undefined,
  address: string,
  network?: string,
  signal?: AbortSignal
): Promise<string> {
  const known = network ?? (wallet ? await networkOf(wallet, signal) : 'rsk')
  return `did:ethr:${known && `${known}:`}${address.toLowerCase()}`
}

/** Calls a function with each account, in lower case, that the user changes to in the wallet. */
export function onAccount(wallet: Wallet, listener: (address: string) => void): void {
  if (!('on' in wallet)) return
  wallet.on('accountsChanged', (accounts: unknown) => {
    const { 0: address } = parseFields(accounts)
    // A wallet that is locked has no account, and its user is the same.
    if (isText(address)) listener(address.toLowerCase())
  })
}

/** From `eth_chainId` comes a hex text, from other wallets a number. */
async function networkOf(wallet: Wallet, signal: AbortSignal | undefined): Promise<string> {
  const isProvider = 'request' in wallet
  const known = isProvider ? () => wallet.request({ method: 'eth_chainId' }) : () => parseFields(wallet).chainId
  const chainId = await ask(known, signal)
  if (chainId === undefined) return 'rsk'
  const number = Number(chainId)
  if (!(number > 0)) throw unusable('chain id')
  return networks[number] ?? `0x${number.toString(16)}`
}

interface OpenWallet {
  address: unknown
  sign: (text: string) => unknown
}

async function openWallet(wallet: Wallet): Promise<OpenWallet> {
  if ('request' in wallet) {
    const { 0: address } = parseFields(await wallet.request({ method: 'eth_requestAccounts' }))
    const hex = (text: string): string => `0x${hexOf(new TextEncoder().encode(text))}`
    return { address, sign: (text) => wallet.request({ method: 'personal_sign', params: [hex(text), address] }) }
  }
  if (!('getAddress' in wallet) && wallet.type === 'local') {
    return { address: wallet.address, sign: (message) => wallet.signMessage({ message }) }
  }
  const address = 'getAddress' in wallet ? await wallet.getAddress() : wallet.address
  return { address, sign: (text) => wallet.signMessage(text) }
}

/** Calls the wallet, and tells what its failures mean. */
async function ask<T>(call: () => T, signal: AbortSignal | undefined): Promise<Awaited<T>> {
  try {
    return await unlessAborted((async () => call())(), signal)
  } catch (cause) {
    signal?.throwIfAborted()
    if (cause instanceof WalletError) throw cause
    // Libraries put the wallet's own error into theirs.
    const { code, cause: inner, info } = parseFields(cause)
    const codes = [code, parseFields(inner).code, parseFields(parseFields(info).error).code]
    if (codes.includes(4001) || codes.includes('ACTION_REJECTED')) throw new UserRejectedError({ cause })
    if (codes.includes(-32002)) throw new WalletBusyError({ cause })
    throw new WalletError({ cause })
  }
}

/** @throws WalletError for what is not `0x` and so many digits */
function parseHex(value: unknown, digits: number, what: string): string {
  if (isText(value) && value.length === digits + 2 && /^0x[0-9a-f]+$/i.test(value)) return value
  throw unusable(what)
}

function unusable(expected: string): WalletError {
  return new WalletError({ message: `No ${expected} from the wallet` })
}

/** Two digits a byte. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

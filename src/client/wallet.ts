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
  /** `0x` and 40 hex digits, lower case. */
  readonly address: string
  readonly chainId: number | undefined
  /**
   * Signs by `personal_sign` (EIP-191).
   *
   * @returns `0x` and 65 bytes in hex
   * @throws UserRejectedError, WalletBusyError, WalletError, or the signal's reason
   */
  signMessage(text: string, signal?: AbortSignal): Promise<string>
}

const networks: Readonly<Record<number, string>> = { 1: '', 30: 'rsk', 31: 'rsk:testnet' }

/**
 * Asks a wallet for its account, which makes a browser wallet ask the user, and for its chain.
 *
 * @param signal - ends the wait; the wallet's own window stays open
 * @throws NoWalletError without wallet or account; UserRejectedError, WalletBusyError, WalletError, or the signal's reason
 */
export async function connectWallet(wallet: Wallet | undefined, signal?: AbortSignal): Promise<ConnectedWallet> {
  if (!wallet) throw new NoWalletError()
  const { address, chainId, sign } = await ask(() => openWallet(wallet), signal)
  if (!address) throw new NoWalletError({ message: 'No account' })
  if (!isHex(address, 40)) throw unusable('address')
  return {
    address: address.toLowerCase(),
    chainId: parseChainId(chainId),
    async signMessage(text, signal) {
      const signature = await ask(() => sign(text), signal)
      if (!isHex(signature, 130)) throw unusable('signature of 65 bytes')
      return signature
    }
  }
}

/**
 * The DID of an account.
 *
 * @param network - `rsk`, `rsk:testnet`, a hex chain id, or empty for Ethereum. When absent, the wallet's chain decides: 30
 * is `rsk`, 31 `rsk:testnet`, 1 none, another its hex number; where no chain is known it is `rsk`
 */
export function didOfWallet(
  { address, chainId }: Pick<ConnectedWallet, 'address'> & { readonly chainId?: number | undefined },
  network?: string
): string {
  const known = network ?? (chainId === undefined ? 'rsk' : (networks[chainId] ?? `0x${chainId.toString(16)}`))
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

/** The chain that a wallet is on, where it knows one. It asks the user for nothing. */
export async function chainIdOf(wallet: Wallet): Promise<number | undefined> {
  const isProvider = 'request' in wallet
  const known = isProvider ? () => wallet.request({ method: 'eth_chainId' }) : () => parseFields(wallet).chainId
  return parseChainId(await ask(known, undefined))
}

interface OpenWallet {
  address: unknown
  chainId?: unknown
  sign: (text: string) => unknown
}

async function openWallet(wallet: Wallet): Promise<OpenWallet> {
  if ('request' in wallet) {
    const accounts = await wallet.request({ method: 'eth_requestAccounts' })
    const { 0: address } = parseFields(accounts)
    return {
      address,
      chainId: await wallet.request({ method: 'eth_chainId' }),
      sign: (text) =>
        wallet.request({ method: 'personal_sign', params: [`0x${hexOf(new TextEncoder().encode(text))}`, address] })
    }
  }
  if ('getAddress' in wallet) {
    return { address: await wallet.getAddress(), sign: (text) => wallet.signMessage(text) }
  }
  if (wallet.type === 'local') return { address: wallet.address, sign: (message) => wallet.signMessage({ message }) }
  return { address: wallet.address, chainId: wallet.chainId, sign: (text) => wallet.signMessage(text) }
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

/** From `eth_chainId` a hex text, from other wallets a number. */
function parseChainId(chainId: unknown): number | undefined {
  if (chainId === undefined || Number(chainId) > 0) return chainId === undefined ? chainId : Number(chainId)
  throw unusable('chain id')
}

function isHex(value: unknown, digits: number): value is string {
  return isText(value) && value.length === digits + 2 && /^0x[0-9a-f]+$/i.test(value)
}

function unusable(expected: string): WalletError {
  return new WalletError({ message: `No ${expected} from the wallet` })
}

/** Two digits a byte. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

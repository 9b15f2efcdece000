import type { Eip1193Provider } from './browser.js'
import { NO_WALLET, USER_REJECTED, WALLET, WALLET_BUSY } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import type { FindWalletsOptions, FoundWallet } from './find-wallets.js'
import { isText, parseFields } from './json.js'
import { mapToUnavailable } from './request.js'
import { encodeHex, utf8 } from './seal.js'
import { raceWithAbort } from './timing.js'

export type { Eip1193Provider }

/** A signer of ethers. */
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

/** A wallet client of viem: it signs with the account that it was made with. */
export interface ViemWalletClient {
  readonly account: { readonly address: string }
  signMessage(args: { message: string }): Promise<string>
}

/** A client of viem that signs through its transport, such as `getConnectorClient` of wagmi returns. */
export interface ViemClient {
  readonly account: { readonly address: string }
  request(args: never): Promise<unknown>
}

/** Any other wallet. */
export interface PlainWallet {
  readonly type?: undefined
  /** Name under which the client finds the wallet again after a reload. `createPasskey` and `openPasskey` set it. */
  readonly id?: string
  readonly address: string
  /** Id of the chain, for the network `chain`. */
  readonly chainId?: number
  signMessage(text: string): Promise<string> | string
}

/** All kinds of wallets that the clients accept. */
export type Wallet = Eip1193Provider | EthersSigner | ViemAccount | ViemWalletClient | ViemClient | PlainWallet

/** A wallet with the account that it signs with. */
export interface ConnectedWallet {
  readonly did: string
  /** The address as the wallet spells it. */
  readonly address: string
  /** Signs by `personal_sign` (EIP-191). @returns `0x` and 65 bytes in hex @throws as {@link askWallet} does */
  readonly signMessage: (text: string) => Promise<string>
}

const networks: Readonly<Record<number, string>> = { 1: '', 30: 'rsk', 31: 'rsk:testnet' }

/**
 * Asks a wallet for its account, which makes a browser wallet ask the user.
 *
 * @param network - as in {@link toAccountDid}
 * @param signal - ends every wait; the wallet's own window stays open
 * @throws DidAuthClientError NO_WALLET without wallet or account; USER_REJECTED, WALLET_BUSY, WALLET, or the signal's
 * reason; TypeError for a provider of ethers
 */
export async function connectWallet(wallet?: Wallet, network?: string, signal?: AbortSignal): Promise<ConnectedWallet> {
  if (!wallet) throw new DidAuthClientError(NO_WALLET)
  if ('getSigner' in wallet) throw TypeError('Give await getSigner()')
  const { address: account, sign } = await askWallet(() => openWallet(wallet), signal)
  if (!account) throw new DidAuthClientError(NO_WALLET)
  const address = parseHex(account, 40)
  return {
    did: await toAccountDid(wallet, address, network, signal),
    address,
    signMessage: async (text) => parseHex(await askWallet(() => sign(text), signal), 130)
  }
}

/**
 * The DID of an account.
 *
 * @param network - that of the DID, `rsk` when absent, whatever chain the wallet is on: each one is another user. With
 * `chain` the wallet is asked, without its user: 30 and unknown are `rsk`, 31 is `rsk:testnet`, 1 none, another its hex
 * @throws DidAuthClientError WALLET, or the signal's reason
 */
export async function toAccountDid(
  wallet: Wallet | undefined,
  address: string,
  network = 'rsk',
  signal?: AbortSignal
): Promise<string> {
  const chainId = network === 'chain' && (await fetchChainId(wallet, signal))
  const known = chainId ? (networks[chainId] ?? `0x${chainId.toString(16)}`) : network
  return `did:ethr:${known && `${known}:`}${address.toLowerCase()}`
}

/** Calls a function with each account, in lower case, that the user changes to in the wallet. */
export function watchAccount(wallet: Wallet, listener: (address: string) => void): void {
  // A provider of ethers has `on` without `request`, and knows no such event.
  if (!isProvider(wallet)) return
  wallet.on?.('accountsChanged', (accounts: unknown) => {
    const { 0: address } = parseFields(accounts)
    // A wallet that is locked has no account, and its user is the same.
    if (isText(address)) listener(address.toLowerCase())
  })
}

/** Returns the chain of a wallet, 30 if unknown. @throws DidAuthClientError WALLET, or the signal's reason */
export async function fetchChainId(wallet: Wallet | undefined, signal: AbortSignal | undefined): Promise<number> {
  // A provider answers a hex text, other wallets a number.
  const chainId = await askWallet(
    () => (isProvider(wallet) ? wallet.request({ method: 'eth_chainId' }) : parseFields(wallet).chainId),
    signal
  )
  const number = Number(chainId ?? 30)
  if (number > 0) return number
  throw new DidAuthClientError(WALLET)
}

/** The fields of all kinds of wallets that are not only a provider. */
interface Signer {
  readonly account?: Signer | undefined
  readonly type?: unknown
  readonly address?: unknown
  getAddress?(): unknown
  signMessage?(message: unknown): unknown
}

function isProvider(wallet: Wallet | undefined): wallet is Eip1193Provider {
  return !!wallet && 'request' in wallet
}

async function openWallet(wallet: Wallet): Promise<{ address: unknown; sign: (text: string) => unknown }> {
  // Whether a wallet of another kind can sign shows at its first call.
  const signer = wallet as unknown as Signer
  const { account, type, address } = signer
  // A client of viem without `signMessage` signs by its local account, or has its wallet sign.
  const source = signer.signMessage ? signer : (account ?? signer)
  if (isProvider(wallet) && !(account && source.signMessage)) {
    const { 0: first } = account
      ? [account.address]
      : parseFields(await wallet.request({ method: 'eth_requestAccounts' }))
    return {
      address: first,
      sign: (text) => wallet.request({ method: 'personal_sign', params: [`0x${encodeHex(utf8(text))}`, first] })
    }
  }
  const isViem = account ?? type === 'local'
  return {
    address: account?.address ?? address ?? (await signer.getAddress?.()),
    sign: (text) => source.signMessage?.(isViem ? { message: text } : text)
  }
}

/** Calls the wallet. @throws DidAuthClientError USER_REJECTED, WALLET_BUSY, WALLET, or the signal's reason */
export async function askWallet<T>(call: () => T, signal: AbortSignal | undefined): Promise<Awaited<T>> {
  try {
    return await raceWithAbort((async () => call())(), signal)
  } catch (cause) {
    signal?.throwIfAborted()
    if (cause instanceof DidAuthClientError) throw cause
    // Libraries put the wallet's own error into theirs.
    const { cause: inner, error, info } = parseFields(cause)
    const codes = [cause, inner, error, parseFields(info).error].map((one) => parseFields(one).code).join()
    // Codes of EIP-1193, of WalletConnect (CAIP-25), and of ethers.
    const kinds = [
      [/\b(4001|500[02])\b|_REJECTED/, USER_REJECTED],
      [/-32002/, WALLET_BUSY],
      [/\b4100\b/, [WALLET[0], 'Your wallet is not connected. Connect it, and try again.']]
    ] as const
    const [, kind = WALLET] = kinds.find(([one]) => one.test(codes)) ?? []
    throw new DidAuthClientError(kind, { cause })
  }
}

/** @throws DidAuthClientError WALLET for what is not `0x` and so many digits: 40 are an address, 130 a signature */
function parseHex(value: unknown, digits: number): string {
  const hex = String(value)
  if (hex.length === digits + 2 && /^0x[0-9a-f]+$/i.test(hex)) return hex
  throw new DidAuthClientError(WALLET, { message: 'No hex' })
}

/**
 * Asks the browser's wallets to announce themselves (EIP-6963). `window.ethereum` is last, unless it announced
 * itself. Without a browser there are none.
 *
 * @throws DidAuthClientError UNAVAILABLE where the code for it cannot be loaded
 * @see EIP-6963, "Announce and Request Events"
 * @example
 * const addWallet = ({ name, icon, provider }) => addButton(name, icon, () => auth.logIn({ wallet: provider }))
 * for (const wallet of await findWallets({ onLate: addWallet })) addWallet(wallet)
 */
export function findWallets(options: FindWalletsOptions = {}): Promise<FoundWallet[]> {
  return mapToUnavailable('findWallets', undefined, async () => {
    const { listWallets } = await import('./find-wallets.js')
    return listWallets(options)
  })
}

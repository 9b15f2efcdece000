import type { Eip1193Provider } from '../wire/browser.js'
import { NO_WALLET, WALLET } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { askWallet, isProvider } from './ask-wallet.js'
import type { FindWalletsOptions, FoundWallet } from './find-wallets.js'
import { isText, parseFields } from '../wire/json.js'
import { loadCode } from '../wire/request.js'
import { encodeHex, utf8 } from '../wire/seal.js'

export type { Eip1193Provider }

/** A signer of ethers. */
export interface EthersSigner {
  /** Returns the address of the account, `0x` and 40 hex digits. */
  getAddress(): Promise<string>
  /** Signs a text by `personal_sign`. The result is `0x` and hex. */
  signMessage(message: string): Promise<string>
}

/** A local account of viem, such as `privateKeyToAccount` returns. */
export interface ViemAccount {
  /** Mark of viem's accounts whose key is in this process. */
  readonly type: 'local'
  /** `0x` and 40 hex digits. */
  readonly address: string
  /** Signs a text by `personal_sign`. The result is `0x` and hex. */
  signMessage(args: { message: string }): Promise<string>
}

/** A wallet client of viem, which signs with its own account. */
export interface ViemWalletClient {
  /** Account that signs. `address`: `0x` and 40 hex digits. */
  readonly account: { readonly address: string }
  /** Signs a text by `personal_sign`. The result is `0x` and hex. */
  signMessage(args: { message: string }): Promise<string>
}

/** A client of viem that signs through its transport, such as `getConnectorClient` of wagmi returns. */
export interface ViemClient {
  /** Account that signs. `address`: `0x` and 40 hex digits. */
  readonly account: { readonly address: string }
  /** Sends a JSON-RPC request to the wallet, as in EIP-1193. */
  request(args: never): Promise<unknown>
}

/** Any other wallet. */
export interface PlainWallet {
  /** Always absent. It distinguishes this wallet from accounts of viem. */
  readonly type?: undefined
  /** Id by which a reload restores the wallet. `createPasskey` and `openPasskey` set it. */
  readonly id?: string
  /** `0x` and 40 hex digits. */
  readonly address: string
  /** Id of the chain, for the network `chain`. */
  readonly chainId?: number
  /** Signs a text by `personal_sign`. The result is `0x` and hex, 65 bytes for a key, at most 8,192 for a contract. */
  signMessage(text: string): Promise<string> | string
}

/** All kinds of wallets that the clients accept. */
export type Wallet = Eip1193Provider | EthersSigner | ViemAccount | ViemWalletClient | ViemClient | PlainWallet

/** A wallet and its account. */
export interface ConnectedWallet {
  readonly did: string
  /** The address as the wallet spells it. */
  readonly address: string
  /**
   * Signs by `personal_sign` (EIP-191). Contracts sign with 0 to 8,192 bytes (EIP-1271).
   *
   * @returns `0x` and bytes in hex
   * @throws as {@link askWallet} does
   */
  readonly signMessage: (text: string) => Promise<string>
  /** Signs by a key, in 65 bytes. @throws DidAuthClientError WALLET for the signature of a contract */
  readonly signByKey: (text: string) => Promise<string>
}

/**
 * Gets the account of a wallet. A browser wallet may prompt the user.
 *
 * @param network - as in {@link toAccountDid}
 * @param signal - aborts every wait. The window of the wallet stays open
 * @throws DidAuthClientError NO_WALLET without wallet or account; USER_REJECTED, WALLET_BUSY, WALLET, or the signal's
 * reason; TypeError for a provider of ethers
 */
export async function connectWallet(wallet?: Wallet, network?: string, signal?: AbortSignal): Promise<ConnectedWallet> {
  if (!wallet) throw new DidAuthClientError(NO_WALLET)
  if ('getSigner' in wallet) throw TypeError('Use await getSigner()')
  const { address: account, sign } = await askWallet(() => openWallet(wallet), signal)
  if (!account) throw new DidAuthClientError(NO_WALLET)
  const address = parseHex(account, '20')
  const signWith = (bytes: string) => async (text: string) => parseHex(await askWallet(() => sign(text), signal), bytes)
  return {
    did: await toAccountDid(wallet, address, network, signal),
    address,
    signMessage: signWith('0,8192'),
    signByKey: signWith('65')
  }
}

/**
 * Returns the DID of an account.
 *
 * @param network - network of the DID, by default `rsk` on every chain, because each network is another user. `chain`
 * asks the wallet without a prompt: 30 and unknown are `rsk`, 31 is `rsk:testnet`, 1 is empty, others are their hex
 * @throws DidAuthClientError WALLET, UNAVAILABLE if the code cannot be loaded, or the signal's reason
 */
export async function toAccountDid(
  wallet: Wallet | undefined,
  address: string,
  network = 'rsk',
  signal?: AbortSignal
): Promise<string> {
  if (network === 'chain') {
    const { fetchNetwork } = await loadCode(() => import('./chain.js'))
    network = await fetchNetwork(wallet, signal)
  }
  return `did:ethr:${network && `${network}:`}${address.toLowerCase()}`
}

/** Calls `listener` with the address, in lower case, whenever the user changes the account in the wallet. */
export function watchAccount(wallet: Wallet, listener: (address: string) => void): void {
  // A provider of ethers has `on` without `request`, and rejects this event.
  if (!isProvider(wallet)) return
  wallet.on?.('accountsChanged', (accounts: unknown) => {
    const { 0: address } = parseFields(accounts)
    // A locked wallet has no account, but still the same user. Some wallets also send CAIP-10 texts.
    if (isText(address) && /^0x[\da-f]{40}$/i.test(address)) listener(address.toLowerCase())
  })
}

/** Members of all kinds of wallets other than providers. */
interface Signer {
  readonly account?: Signer | undefined
  readonly type?: unknown
  readonly address?: unknown
  getAddress?(): unknown
  signMessage?(message: unknown): unknown
}

async function openWallet(wallet: Wallet): Promise<{ address: unknown; sign: (text: string) => unknown }> {
  // The type is not checked here: a wallet that cannot sign fails at its first call.
  const signer = wallet as unknown as Signer
  const { account, type, address } = signer
  // A viem client without `signMessage` signs with its local account, or through its transport.
  const source = signer.signMessage ? signer : (account ?? signer)
  if (isProvider(wallet) && !(account && source.signMessage)) {
    const { 0: accountAddress } = account
      ? [account.address]
      : parseFields(await wallet.request({ method: 'eth_requestAccounts' }))
    return {
      address: accountAddress,
      sign: (text) =>
        wallet.request({ method: 'personal_sign', params: [`0x${encodeHex(utf8(text))}`, accountAddress] })
    }
  }
  const isViem = account ?? type === 'local'
  return {
    address: account?.address ?? address ?? (await signer.getAddress?.()),
    sign: (text) => source.signMessage?.(isViem ? { message: text } : text)
  }
}

/**
 * Parses an address or a signature in hex. Some wallets write `0X`, or no prefix.
 *
 * @param bytes - number of bytes, or `min,max`
 * @returns `0x` and the digits
 * @throws DidAuthClientError WALLET for anything else
 */
function parseHex(value: unknown, bytes: string): string {
  const [, hex] = RegExp(`^(?:0x|(?=.))((?:[\\da-f]{2}){${bytes}})$`, 'i').exec(String(value)) ?? []
  if (hex !== undefined) return `0x${hex}`
  const hint = bytes === '65' ? ". Contracts log in with message: 'siwe'" : ''
  throw new DidAuthClientError(WALLET, { message: `Not ${bytes} bytes of hex${hint}` })
}

/**
 * Lists the browser's wallets, which announce themselves (EIP-6963). `window.ethereum` is last, unless it announced
 * itself. Outside of browsers, the list is empty.
 *
 * @throws DidAuthClientError UNAVAILABLE if the code cannot be loaded
 * @see EIP-6963, "Announce and Request Events"
 * @example
 * const addWallet = ({ name, icon, provider }) => addButton(name, icon, () => auth.logIn({ wallet: provider }))
 * for (const wallet of await findWallets({ onLate: addWallet })) addWallet(wallet)
 */
export function findWallets(options: FindWalletsOptions = {}): Promise<FoundWallet[]> {
  return loadCode(() => import('./find-wallets.js')).then(({ listWallets }) => listWallets(options))
}

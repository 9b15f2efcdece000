import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { pureCurve } from '../adapters/curve-pure.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { ethrDid } from '../protocol/did.js'

/** Options of {@link wallet}. */
export interface WalletOptions {
  /** Answer to `eth_chainId`. Default 30, Rootstock. */
  chainId?: number | undefined
  /** Network in the DID, independent of `chainId`. Empty for Ethereum. Default `rsk`. */
  network?: string | undefined
  /** Data that the wallet announces to pages. Default: derived from the seed, with the seed as its name. */
  info?: Partial<WalletInfo> | undefined
}

/** A page's request to a wallet: JSON-RPC by EIP-1193. */
export interface WalletRequest {
  /** Name of the method, such as `personal_sign`. */
  method: string
  /** Parameters of the method, an array. */
  params?: unknown
}

/** Error of EIP-1193 or JSON-RPC by which a wallet rejects a request: 4001, 4100, 4200, -32002, -32602. */
export class WalletError extends Error {
  /** Always `WalletError`. */
  override readonly name = 'WalletError'
  /** Code of EIP-1193 or JSON-RPC. */
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

type Listener = (accounts: string[]) => void

/** Function that asks the user to confirm. Its promise rejects if the user or the wallet refuses. */
type Confirm = () => Promise<void>

const HEX = /^0x(?:[0-9a-f]{2})*$/i

/**
 * Creates a wallet for tests. The same seed gives the same key in every run. The wallet answers pages by EIP-1193,
 * announces itself by EIP-6963, and signs for ethers and for the client of this package. It confirms every request.
 *
 * @param seed - any text, such as the name of a user
 * @example
 * const alice = wallet('alice')
 * const fetch = await signedIn(app, alice)
 */
export function wallet(seed: string, options: WalletOptions = {}): TestWallet {
  return new TestWallet(seed, options, async () => undefined)
}

/** A user's wallet for pages and scripts under test. Create it by {@link wallet}. */
export class TestWallet {
  /** Answer to `eth_chainId`. */
  readonly chainId: number
  /** Network in the DID; empty for Ethereum. */
  readonly network: string
  /** Data that the wallet announces to pages. */
  readonly info: WalletInfo
  #key: WalletKey
  #isConnected = false
  readonly #confirm: Confirm
  readonly #listeners = new Set<Listener>()

  constructor(seed: string, { chainId = 30, network = 'rsk', info = {} }: WalletOptions, confirm: Confirm) {
    this.#key = deriveWalletKey(seed)
    this.#confirm = confirm
    this.chainId = chainId
    this.network = network
    this.info = { ...createWalletInfo(seed), ...info }
  }

  /** The address of the account in use, lower case with `0x`. */
  get address(): string {
    return this.#key.address
  }

  /** The DID of the account: `did:ethr:<network>:<address>`. */
  get did(): string {
    return ethrDid(this.network, this.address)
  }

  /** `0x` and 64 hexadecimal digits. Use it only in tests, because anyone can compute it from the seed. */
  get privateKey(): string {
    return `0x${bytesToHex(this.#key.privateKey)}`
  }

  /** Returns the address, as signers of ethers do. */
  async getAddress(): Promise<string> {
    return this.address
  }

  /** Signs a text by `personal_sign`: `0x` and 65 bytes in hexadecimal, with a v of 27 or 28. */
  async signMessage(message: string): Promise<string> {
    await this.#confirm()
    return this.#key.sign(utf8ToBytes(message))
  }

  /**
   * Answers a request of a page: `eth_requestAccounts`, `eth_accounts` (empty before the page is connected),
   * `eth_chainId`, and `personal_sign` of a text, plain or in hexadecimal.
   *
   * @throws WalletError 4001 rejected, -32002 busy, 4100 wrong account or not connected, 4200 unsupported method,
   * -32602 invalid parameters
   * @see EIP-1193
   */
  async request({ method, params }: WalletRequest): Promise<unknown> {
    switch (method) {
      case 'eth_chainId':
        return `0x${this.chainId.toString(16)}`
      case 'eth_accounts':
        return this.#isConnected ? [this.address] : []
      case 'eth_requestAccounts':
        await this.#confirm()
        this.#isConnected = true
        return [this.address]
      case 'personal_sign':
        return this.#personalSign(params)
      default:
        throw new WalletError(4200, `This wallet does not support ${method}`)
    }
  }

  /** Adds a listener for `accountsChanged`, the only event of this wallet. @see EIP-1193 */
  on(event: string, listener: Listener): this {
    if (event === 'accountsChanged') this.#listeners.add(listener)
    return this
  }

  /** Removes a listener for `accountsChanged`. */
  removeListener(_event: string, listener: Listener): this {
    this.#listeners.delete(listener)
    return this
  }

  /** Announces the wallet to a page (`window`), now and on request (EIP-6963). @returns a function that stops it */
  announce(page: EventTarget): () => void {
    const detail = Object.freeze({ info: Object.freeze(this.info), provider: this })
    const announce = (): unknown => page.dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail }))
    page.addEventListener('eip6963:requestProvider', announce)
    announce()
    return () => page.removeEventListener('eip6963:requestProvider', announce)
  }

  /** Returns the same wallet with a user who rejects every request: 4001. */
  rejecting(): TestWallet {
    return this.#with(() => Promise.reject(new WalletError(4001, 'User rejected the request.')))
  }

  /** Returns the same wallet with a user who confirms after `ms` milliseconds, or never with `Infinity`. */
  slow(ms: number): TestWallet {
    const wait = (resolve: () => void): unknown => ms === Infinity || setTimeout(resolve, ms)
    return this.#with(() => new Promise(wait))
  }

  /** Returns the same wallet while another window of it is open: -32002. */
  busy(): TestWallet {
    return this.#with(() => Promise.reject(new WalletError(-32002, 'A request is already pending. Please wait.')))
  }

  /** Switches to another account. Address, DID and key change, and connected pages are notified. */
  switchAccount(seed = `${this.#key.seed}, second account`): void {
    this.#key = deriveWalletKey(seed)
    if (!this.#isConnected) return
    for (const listener of this.#listeners) listener([this.address])
  }

  #with(confirm: Confirm): TestWallet {
    const both = async (): Promise<void> => {
      await this.#confirm()
      await confirm()
    }
    return new TestWallet(this.#key.seed, this, both)
  }

  async #personalSign(params: unknown): Promise<string> {
    const [text, account] = Array.isArray(params) ? (params as unknown[]) : []
    if (typeof text !== 'string' || typeof account !== 'string') {
      throw new WalletError(-32602, 'personal_sign needs a text and an address')
    }
    if (!this.#isConnected || account.toLowerCase() !== this.address) {
      throw new WalletError(4100, 'The account is not connected to this page')
    }
    await this.#confirm()
    return this.#key.sign(HEX.test(text) ? hexToBytes(text.slice(2)) : utf8ToBytes(text))
  }
}

const ICON = 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"/>'

/** Data by which a wallet announces itself to a page (EIP-6963). */
export interface WalletInfo {
  /** A UUID of version 4. */
  uuid: string
  /** Name for users. */
  name: string
  /** A data URI. */
  icon: string
  /** Domain of the wallet in reverse order, such as `com.example.wallet`. */
  rdns: string
}

/** An account of a wallet, derived from its seed. */
export interface WalletKey {
  seed: string
  privateKey: Uint8Array
  /** Lower case with `0x`. */
  address: string
  /** Signs bytes by `personal_sign`: `0x` and 65 bytes in hexadecimal. @see EIP-191, version 0x45 */
  sign(message: Uint8Array): string
}

/** Derives a key from a seed. @throws RangeError if its hash is not a private key, with probability 2^-128 */
export function deriveWalletKey(seed: string): WalletKey {
  const privateKey = pureCurve.sha256(`wallet of a test: ${seed}`)
  const publicKey = pureCurve.publicKeyOf(privateKey)
  if (publicKey === undefined) throw new RangeError('take another seed')
  const sign = (message: Uint8Array): string => {
    const prefix = utf8ToBytes(`\x19Ethereum Signed Message:\n${message.length}`)
    const { signature, recovery } = pureCurve.sign(pureCurve.keccak256(concatBytes(prefix, message)), privateKey)
    return `0x${bytesToHex(signature)}${(27 + recovery).toString(16)}`
  }
  return { seed, privateKey, address: addressOfPublicKey(pureCurve, publicKey), sign }
}

/** Creates announcement data that is the same in every run. Pages distinguish wallets by `rdns`. */
function createWalletInfo(seed: string): WalletInfo {
  const hex = bytesToHex(pureCurve.sha256(`name of a test's wallet: ${seed}`))
  const uuid = [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)]
  return { uuid: uuid.join('-'), name: seed, icon: ICON, rdns: `example.wallet-${hex.slice(32, 40)}` }
}

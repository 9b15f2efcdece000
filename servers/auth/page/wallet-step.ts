import { findWallets, type Eip1193Provider, type FoundWallet } from 'express-did-auth/client'
import { byId, make, onClick, say, whileBusy } from './elements.js'
import { connect, fromThrowAway, walletOf, type PageWallet } from './page-wallet.js'
import { findThrowAwayWallet, forgetThrowAwayWallet, makeThrowAwayWallet } from './throw-away-wallet.js'
import type { WireView } from './wire.js'

const STATUS = 'wallet-status'
const SEARCH_MILLISECONDS = 300

/** Lets the user choose a wallet. */
export class WalletStep {
  readonly #view: WireView
  readonly #onChange: (wallet: PageWallet | undefined) => void
  readonly #listed = new Map<string, { provider: Eip1193Provider; button: HTMLButtonElement }>()
  #isListing = false
  /** Of the wallet that was chosen, when it is one of the browser. */
  #provider: Eip1193Provider | undefined
  #wallet: PageWallet | undefined

  /** @param onChange - called with the wallet that was chosen, and with undefined when none is any more */
  constructor(view: WireView, onChange: (wallet: PageWallet | undefined) => void) {
    this.#view = view
    this.#onChange = onChange
    onClick('throw-away', STATUS, async () => {
      this.#choose(fromThrowAway(makeThrowAwayWallet(), view))
      byId('log-in', HTMLElement).focus()
      return 'Made. Go on with step 2.'
    })
    onClick('other-wallet', STATUS, async () => {
      forgetThrowAwayWallet()
      this.#choose(undefined)
      byId('throw-away', HTMLElement).focus()
      return undefined
    })
    // A wallet that takes long to load announces itself without being asked (EIP-6963).
    window.addEventListener('eip6963:announceProvider', () => void this.#list())
  }

  get wallet(): PageWallet | undefined {
    return this.#wallet
  }

  /** Finds the throw-away wallet of before a reload, and the wallets of the browser. */
  async start(): Promise<void> {
    const kept = findThrowAwayWallet()
    if (kept !== undefined) this.#choose(fromThrowAway(kept, this.#view))
    await this.#list()
  }

  async #list(): Promise<void> {
    if (this.#isListing) return
    this.#isListing = true
    for (const found of await findWallets({ ms: SEARCH_MILLISECONDS })) {
      if (this.#listed.has(found.id)) continue
      // It was there as `window.ethereum`, before it announced itself by its name.
      const unnamed = this.#listed.get('injected')
      if (unnamed?.provider === found.provider) unnamed.button.remove()
      const button = this.#makeChoice(found)
      this.#listed.set(found.id, { provider: found.provider, button })
      byId('wallets', HTMLElement).append(button)
    }
    this.#isListing = false
  }

  #makeChoice({ name, icon, provider }: FoundWallet): HTMLButtonElement {
    const image = icon === undefined ? [] : [make('img', { src: icon, alt: '' })]
    const button = make('button', { type: 'button' }, ...image, name)
    const connectHere = async (): Promise<string> => {
      this.#choose(await connect(name, provider, this.#view))
      this.#provider = provider
      byId('log-in', HTMLElement).focus()
      return 'Connected. Go on with step 2.'
    }
    provider.on?.('accountsChanged', (accounts: unknown) => {
      if (this.#provider === provider) this.#followAccount(name, provider, accounts)
    })
    button.addEventListener('click', () => void whileBusy(button, STATUS, connectHere))
    return button
  }

  #followAccount(name: string, provider: Eip1193Provider, accounts: unknown): void {
    if (Array.isArray(accounts) && accounts.length > 0) {
      this.#choose(walletOf(name, provider, accounts, this.#view))
      say(STATUS, 'Another account was chosen in the wallet.')
    } else {
      this.#choose(undefined)
      say(STATUS, 'The wallet was locked or disconnected.')
    }
  }

  #choose(wallet: PageWallet | undefined): void {
    this.#wallet = wallet
    if (wallet === undefined) this.#provider = undefined
    byId('wallet-step', HTMLElement).toggleAttribute('data-done', wallet !== undefined)
    byId('wallet-choice', HTMLElement).hidden = wallet !== undefined
    byId('wallet-chosen', HTMLElement).hidden = wallet === undefined
    byId('wallet-name', HTMLElement).textContent =
      wallet?.name === 'throw-away' ? 'A throw-away key in this tab' : (wallet?.name ?? '')
    byId('wallet-address', HTMLElement).textContent = wallet?.address ?? ''
    this.#onChange(wallet)
  }
}

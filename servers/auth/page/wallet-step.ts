import { findWallets, type Eip1193Provider, type FoundWallet, type Wallet } from 'express-did-auth/client'
import { byId, make, show, write } from './elements.js'
import { Step } from './step.js'
import { makeThrowAwayKey, THROW_AWAY_KEY, walletOfKey } from './throw-away-wallet.js'
import { shownSigning } from './wire.js'

/** The wallet that the user chose. */
export interface PageWallet {
  /** Empty for the throw-away wallet. */
  name: string
  /** As the wallet spells it. */
  address: string
  wallet: Wallet
  /** Of a wallet of the browser. */
  provider?: Eip1193Provider
}

/**
 * Lets the user choose a wallet.
 *
 * @param onChange - called with the wallet that was chosen, and with undefined when none is any more
 * @returns finds the throw-away wallet of before a reload, and the wallets of the browser
 */
export function startWalletStep(onChange: (wallet: PageWallet | undefined) => void): () => Promise<void> {
  const step = new Step('wallet')
  const listed = new Map<string, { provider: Eip1193Provider; button: HTMLButtonElement }>()
  let isListing = false
  let chosen: PageWallet | undefined

  function choose(wallet: PageWallet | undefined): void {
    chosen = wallet
    byId('wallet-step').toggleAttribute('data-done', wallet !== undefined)
    show('wallet-choice', wallet === undefined)
    show('wallet-chosen', wallet !== undefined)
    write('wallet-name', wallet?.name === '' ? 'A throw-away key in this tab' : (wallet?.name ?? ''))
    write('wallet-address', wallet?.address ?? '')
    onChange(wallet)
  }

  function chooseThrowAway(key: string): void {
    const { address, signMessage } = walletOfKey(key)
    const watched = (text: string): Promise<string> => shownSigning(text, () => signMessage(text))
    choose({ name: '', address, wallet: { address, signMessage: watched } })
  }

  /** Takes the first account of a wallet. @throws Error where it has none */
  function chooseAccount(name: string, provider: Eip1193Provider, accounts: unknown): void {
    const [address] = Array.isArray(accounts) ? (accounts as unknown[]) : []
    if (typeof address !== 'string' || !/^0x[0-9a-f]{40}$/i.test(address)) {
      throw new Error('The wallet named no account. Unlock it, and try again.')
    }
    choose({ name, address, wallet: watchedProvider(provider), provider })
  }

  function makeChoice({ name, icon, provider }: FoundWallet): HTMLButtonElement {
    const image = icon === undefined ? [] : [make('img', { src: icon, alt: '' })]
    const button = make('button', { type: 'button' }, ...image, name)
    const connect = async (): Promise<string> => {
      chooseAccount(name, provider, await provider.request({ method: 'eth_requestAccounts' }))
      byId('log-in').focus()
      return 'Connected. Go on with step 2.'
    }
    provider.on?.('accountsChanged', (accounts: unknown) => {
      if (chosen?.provider !== provider) return
      const isLocked = !Array.isArray(accounts) || accounts.length === 0
      if (isLocked) choose(undefined)
      else chooseAccount(name, provider, accounts)
      step.say(isLocked ? 'The wallet was locked or disconnected.' : 'Another account was chosen in the wallet.')
    })
    button.addEventListener('click', () => void step.run(button, '', connect))
    return button
  }

  async function list(): Promise<void> {
    if (isListing) return
    isListing = true
    for (const found of await findWallets()) {
      if (listed.has(found.id)) continue
      // It was there as `window.ethereum`, before it announced itself by its name.
      const unnamed = listed.get('injected')
      if (unnamed?.provider === found.provider) unnamed.button.remove()
      const button = makeChoice(found)
      listed.set(found.id, { provider: found.provider, button })
      byId('wallets').append(button)
    }
    isListing = false
  }

  step.onClick('throw-away', '', async () => {
    chooseThrowAway(makeThrowAwayKey())
    byId('log-in').focus()
    return 'Made. Go on with step 2.'
  })
  step.onClick('other-wallet', '', async () => {
    sessionStorage.removeItem(THROW_AWAY_KEY)
    choose(undefined)
    byId('throw-away').focus()
    return undefined
  })
  // A wallet that takes long to load announces itself without being asked (EIP-6963).
  window.addEventListener('eip6963:announceProvider', () => void list())
  return async () => {
    const key = sessionStorage.getItem(THROW_AWAY_KEY) ?? ''
    if (/^[0-9a-f]{64}$/.test(key)) chooseThrowAway(key)
    await list()
  }
}

/** The same provider, which shows what it is asked to sign. */
function watchedProvider(provider: Eip1193Provider): Eip1193Provider {
  return {
    request: async (args) => {
      const [text] = args.params ?? []
      if (args.method !== 'personal_sign' || typeof text !== 'string') return provider.request(args)
      return shownSigning(textOfHex(text), async () => String(await provider.request(args)))
    },
    on: (event, listener) => provider.on?.(event, listener)
  }
}

/** Wallets are given the text as hexadecimal bytes. */
function textOfHex(text: string): string {
  if (!/^0x(?:[0-9a-f]{2})*$/i.test(text)) return text
  const bytes = text.slice(2).match(/../g) ?? []
  return new TextDecoder().decode(Uint8Array.from(bytes, (byte) => Number.parseInt(byte, 16)))
}

import { findWallets, type Eip1193Provider, type FoundWallet, type Wallet } from 'express-did-auth-client'
import { createPasskey, openPasskey, type PlainWallet } from 'express-did-auth-client/passkey'
import { makeButton, onClick, showAnswer } from './answer.js'
import { getElement, make, show, write } from './elements.js'
import { drawIdenticon } from './identicon.js'
import { makeKey, createKeyWallet } from './key-wallet.js'
import { signAndShow } from './wire.js'

/** Name of the tab's private key in `sessionStorage`: it survives a reload, and closing the tab deletes it. */
const TAB_KEY = 'throw-away-key'
const TAB_WALLET = 'A temporary key'
const PASSKEY_WALLET = 'A passkey'

/** The wallet that the user chose. */
export interface PageWallet {
  name: string
  /** Address as the wallet spells it. */
  address: string
  wallet: Wallet
  isPasskey?: boolean
  /** Present for wallets of the browser. */
  provider?: Eip1193Provider
}

/** Starts the step in which users choose a wallet. @returns a function that restores the tab's key and lists wallets */
export function startWalletStep(
  onChange: (wallet: PageWallet | undefined, isNew: boolean) => void
): () => Promise<void> {
  const listed = new Map<string, { provider: Eip1193Provider; button: HTMLButtonElement }>()
  let chosen: PageWallet | undefined

  function choose(wallet: PageWallet | undefined, isNew = true): void {
    chosen = wallet
    write('wallet-name', wallet?.name ?? '')
    write('wallet-address', wallet?.address ?? '')
    getElement('wallet-picture', HTMLImageElement).src = drawIdenticon(wallet?.address ?? '')
    onChange(wallet, isNew)
  }

  /** Chooses a wallet whose private key is in this page. */
  async function choosePageWallet(name: string, key: PlainWallet, isNew = true): Promise<void> {
    const { address } = key
    const signMessage = (text: string): Promise<string> => signAndShow(text, () => key.signMessage(text))
    choose({ name, address, wallet: { address, signMessage }, isPasskey: name === PASSKEY_WALLET }, isNew)
  }

  /** Chooses the first account of a wallet. @throws Error if the wallet has no account */
  async function chooseAccount({ id, name, provider }: FoundWallet, accounts: unknown): Promise<void> {
    const [address] = Array.isArray(accounts) ? (accounts as unknown[]) : []
    if (typeof address !== 'string' || !/^0x[0-9a-f]{40}$/i.test(address)) {
      throw new Error('Your wallet returned no account. Unlock it, and try again.')
    }
    choose({ name, address, wallet: { id, ...watchProvider(provider) }, provider })
  }

  function makeChoice(browserWallet: FoundWallet): HTMLButtonElement {
    const { name, icon, provider } = browserWallet
    const button = makeButton(name, name, async () =>
      chooseAccount(browserWallet, await provider.request({ method: 'eth_requestAccounts' }))
    )
    button.className = ''
    if (icon !== undefined) button.prepend(make('img', { src: icon, alt: '' }))
    provider.on?.('accountsChanged', (accounts: unknown) => {
      if (chosen?.provider !== provider) return
      const isLocked = !Array.isArray(accounts) || accounts.length === 0
      if (isLocked) choose(undefined)
      else void chooseAccount(browserWallet, accounts)
      const text = isLocked ? 'Your wallet was locked or disconnected.' : 'Another account was chosen in your wallet.'
      showAnswer(getElement('wallet-status'), text)
    })
    return button
  }

  function list(browserWallet: FoundWallet): void {
    const { id, provider } = browserWallet
    if (listed.has(id)) return
    // Before it announced its name, the same wallet may have been listed as `window.ethereum`.
    const unnamed = listed.get('injected')
    if (unnamed?.provider === provider) unnamed.button.remove()
    const button = makeChoice(browserWallet)
    listed.set(id, { provider, button })
    getElement('wallets').append(button)
  }

  const rpId = location.hostname
  onClick('use-tab-key', async () => {
    const key = makeKey()
    sessionStorage.setItem(TAB_KEY, key)
    return choosePageWallet(TAB_WALLET, createKeyWallet(key))
  })
  onClick('use-passkey', async () => choosePageWallet(PASSKEY_WALLET, await openPasskey({ rpId })))
  onClick('new-passkey', async () =>
    choosePageWallet(PASSKEY_WALLET, await createPasskey({ rpId, userName: location.host }))
  )
  // A passkey belongs to a host name. IP addresses have none.
  show('passkey-choice', 'PublicKeyCredential' in window && !/^[\d.]+$|:/.test(rpId))
  onClick('other-wallet', async () => {
    sessionStorage.removeItem(TAB_KEY)
    choose(undefined)
    getElement('use-tab-key').focus()
  })
  return async () => {
    const key = sessionStorage.getItem(TAB_KEY) ?? ''
    if (/^[0-9a-f]{64}$/.test(key)) await choosePageWallet(TAB_WALLET, createKeyWallet(key), false)
    for (const browserWallet of await findWallets({ onLate: list })) list(browserWallet)
  }
}

/** Wraps a provider so that the page shows the texts that it signs. */
function watchProvider(provider: Eip1193Provider): Eip1193Provider {
  return {
    request: async (args) => {
      const [text] = args.params ?? []
      if (args.method !== 'personal_sign' || typeof text !== 'string') return provider.request(args)
      // The client passes the text as hexadecimal bytes.
      const decodedText = decodeURIComponent(text.replace(/^0x/, '').replace(/../g, '%$&'))
      return signAndShow(decodedText, async () => String(await provider.request(args)))
    },
    on: (event, listener) => provider.on?.(event, listener)
  }
}

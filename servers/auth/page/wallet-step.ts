import { findWallets, type Eip1193Provider, type FoundWallet, type Wallet } from 'express-did-auth/client'
import { createPasskey, openPasskey, type PlainWallet } from 'express-did-auth/client/passkey'
import { makeButton, onClick, showAnswer } from './answer.js'
import { getElement, make, show, write } from './elements.js'
import { makeKey, createKeyWallet } from './key-wallet.js'
import { signAndShow } from './wire.js'

/** Name of the key in this tab's storage: a reload finds the key, and closing the tab deletes it. */
const TAB_KEY = 'throw-away-key'
const OF_TAB = 'A key of this tab'
const PASSKEY = 'A passkey'

/** The wallet that the user chose. */
export interface PageWallet {
  name: string
  /** Address in the wallet's own spelling. */
  address: string
  wallet: Wallet
  isPasskey?: boolean
  /** Present for wallets of the browser. */
  provider?: Eip1193Provider
}

/** Lets users choose a wallet. @returns a function that finds the key of this tab and the wallets of the browser */
export function startWalletStep(
  onChange: (wallet: PageWallet | undefined, isNew: boolean) => void
): () => Promise<void> {
  const listed = new Map<string, { provider: Eip1193Provider; button: HTMLButtonElement }>()
  let chosen: PageWallet | undefined

  function choose(wallet: PageWallet | undefined, isNew = true): void {
    chosen = wallet
    write('wallet-name', wallet?.name ?? '')
    write('wallet-address', wallet?.address ?? '')
    onChange(wallet, isNew)
  }

  /** Chooses a wallet whose private key signs in this page. */
  async function chooseOwn(name: string, key: PlainWallet, isNew = true): Promise<void> {
    const { address } = key
    const signMessage = (text: string): Promise<string> => signAndShow(text, () => key.signMessage(text))
    choose({ name, address, wallet: { address, signMessage }, isPasskey: name === PASSKEY }, isNew)
  }

  /** Chooses the first account of a wallet. @throws Error if it has none */
  async function chooseAccount({ id, name, provider }: FoundWallet, accounts: unknown): Promise<void> {
    const [address] = Array.isArray(accounts) ? (accounts as unknown[]) : []
    if (typeof address !== 'string' || !/^0x[0-9a-f]{40}$/i.test(address)) {
      throw new Error('The wallet named no account. Unlock it, and try again.')
    }
    choose({ name, address, wallet: { id, ...watchProvider(provider) }, provider })
  }

  function makeChoice(found: FoundWallet): HTMLButtonElement {
    const { name, icon, provider } = found
    const button = makeButton(name, name, async () =>
      chooseAccount(found, await provider.request({ method: 'eth_requestAccounts' }))
    )
    button.className = ''
    if (icon !== undefined) button.prepend(make('img', { src: icon, alt: '' }))
    provider.on?.('accountsChanged', (accounts: unknown) => {
      if (chosen?.provider !== provider) return
      const isLocked = !Array.isArray(accounts) || accounts.length === 0
      if (isLocked) choose(undefined)
      else void chooseAccount(found, accounts)
      const text = isLocked ? 'The wallet was locked or disconnected.' : 'Another account was chosen in the wallet.'
      showAnswer(getElement('wallet-status'), text)
    })
    return button
  }

  function list(found: FoundWallet): void {
    if (listed.has(found.id)) return
    // The same wallet may be listed as `window.ethereum`, from before it announced its name.
    const unnamed = listed.get('injected')
    if (unnamed?.provider === found.provider) unnamed.button.remove()
    const button = makeChoice(found)
    listed.set(found.id, { provider: found.provider, button })
    getElement('wallets').append(button)
  }

  const rpId = location.hostname
  onClick('use-tab-key', async () => {
    const key = makeKey()
    sessionStorage.setItem(TAB_KEY, key)
    return chooseOwn(OF_TAB, createKeyWallet(key))
  })
  onClick('use-passkey', async () => chooseOwn(PASSKEY, await openPasskey({ rpId })))
  onClick('new-passkey', async () => chooseOwn(PASSKEY, await createPasskey({ rpId, userName: location.host })))
  // A passkey belongs to a host name. IP addresses have none.
  const hasPasskeys = 'PublicKeyCredential' in window && !/^[\d.]+$|:/.test(rpId)
  for (const id of ['passkey-choice', 'passkey-hint']) show(id, hasPasskeys)
  onClick('other-wallet', async () => {
    sessionStorage.removeItem(TAB_KEY)
    choose(undefined)
    getElement('use-tab-key').focus()
  })
  return async () => {
    const key = sessionStorage.getItem(TAB_KEY) ?? ''
    if (/^[0-9a-f]{64}$/.test(key)) await chooseOwn(OF_TAB, createKeyWallet(key), false)
    for (const found of await findWallets({ onLate: list })) list(found)
  }
}

/** The same provider, which shows what it is asked to sign. */
function watchProvider(provider: Eip1193Provider): Eip1193Provider {
  return {
    request: async (args) => {
      const [text] = args.params ?? []
      if (args.method !== 'personal_sign' || typeof text !== 'string') return provider.request(args)
      // Wallets are given the text as hexadecimal bytes.
      const shown = decodeURIComponent(text.replace(/^0x/, '').replace(/../g, '%$&'))
      return signAndShow(shown, async () => String(await provider.request(args)))
    },
    on: (event, listener) => provider.on?.(event, listener)
  }
}

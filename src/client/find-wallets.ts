import { browser } from './browser.js'
import { fieldOf, type Eip1193Provider } from './wallet.js'

/** A wallet that the browser has. */
export interface FoundWallet {
  /** The same in each page: its reverse domain name, such as `io.metamask`. `window.ethereum` is `injected`. */
  readonly id: string
  readonly name: string
  /** A `data:` URL of an image. */
  readonly icon: string | undefined
  readonly provider: Eip1193Provider
}

/**
 * Asks the browser's wallets to announce themselves (EIP-6963). `window.ethereum` comes last, unless it announced itself.
 * Without a browser there are none.
 *
 * @param ms - milliseconds to wait for announcements, 300 when absent
 * @example
 * for (const { name, icon, provider } of await findWallets()) addButton(name, icon, () => auth.logIn({ wallet: provider }))
 */
export async function findWallets({ ms = 300 }: { readonly ms?: number } = {}): Promise<FoundWallet[]> {
  const { addEventListener, removeEventListener, dispatchEvent, ethereum } = browser
  if (!addEventListener || !removeEventListener || !dispatchEvent) return []
  const found = new Map<string, FoundWallet>()
  const hear = (event: object): void => {
    const wallet = parseAnnouncement(fieldOf(event, 'detail'))
    if (wallet !== undefined && !found.has(wallet.id)) found.set(wallet.id, wallet)
  }
  const type = 'eip6963:announceProvider'
  addEventListener.call(globalThis, type, hear)
  dispatchEvent.call(globalThis, new Event('eip6963:requestProvider'))
  await new Promise((resolve) => setTimeout(resolve, ms))
  removeEventListener.call(globalThis, type, hear)
  const wallets = [...found.values()]
  if (ethereum === undefined || wallets.some(({ provider }) => provider === ethereum)) return wallets
  return [...wallets, { id: 'injected', name: 'Browser wallet', icon: undefined, provider: ethereum }]
}

/** @see EIP-6963, "Announce and Request Events" */
function parseAnnouncement(detail: unknown): FoundWallet | undefined {
  const [info, provider] = [fieldOf(detail, 'info'), fieldOf(detail, 'provider')]
  const [id, name, icon] = ['rdns', 'name', 'icon'].map((field) => fieldOf(info, field))
  if (typeof id !== 'string' || typeof name !== 'string' || typeof fieldOf(provider, 'request') !== 'function') {
    return undefined
  }
  const isImage = typeof icon === 'string' && icon.startsWith('data:image/')
  return { id, name, icon: isImage ? icon : undefined, provider: provider as Eip1193Provider }
}

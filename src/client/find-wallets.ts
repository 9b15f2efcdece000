import { browser } from './browser.js'
import { isText, parseFields } from './json.js'
import { pause } from './timing.js'
import type { Eip1193Provider } from './wallet.js'

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
  if (!browser.dispatchEvent) return []
  const found = new Map<string, FoundWallet>()
  const hear = (event: object): void => {
    const wallet = parseAnnouncement(event)
    if (wallet && !found.has(wallet.id)) found.set(wallet.id, wallet)
  }
  const type = 'eip6963:announceProvider'
  browser.addEventListener(type, hear)
  browser.dispatchEvent(new Event('eip6963:requestProvider'))
  await pause(ms / 1_000)
  browser.removeEventListener(type, hear)
  const wallets = [...found.values()]
  const provider = browser.ethereum
  if (provider && !wallets.some((wallet) => wallet.provider === provider)) {
    wallets.push({ id: 'injected', name: 'Browser wallet', icon: undefined, provider })
  }
  return wallets
}

/** @see EIP-6963, "Announce and Request Events" */
function parseAnnouncement(event: object): FoundWallet | undefined {
  const { info, provider } = parseFields(parseFields(event).detail)
  const { rdns, name, icon } = parseFields(info)
  if (!isText(rdns) || !isText(name) || !provider) return undefined
  const image = isText(icon) && icon.startsWith('data:image/') ? icon : undefined
  return { id: rdns, name, icon: image, provider: provider as Eip1193Provider }
}

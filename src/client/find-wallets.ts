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
 * @see EIP-6963, "Announce and Request Events"
 * @example
 * for (const { name, icon, provider } of await findWallets()) addButton(name, icon, () => auth.logIn({ wallet: provider }))
 */
export async function findWallets({ ms = 300 }: { readonly ms?: number } = {}): Promise<FoundWallet[]> {
  if (!browser.dispatchEvent) return []
  const found = new Map<Eip1193Provider, FoundWallet>()
  const hear = (event: object): void => {
    const { info, provider: given } = parseFields(parseFields(event).detail)
    const provider = parseProvider(given)
    const { rdns: id, name, icon } = parseFields(info)
    if (!isText(id) || !isText(name) || !provider) return
    // An image of another kind could tell its host who looks at it.
    const image = isText(icon) && icon.startsWith('data:image/') ? icon : undefined
    found.set(provider, { id, name, icon: image, provider })
  }
  const type = 'eip6963:announceProvider'
  browser.addEventListener(type, hear)
  browser.dispatchEvent(new Event('eip6963:requestProvider'))
  await pause(ms / 1_000)
  browser.removeEventListener(type, hear)
  const provider = browser.ethereum
  if (provider && !found.has(provider)) {
    found.set(provider, { id: 'injected', name: 'Browser wallet', icon: undefined, provider })
  }
  return [...found.values()]
}

/** What it can do, its first request tells. */
function parseProvider(value: unknown): Eip1193Provider | undefined {
  return value as Eip1193Provider | undefined
}

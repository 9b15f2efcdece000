import { browser } from './browser.js'
import type { Eip1193Provider } from './browser.js'
import { isText, parseFields } from './json.js'
import { pause } from './timing.js'

/** A wallet that the browser has. */
export interface FoundWallet {
  /** Its reverse domain name, such as `io.metamask`; that of `window.ethereum` is `injected`. */
  readonly id: string
  readonly name: string
  /** A `data:` URL of an image. */
  readonly icon: string | undefined
  readonly provider: Eip1193Provider
}

/** How to look for wallets. */
export interface FindWalletsOptions {
  /** Milliseconds to wait for announcements, 300 when absent. */
  readonly ms?: number
  /**
   * Called with each wallet that announces itself after the list was returned, as long as the page is open. A wallet
   * that was `injected` in the list is passed once more when it announces its name.
   */
  readonly onLate?: (wallet: FoundWallet) => void
}

/** Lists the wallets of a browser, see `findWallets`. Loaded when a page asks for wallets. */
export async function listWallets({ ms = 300, onLate }: FindWalletsOptions): Promise<FoundWallet[]> {
  if (!browser.dispatchEvent) return []
  const found = new Map<Eip1193Provider, FoundWallet>()
  let isLate = false
  const hear = (event: object): void => {
    // Whether the provider works shows at its first request.
    const { info, provider } = parseFields(parseFields(event).detail) as { info: unknown; provider?: Eip1193Provider }
    const { rdns: id, name, icon } = parseFields(info)
    if (!isText(id) || !isText(name) || !provider || found.get(provider)?.id === id) return
    // An image from a URL would tell its host who looks at it.
    const image = isText(icon) && icon.startsWith('data:image/') ? icon : undefined
    const wallet = { id, name, icon: image, provider }
    found.set(provider, wallet)
    if (isLate) onLate?.(wallet)
  }
  const type = 'eip6963:announceProvider'
  browser.addEventListener?.(type, hear)
  browser.dispatchEvent(new Event('eip6963:requestProvider'))
  await pause(ms / 1_000)
  isLate = true
  if (!onLate) browser.removeEventListener?.(type, hear)
  const provider = browser.ethereum
  if (provider && !found.has(provider)) {
    found.set(provider, { id: 'injected', name: 'Browser wallet', icon: undefined, provider })
  }
  return [...found.values()]
}

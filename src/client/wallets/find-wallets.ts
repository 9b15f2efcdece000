import { browser } from '../wire/browser.js'
import type { Eip1193Provider } from '../wire/browser.js'
import { isText, parseFields } from '../wire/json.js'
import { pause } from '../wire/timing.js'

/** A wallet of the browser. */
export interface FoundWallet {
  /** Reverse domain name, such as `io.metamask`; `injected` for `window.ethereum`. */
  readonly id: string
  /** Name for users, such as `MetaMask`. */
  readonly name: string
  /** A `data:` URL of an image. */
  readonly icon: string | undefined
  /** Provider to pass as `wallet`. */
  readonly provider: Eip1193Provider
}

/** Options of the search for wallets. */
export interface FindWalletsOptions {
  /** Milliseconds to wait for announcements. Default 300. */
  readonly ms?: number
  /**
   * Called for each wallet that announces itself after the list was returned, while the page is open. A wallet that was
   * `injected` in the list is passed again when it announces its name.
   */
  readonly onLate?: (wallet: FoundWallet) => void
}

/** Lists the wallets of the browser for `findWallets`, which loads this module on demand. */
export async function listWallets({ ms = 300, onLate }: FindWalletsOptions): Promise<FoundWallet[]> {
  if (!browser.dispatchEvent) return []
  const wallets = new Map<Eip1193Provider, FoundWallet>()
  let isLate = false
  const onAnnouncement = (event: object): void => {
    // The provider is not checked here: a broken one fails at its first request.
    const { info, provider } = parseFields(parseFields(event).detail) as { info: unknown; provider?: Eip1193Provider }
    const { rdns: id, name, icon } = parseFields(info)
    if (!isText(id) || !isText(name) || !provider || wallets.get(provider)?.id === id) return
    // Loading an icon from a URL would tell its host who visits the page.
    const image = isText(icon) && icon.startsWith('data:image/') ? icon : undefined
    const wallet = { id, name, icon: image, provider }
    wallets.set(provider, wallet)
    if (isLate) onLate?.(wallet)
  }
  const type = 'eip6963:announceProvider'
  browser.addEventListener?.(type, onAnnouncement)
  browser.dispatchEvent(new Event('eip6963:requestProvider'))
  await pause(ms / 1_000)
  isLate = true
  if (!onLate) browser.removeEventListener?.(type, onAnnouncement)
  const provider = browser.ethereum
  if (provider && !wallets.has(provider)) {
    wallets.set(provider, { id: 'injected', name: 'Browser wallet', icon: undefined, provider })
  }
  return [...wallets.values()]
}

import { listWallets } from '../wallets/find-wallets.js'
import { isText, parseFields } from '../wire/json.js'
import type { Wallet } from '../wallets/wallet.js'

/** The id of a passkey's wallet: the rpId, and the passkey's own id in base64url. */
const PASSKEY_ID = /^passkey (\S+) ([\w-]+)$/

/** Finds the id by which {@link findWallet} restores a wallet after a reload; undefined if it has none. */
export async function findWalletId(wallet: Wallet): Promise<string | undefined> {
  const browserWallet = (await listWallets({ ms: 0 })).find(({ provider }) => provider === wallet)
  const { id } = parseFields(wallet)
  return browserWallet?.id ?? (isText(id) ? id : undefined)
}

/** Calls `onFound` with the wallet of an id: at once, or when the wallet announces itself later (EIP-6963). */
export async function findWallet(
  id: string,
  { did }: { readonly did: string },
  onFound: (wallet: Wallet) => void
): Promise<void> {
  const [, rpId, passkeyId] = PASSKEY_ID.exec(id) ?? []
  if (rpId && passkeyId) {
    const address = did.slice(-42)
    // Each signature asks for the passkey; the first also loads the code.
    const signMessage = async (text: string): Promise<string> => {
      const { passkeyWallet } = await import('../passkey/passkey-wallet.js')
      return passkeyWallet({ rpId, passkeyId, address }).signMessage(text)
    }
    onFound({ id, address, signMessage })
    return
  }
  const compare = (candidate: { readonly id: string; readonly provider: Wallet }): void => {
    if (candidate.id === id) onFound(candidate.provider)
  }
  for (const candidate of await listWallets({ ms: 0, onLate: compare })) compare(candidate)
}

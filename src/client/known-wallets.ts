import { listWallets } from './find-wallets.js'
import { isText, parseFields } from './json.js'
import type { PlainWallet, Wallet } from './wallet.js'

/** The id of a passkey's wallet: the rpId, and the passkey's own id in base64url. */
const PASSKEY_ID = /^passkey (\S+) ([\w-]+)$/

/** Returns the id by which {@link findWalletAgain} finds a wallet after a reload; undefined for other wallets. */
export async function findWalletId(wallet: Wallet): Promise<string | undefined> {
  const found = (await listWallets({ ms: 0 })).find(({ provider }) => provider === wallet)
  const { id } = parseFields(wallet)
  return found?.id ?? (isText(id) ? id : undefined)
}

/** Calls a function with the wallet of an id: now where it is there, or when it announces itself (EIP-6963). */
export async function findWalletAgain(id: string, address: string, onFound: (wallet: Wallet) => void): Promise<void> {
  const [, rpId, passkeyId] = PASSKEY_ID.exec(id) ?? []
  if (rpId && passkeyId) {
    onFound(passkeyWalletAgain({ id, rpId, passkeyId, address }))
    return
  }
  const take = (found: { readonly id: string; readonly provider: Wallet }): void => {
    if (found.id === id) onFound(found.provider)
  }
  for (const found of await listWallets({ ms: 0, onLate: take })) take(found)
}

/** Returns the wallet of a passkey, which asks for the passkey at each signature. Its code is loaded for the first. */
function passkeyWalletAgain({
  id,
  ...passkey
}: {
  readonly id: string
  readonly rpId: string
  readonly passkeyId: string
  readonly address: string
}): PlainWallet {
  return {
    id,
    address: passkey.address,
    signMessage: async (text) => {
      const { passkeyWallet } = await import('./passkey/passkey-wallet.js')
      return passkeyWallet(passkey).signMessage(text)
    }
  }
}

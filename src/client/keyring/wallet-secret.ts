import { formatSiweMessage } from '../../protocol/format-siwe-message.js'
import { addChecksum } from '../wallets/checksum.js'
import { WALLET_NOT_DETERMINISTIC } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { utf8, type Bytes } from '../wire/seal.js'
import { connectWallet, type Wallet } from '../wallets/wallet.js'

/**
 * Gets the secret of a wallet's slot: the UTF-8 of r and s of a signature, 128 hex digits in lower case. The signed
 * text follows EIP-4361. Its URI has no host, so no service accepts it as a login.
 *
 * @throws DidAuthClientError WALLET_NOT_DETERMINISTIC if the second signature for a new slot differs; errors of the
 *   wallet
 */
export async function requestWalletSecret(
  wallet: Wallet,
  domain: string,
  { id, createdAt }: { readonly id: string; readonly createdAt: number },
  isNew: boolean
): Promise<Bytes> {
  const { address, signByKey } = await connectWallet(wallet)
  const text = formatSiweMessage({
    domain,
    address: addChecksum(address),
    statement: 'Opens the keys of your vault. Sign it only where you open them.',
    uri: `urn:did-auth-keyring:${id}`,
    chainId: 1,
    nonce: id,
    issuedAt: new Date(createdAt * 1_000).toISOString()
  })
  const sign = async (): Promise<string> => (await signByKey(text)).slice(2, 130).toLowerCase()
  const signature = await sign()
  if (isNew && (await sign()) !== signature) throw new DidAuthClientError(WALLET_NOT_DETERMINISTIC)
  return utf8(signature)
}

import { WALLET } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields } from '../wire/json.js'
import { askWallet, isProvider } from './ask-wallet.js'

const networks: Readonly<Record<number, string>> = { 1: '', 30: 'rsk', 31: 'rsk:testnet' }

/** Gets the network of a wallet's chain: 30 and unknown are `rsk`, 31 is `rsk:testnet`, 1 is empty, others are hex. */
export async function fetchNetwork(wallet: object | undefined, signal: AbortSignal | undefined): Promise<string> {
  const chainId = await fetchChainId(wallet, signal)
  return networks[chainId] ?? `0x${chainId.toString(16)}`
}

/** Gets the chain id of a wallet; 30 if unknown. @throws DidAuthClientError WALLET, or the signal's reason */
export async function fetchChainId(wallet: object | undefined, signal: AbortSignal | undefined): Promise<number> {
  // A provider returns a hex text, other wallets have a number.
  const chainId = await askWallet(
    () => (isProvider(wallet) ? wallet.request({ method: 'eth_chainId' }) : parseFields(wallet).chainId),
    signal
  )
  const number = Number(chainId ?? 30)
  if (number > 0) return number
  throw new DidAuthClientError(WALLET)
}

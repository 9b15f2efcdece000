import type { Eip1193Provider } from '../wire/browser.js'
import { USER_REJECTED, WALLET, WALLET_BUSY } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields } from '../wire/json.js'
import { raceWithAbort, throwIfAborted } from '../wire/timing.js'

/** Whether a wallet is a provider of EIP-1193. */
export function isProvider(wallet: object | undefined): wallet is Eip1193Provider {
  return !!wallet && 'request' in wallet
}

/** Calls a wallet. @throws DidAuthClientError USER_REJECTED, WALLET_BUSY, WALLET, or the signal's reason */
export async function askWallet<T>(call: () => T, signal: AbortSignal | undefined): Promise<Awaited<T>> {
  try {
    return await raceWithAbort((async () => call())(), signal)
  } catch (cause) {
    throwIfAborted(signal)
    if (cause instanceof DidAuthClientError) throw cause
    // Libraries wrap the wallet's own error.
    const { cause: innerCause, error, info } = parseFields(cause)
    const errors = [cause, innerCause, error, parseFields(info).error]
    const codes = errors.map((wrapped) => parseFields(wrapped).code).join()
    // Codes of EIP-1193, of WalletConnect (CAIP-25), and of ethers.
    const kinds = [
      [/\b(4001|500[02])\b|_REJECTED/, USER_REJECTED],
      [/-32002/, WALLET_BUSY],
      [/\b4100\b/, [WALLET[0], 'Your wallet is not connected. Connect it, and try again.']]
    ] as const
    const [, kind = WALLET] = kinds.find(([pattern]) => pattern.test(codes)) ?? []
    throw new DidAuthClientError(kind, { cause })
  }
}

import type { Eip1193Provider, Wallet } from 'express-did-auth/client'
import type { ThrowAwayWallet } from './throw-away-wallet.js'
import { watchedSigning, type WireView } from './wire.js'

/** The wallet that the user chose. */
export interface PageWallet {
  name: string
  /** As the wallet spells it. */
  address: string
  wallet: Wallet
}

/** A wallet of the browser. It asks its user whether this page may know the address. */
export async function connect(name: string, provider: Eip1193Provider, view: WireView): Promise<PageWallet> {
  const accounts = await provider.request({ method: 'eth_requestAccounts' })
  return walletOf(name, provider, accounts, view)
}

/**
 * A wallet of the browser with the first of its accounts.
 *
 * @throws Error where it has none
 */
export function walletOf(name: string, provider: Eip1193Provider, accounts: unknown, view: WireView): PageWallet {
  return { name, address: parseFirstAccount(accounts), wallet: watchedProvider(provider, view) }
}

/** A key in this tab. */
export function fromThrowAway(own: ThrowAwayWallet, view: WireView): PageWallet {
  const { address } = own
  return {
    name: 'throw-away',
    address,
    wallet: { address, signMessage: watchedSigning(view, (text) => own.signMessage(text)) }
  }
}

/** The same provider, which shows what it is asked to sign. */
function watchedProvider(provider: Eip1193Provider, view: WireView): Eip1193Provider {
  return {
    request: async (args) => {
      const [text, ...rest] = args.params ?? []
      if (args.method !== 'personal_sign' || typeof text !== 'string') return provider.request(args)
      let answer: unknown
      const sign = async (): Promise<string> => {
        answer = await provider.request({ ...args, params: [text, ...rest] })
        return String(answer)
      }
      await watchedSigning(view, sign)(textOfHex(text))
      return answer
    },
    on: (event, listener) => provider.on?.(event, listener)
  }
}

/** Wallets are given the text as hexadecimal bytes. */
function textOfHex(text: string): string {
  if (!/^0x(?:[0-9a-f]{2})*$/i.test(text)) return text
  const bytes = text.slice(2).match(/../g) ?? []
  return new TextDecoder().decode(Uint8Array.from(bytes, (byte) => Number.parseInt(byte, 16)))
}

function parseFirstAccount(accounts: unknown): string {
  const [first] = Array.isArray(accounts) ? (accounts as unknown[]) : []
  if (typeof first !== 'string' || !/^0x[0-9a-f]{40}$/i.test(first)) {
    throw new Error('The wallet named no account. Unlock it, and try again.')
  }
  return first
}

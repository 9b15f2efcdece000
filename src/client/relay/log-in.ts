import { loginMessage } from '../../protocol/login-message.js'
import { isWord } from '../wire/json.js'
import { ask, readRequiredText, type Service } from '../wire/request.js'
import { connectWallet, type Wallet } from '../wallets/wallet.js'

/** Options of a login at a relay. */
export interface RelayLogin {
  /** Signs the login. Without `wallet` and `auth`, `open` sends no token. */
  readonly wallet?: Wallet
  /** Network of the DID: `rsk` (default), `rsk:testnet`, a hex chain id, empty: Ethereum, or `chain`: the wallet's. */
  readonly network?: string
  /** The text after `Login to `. Default: the host of `url`. */
  readonly domain?: string
  /** Returns the credential of the login (a JWT) in place of a wallet signature, for callers with a private key. */
  readonly credential?: (challenge: string, did: string) => Promise<string> | string
}

/**
 * Logs in at a relay by the wallet's signature or a credential. The client loads this module on demand.
 *
 * @returns the token
 * @throws DidAuthClientError CHALLENGE, RATE_LIMITED, UNAVAILABLE, PROTOCOL, and errors of the wallet
 */
export async function logIn(
  relay: Service,
  { wallet, network, domain = new URL(relay.url).host, credential }: RelayLogin
): Promise<string> {
  const { did, signByKey } = await connectWallet(wallet, network)
  const challenge = readRequiredText(await ask(relay, { path: '/request-auth', body: { did } }), 'challenge', isWord)
  const proof = credential
    ? { jwt: await credential(challenge, did) }
    : { did, sig: await signByKey(loginMessage(domain, challenge)), challenge }
  return readRequiredText(await ask(relay, { path: '/auth', body: proof }), 'token')
}

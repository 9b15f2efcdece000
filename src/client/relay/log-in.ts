import { loginMessage } from '../../protocol/login-message.js'
import { isWord } from '../json.js'
import { ask, requiredTextIn, type Service } from '../request.js'
import { connectWallet } from '../wallet.js'
import type { RelayClientOptions } from './relay-client.js'

/**
 * Logs in at a relay by the wallet's signature, or by a credential. The client loads it only when there is a wallet.
 *
 * @returns the token
 * @throws DidAuthClientError CHALLENGE, RATE_LIMITED, UNAVAILABLE, PROTOCOL, and errors of the wallet
 */
export async function logIn(
  relay: Service,
  { wallet, network, domain = new URL(relay.url).host, credential }: RelayClientOptions
): Promise<string> {
  const { did, signMessage } = await connectWallet(wallet, network)
  const challenge = requiredTextIn(await ask(relay, { path: '/request-auth', body: { did } }), 'challenge', isWord)
  const proof = credential
    ? { jwt: await credential(challenge, did) }
    : { did, sig: await signMessage(loginMessage(domain, challenge)), challenge }
  return requiredTextIn(await ask(relay, { path: '/auth', body: proof }), 'token')
}

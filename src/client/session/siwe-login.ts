import { formatSiweMessage, type SiweMessage } from '../../protocol/format-siwe-message.js'
import type { RefusedRequest } from './approve-request.js'
import { browser } from '../wire/browser.js'
import { addChecksum } from '../wallets/checksum.js'
import { parseFields } from '../wire/json.js'
import type { LogInOptions, Setting } from './options.js'
import { loadCode } from '../wire/request.js'
import type { ClientSession } from './session-keeper.js'
import { shareLogin } from './share-login.js'
import { createChallenges, retryStaleChallenge, sendProof, type SignedIn } from './sign-in.js'
import { fetchChainId } from '../wallets/chain.js'
import { connectWallet, type Wallet } from '../wallets/wallet.js'

/** A signed EIP-4361 text. */
export interface SignedSiwe {
  /** The complete text, exactly as it was signed. */
  readonly message: string
  /** `0x` and hex. */
  readonly signature: string
  /** Wallet that signed. A change of its account signs the user out. */
  readonly wallet?: Wallet | undefined
  /** Aborts the login. */
  readonly signal?: AbortSignal | undefined
}

/** Runs a login and opens its session. */
type Enter = (signIn: () => Promise<SignedIn>, wallet: Wallet | undefined) => Promise<ClientSession>

/** The steps of a client's login by EIP-4361. */
export interface SiweLogin {
  /** Fetches the nonce of the next login before the click. @throws as {@link nonce} does */
  prepare(signal?: AbortSignal): Promise<void>
  /**
   * Returns a nonce for one login of any account: the prepared one while it is valid, else a new one.
   *
   * @throws DidAuthClientError UNAVAILABLE, RATE_LIMITED, PROTOCOL, or the signal's reason
   */
  nonce(signal?: AbortSignal): Promise<string>
  /**
   * Returns the fields of a text that is issued now, with the checksum of the address. `domain` is the client's option,
   * or the host of the page. `uri` is the URL of the service, so that another service of the page cannot use the
   * signature.
   */
  fields(account: Pick<SiweMessage, 'address' | 'chainId' | 'nonce'>): SiweMessage
  /**
   * Opens a session with a text and its signature.
   *
   * @throws DidAuthClientError CHALLENGE, CROSS_ORIGIN, REFUSED, RATE_LIMITED, UNAVAILABLE, PROTOCOL; signal's reason
   */
  verify(signed: SignedSiwe): Promise<ClientSession>
  /** Gets a text signed by the wallet and opens a session. Retries once with a new nonce if the first has expired. */
  logIn(options: LogInOptions): Promise<ClientSession>
  /** Gets a request approved by the wallet and sends it again. Returns a refusal that does not ask for an approval. */
  approve(refused: RefusedRequest): Promise<Response>
}

/** Creates the steps of a login by EIP-4361. The client loads this module on demand. */
export function createSiweLogin(setting: Setting, enter: Enter): SiweLogin {
  const { paths, wallSeconds, network } = setting
  const path = paths.siweNonce ?? '/siwe/nonce'
  let hasAsked = false
  const nonces = createChallenges(setting, 'nonce', () => {
    hasAsked = true
    return { method: 'POST', path }
  })

  const siwe: SiweLogin = {
    prepare: (signal) => nonces.prepare('', signal),
    nonce: (signal) => nonces.next('', signal),

    fields({ address, chainId, nonce }) {
      const { host } = browser.location ?? new URL(setting.url)
      const { domain = host, statement, serviceUrl: uri = setting.url } = setting
      const issuedAt = new Date(wallSeconds() * 1_000).toISOString()
      return { domain, uri, statement, issuedAt, address: addChecksum(address), chainId, nonce }
    },

    verify({ message, signature, wallet, signal }) {
      const call = { path: paths.siweVerify ?? '/siwe/verify', body: { message, signature }, signal }
      return enter(async () => {
        // The response has the nonce of the device proof. A caller may have fetched the nonce of the text elsewhere.
        if (setting.deviceKey && !setting.device.nonce && !hasAsked) await siwe.prepare(signal)
        const [address = ''] = /^0x[\da-f]{40}$/im.exec(message) ?? []
        const body = await sendProof(setting, call, address)
        return { body, did: String(parseFields(body).did) }
      }, wallet)
    },

    logIn: ({ wallet, signal: callersSignal }) =>
      shareLogin([setting, wallet, 'siwe'], callersSignal, async (signal) => {
        const { address, signMessage } = await connectWallet(wallet, network, signal)
        return retryStaleChallenge(async () => {
          const [chainId, nonce] = [await fetchChainId(wallet, signal), await siwe.nonce(signal)]
          const message = formatSiweMessage(siwe.fields({ address, chainId, nonce }))
          return siwe.verify({ message, signature: await signMessage(message), wallet, signal })
        })
      }),

    async approve(refused) {
      const { approveRequest } = await loadCode(() => import('./approve-request.js'))
      return approveRequest(setting, (account) => siwe.fields(account), refused)
    }
  }
  return siwe
}

/**
 * Adapters that make a `DidAuthClient` the backend of a wallet library's modal. No adapter imports its library: the
 * types follow the documentation of the libraries.
 */
import { formatSiweMessage } from '../../protocol/format-siwe-message.js'
import type { DidAuthClient } from '../session/did-auth-client.js'
import { isText, parseFields } from '../wire/json.js'
import type { ClientSession } from '../session/session-keeper.js'
import { shareLogin } from '../session/share-login.js'
import { retryStaleChallenge } from '../session/sign-in.js'
import type { SignedSiwe, SiweLogin } from '../session/siwe-login.js'
import { fetchChainId } from '../wallets/chain.js'
import { askWallet } from '../wallets/ask-wallet.js'
import type { Eip1193Provider } from '../wallets/wallet.js'

/** The part of a client that the adapters use. */
export type SiweAuth = Pick<DidAuthClient, 'ready' | 'session' | 'siwe' | 'logIn' | 'logOut'>

type Account = Parameters<SiweLogin['fields']>[0]
type Signed = Pick<SignedSiwe, 'message' | 'signature'>

/** Validity of a thirdweb text, which requires one. A day tolerates wrong device clocks; the nonce expires sooner. */
const DAY_MILLISECONDS = 86_400_000

/**
 * Creates the steps of a login that the adapters share. Modals create a text without waiting, and after a refused login
 * reuse its nonce. A newer nonce then replaces the used one.
 */
function createSteps(auth: SiweAuth) {
  let siwe: SiweLogin | undefined
  let newerNonce: string | undefined
  const getNonce = async (): Promise<string> => {
    siwe = await auth.siwe()
    newerNonce = undefined
    return siwe.nonce()
  }
  const verify = async ({ message, signature }: Signed): Promise<ClientSession> =>
    (await auth.siwe()).verify({ message, signature })
  return {
    getNonce,
    verify,
    /** Creates the text to sign. @throws Error before the first nonce */
    createMessage: ({ nonce, address, chainId }: Account): string => {
      if (!siwe) throw new Error('Call getNonce first')
      const message = formatSiweMessage(siwe.fields({ address, chainId, nonce: newerNonce ?? nonce }))
      newerNonce = undefined
      return message
    },
    /** Logs in, and returns whether that succeeded. It logs the reason of a refusal to the console. */
    isVerified: async (signed: Signed): Promise<boolean> => {
      try {
        await verify(signed)
        return true
      } catch (error) {
        console.warn(error)
        newerNonce = await getNonce().catch(() => undefined)
        return false
      }
    }
  }
}

/** Finds the address of the session; undefined if the session belongs to another account than `account`. */
async function findSessionAddress(auth: SiweAuth, account?: string): Promise<string | undefined> {
  await auth.ready.catch(() => undefined)
  const address = auth.session?.did.slice(-42)
  return !account || account.toLowerCase() === address ? address : undefined
}

/** Creates the `adapter` of `RainbowKitAuthenticationProvider`. The page derives its `status` from `auth.subscribe`. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function rainbowKit(auth: SiweAuth) {
  const { getNonce, createMessage, isVerified: verify } = createSteps(auth)
  return { getNonce, createMessage, verify, signOut: () => auth.logOut() }
}

/** Creates the props of ConnectKit's `<SIWEProvider {...connectKit(auth)}>`. A change of chain keeps the session. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function connectKit(auth: SiweAuth) {
  const { getNonce, createMessage, isVerified: verifyMessage } = createSteps(auth)
  let chainId = 1
  return {
    getNonce,
    createMessage: (account: Account) => {
      chainId = account.chainId
      return createMessage(account)
    },
    verifyMessage,
    /** Returns the session with the chain of the last text. Only `signOutOnNetworkChange` would use the chain. */
    getSession: async () => {
      const address = await findSessionAddress(auth)
      return address ? { address, chainId } : null
    },
    signOut: async () => {
      await auth.logOut()
      return true
    },
    signOutOnNetworkChange: false,
    nonceRefetchInterval: 240_000
  }
}

type CaipChain = `${string}:${string}`

/** Creates the `siwx` of AppKit's `createAppKit`. A change of chain keeps the session. It refuses other namespaces. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function appKit(auth: SiweAuth) {
  const { getNonce, verify } = createSteps(auth)
  const signOut = (): Promise<void> => auth.logOut()
  const createMessage = async (chain: CaipChain, address: string, nonce: string) => {
    const [namespace, id] = chain.split(':')
    if (namespace !== 'eip155') throw new Error(`${chain}: not an Ethereum chain`)
    const { resources: _, ...fields } = (await auth.siwe()).fields({ address, chainId: Number(id), nonce })
    const text = formatSiweMessage(fields)
    const chainId = `eip155:${id}` as const
    return { ...fields, version: '1', accountAddress: address, chainId, toString: () => text }
  }
  return {
    createMessage: async ({ accountAddress, chainId }: { accountAddress: string; chainId: CaipChain }) =>
      createMessage(chainId, accountAddress, await getNonce()),
    addSession: async (session: Signed) => {
      await verify(session)
    },
    /** Logs in with the first text, because each text is one session. An empty list logs out. */
    setSessions: async ([session]: Signed[]) => {
      await (session ? verify(session) : signOut())
    },
    revokeSession: signOut,
    getSessions: async (chain: CaipChain, account: string) => {
      const address = await findSessionAddress(auth, account)
      return address ? [{ data: await createMessage(chain, account, ''), message: '', signature: '' }] : []
    },
    getRequired: () => true,
    signOutOnDisconnect: true
  }
}

/** Creates the `auth` of thirdweb's `ConnectButton`. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function thirdweb(auth: SiweAuth) {
  const { getNonce, verify } = createSteps(auth)
  return {
    getLoginPayload: async ({ address, chainId }: { address: string; chainId: number }) => {
      const nonce = await getNonce()
      const { domain, uri, statement = 'Sign in.', issuedAt } = (await auth.siwe()).fields({ address, chainId, nonce })
      const expiration_time = new Date(Date.parse(issuedAt) + DAY_MILLISECONDS).toISOString()
      const chain_id = String(chainId)
      const fields = { domain, address, statement, uri, version: '1', chain_id, nonce, issued_at: issuedAt }
      return { ...fields, expiration_time, invalid_before: '' }
    },
    doLogin: async ({ payload, signature }: { payload: ThirdwebPayload; signature: string }) => {
      const { chain_id, issued_at: issuedAt, expiration_time: expirationTime, uri = '' } = payload
      const { domain, address, statement, nonce } = payload
      const chainId = Number(chain_id)
      const fields = { domain, address, statement, uri, chainId, nonce, issuedAt, expirationTime }
      await verify({ message: formatSiweMessage(fields), signature })
    },
    /** Returns whether the session belongs to the account. Logs out if the user has changed to another account. */
    isLoggedIn: async (address: string) => {
      const isSame = (await findSessionAddress(auth, address)) !== undefined
      if (!isSame && auth.session) await auth.logOut().catch(console.warn)
      return isSame
    },
    doLogout: () => auth.logOut()
  }
}

/** Fields of an EIP-4361 text with the names that thirdweb uses. */
export interface ThirdwebPayload {
  /** Host of the page, with its port. */
  domain: string
  /** Address of the account: `0x` and 40 hex digits. */
  address: string
  /** Line for the user. Default `Sign in.`. */
  statement: string
  /** URL of the service. */
  uri?: string
  /** Version of EIP-4361, always `1`. */
  version: string
  /** Id of the account's chain, in decimal digits. */
  chain_id?: string
  /** Nonce of the service, valid once. */
  nonce: string
  /** Time of signing, by RFC 3339. */
  issued_at: string
  /** Time at which the text expires, by RFC 3339. */
  expiration_time: string
  /** Always empty: the text is valid at once. */
  invalid_before: string
  /** Not used by this client. */
  resources?: string[]
}

/**
 * Connects a wallet and logs in with one prompt (ERC-7846), or with two if the wallet does not support that. Concurrent
 * calls with the same wallet share one login.
 *
 * @throws DidAuthClientError as `logIn` with this wallet
 * @example
 * button.onclick = () => connectAndSignIn(auth, provider)
 */
export function connectAndSignIn(auth: SiweAuth, provider: Eip1193Provider): Promise<ClientSession> {
  return shareLogin([auth, provider], undefined, () => connect(auth, provider))
}

async function connect(auth: SiweAuth, provider: Eip1193Provider): Promise<ClientSession> {
  const siwe = await auth.siwe()
  const session = await retryStaleChallenge(async () => {
    const chainId = await fetchChainId(provider, undefined)
    const { domain, uri, statement, nonce } = siwe.fields({ address: '', chainId, nonce: await siwe.nonce() })
    const signInRequest = { nonce, chainId: `0x${chainId.toString(16)}`, domain, uri, ...(statement && { statement }) }
    const params = [{ version: '1', capabilities: { signInWithEthereum: signInRequest } }]
    const { accounts } = parseFields(await askWallet(() => mapUnsupported(provider, params), undefined))
    const { capabilities } = parseFields(parseFields(accounts)[0])
    const { message, signature } = parseFields(parseFields(capabilities).signInWithEthereum)
    // Other services of this page would accept a text with another URI, so it is not sent.
    if (!isText(message) || !isText(signature) || !hasHost(message, uri)) return undefined
    return siwe.verify({ message, signature, wallet: provider })
  })
  return session ?? auth.logIn({ wallet: provider, message: 'siwe' })
}

/** Whether the `URI` of an EIP-4361 text has the host of a URL. */
function hasHost(message: string, url: string): boolean {
  const [, uri = ''] = /^URI: (\S+)$/m.exec(message) ?? []
  try {
    return new URL(uri).host === new URL(url).host
  } catch {
    return false
  }
}

/** Calls `wallet_connect`. Returns undefined if the wallet does not support it (EIP-1193, JSON-RPC 2.0). */
async function mapUnsupported(provider: Eip1193Provider, params: readonly unknown[]): Promise<unknown> {
  try {
    return await provider.request({ method: 'wallet_connect', params })
  } catch (error) {
    if (/^(4200|-32601)$/.test(String(parseFields(error).code))) return undefined
    throw error
  }
}

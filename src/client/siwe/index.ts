/**
 * Adapters that give the modals of wallet libraries a `DidAuthClient` as their backend. None needs its library: the
 * types are those of the libraries' documentation.
 */
import { formatSiweMessage } from '../../protocol/format-siwe-message.js'
import type { DidAuthClient } from '../did-auth-client.js'
import { isText, parseFields } from '../json.js'
import type { ClientSession } from '../session-keeper.js'
import { retryStaleChallenge } from '../sign-in.js'
import type { SignedSiwe, SiweLogin } from '../siwe-login.js'
import { askWallet, fetchChainId, type Eip1193Provider } from '../wallet.js'

/** The part of a client that the adapters use. */
export type SiweAuth = Pick<DidAuthClient, 'ready' | 'session' | 'siwe' | 'logIn' | 'logOut'>

type Account = Parameters<SiweLogin['fields']>[0]
type Signed = Pick<SignedSiwe, 'message' | 'signature'>

/** thirdweb's expiration, which it requires. The nonce ends sooner, and the clock of the device may be wrong. */
const DAY_MILLISECONDS = 86_400_000

/** Modals write texts in one step, and sign again with the nonce of a refused login: a newer one replaces it. */
function createSteps(auth: SiweAuth) {
  let siwe: SiweLogin | undefined
  let newer: string | undefined
  const getNonce = async (): Promise<string> => {
    siwe = await auth.siwe()
    newer = undefined
    return siwe.nonce()
  }
  const verify = async ({ message, signature }: Signed): Promise<ClientSession> =>
    (await auth.siwe()).verify({ message, signature })
  return {
    getNonce,
    verify,
    /** @throws Error before the first nonce */
    createMessage: ({ nonce, address, chainId }: Account): string => {
      if (!siwe) throw new Error('No nonce was asked for')
      const message = formatSiweMessage(siwe.fields({ address, chainId, nonce: newer ?? nonce }))
      newer = undefined
      return message
    },
    /** The console has the reason of a refusal. */
    isVerified: async (signed: Signed): Promise<boolean> => {
      try {
        await verify(signed)
        return true
      } catch (error) {
        console.warn(error)
        newer = await getNonce().catch(() => undefined)
        return false
      }
    }
  }
}

/** Returns the address of the session, when it is that of an account, or of any. */
async function findSessionAddress(auth: SiweAuth, of?: string): Promise<string | undefined> {
  await auth.ready.catch(() => undefined)
  const address = auth.session?.did.slice(-42)
  return !of || of.toLowerCase() === address ? address : undefined
}

/** Creates the `adapter` of `RainbowKitAuthenticationProvider`. The page sets its `status` by `auth.subscribe`. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function rainbowKit(auth: SiweAuth) {
  const { getNonce, createMessage, isVerified: verify } = createSteps(auth)
  return { getNonce, createMessage, verify, signOut: () => auth.logOut() }
}

/** Creates the props of ConnectKit's `<SIWEProvider {...connectKit(auth)}>`. Another chain is the same user. */
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
    /** The chain is the last that was signed for; `signOutOnNetworkChange` is what would compare it. */
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

/** Creates the `siwx` of AppKit's `createAppKit`. Another chain of Ethereum is the same user; others are refused. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function appKit(auth: SiweAuth) {
  const { getNonce, verify } = createSteps(auth)
  const signOut = (): Promise<void> => auth.logOut()
  const createMessage = async (chain: CaipChain, address: string, nonce: string) => {
    const [namespace, id] = chain.split(':')
    if (namespace !== 'eip155') throw new Error(`${chain}: not a chain of Ethereum`)
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
    /** The first: one text is one session. None signs out. */
    setSessions: async ([session]: Signed[]) => {
      await (session ? verify(session) : signOut())
    },
    revokeSession: signOut,
    getSessions: async (chain: CaipChain, of: string) => {
      const address = await findSessionAddress(auth, of)
      return address ? [{ data: await createMessage(chain, of, ''), message: '', signature: '' }] : []
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
      const { chain_id, issued_at: issuedAt, expiration_time: expirationTime, uri = '', ...rest } = payload
      const { domain, address, statement, nonce } = rest
      const chainId = Number(chain_id)
      const fields = { domain, address, statement, uri, chainId, nonce, issuedAt, expirationTime }
      await verify({ message: formatSiweMessage(fields), signature })
    },
    /** Whether the session is of an account. A session of another account, which the user has left, is ended. */
    isLoggedIn: async (address: string) => {
      const isSame = (await findSessionAddress(auth, address)) !== undefined
      if (!isSame && auth.session) await auth.logOut().catch(console.warn)
      return isSame
    },
    doLogout: () => auth.logOut()
  }
}

/** The fields of a text as thirdweb names them. */
export interface ThirdwebPayload {
  domain: string
  address: string
  statement: string
  uri?: string
  version: string
  chain_id?: string
  nonce: string
  issued_at: string
  expiration_time: string
  invalid_before: string
  resources?: string[]
}

/**
 * Connects a wallet and logs in with one prompt (ERC-7846), where the wallet can; else with two, as `logIn` does.
 *
 * @throws DidAuthClientError as `logIn`, whose wallet this is
 * @example
 * button.onclick = () => connectAndSignIn(auth, provider)
 */
export async function connectAndSignIn(auth: SiweAuth, provider: Eip1193Provider): Promise<ClientSession> {
  const siwe = await auth.siwe()
  const session = await retryStaleChallenge(async () => {
    const chainId = await fetchChainId(provider, undefined)
    const { domain, uri, statement, nonce } = siwe.fields({ address: '', chainId, nonce: await siwe.nonce() })
    const wanted = { nonce, chainId: `0x${chainId.toString(16)}`, domain, uri, ...(statement && { statement }) }
    const params = [{ version: '1', capabilities: { signInWithEthereum: wanted } }]
    const { accounts } = parseFields(await askWallet(() => mapUnsupported(provider, params), undefined))
    const { capabilities } = parseFields(parseFields(accounts)[0])
    const { message, signature } = parseFields(parseFields(capabilities).signInWithEthereum)
    // A wallet that writes another URI has made a text that other services of this page accept as well.
    if (!isText(message) || !isText(signature) || !hasHost(message, uri)) return undefined
    return siwe.verify({ message, signature, wallet: provider })
  })
  return session ?? auth.logIn({ wallet: provider, message: 'siwe' })
}

/** Whether the `URI` of an EIP-4361 text has the host of a URL. */
function hasHost(message: string, url: string): boolean {
  const [, uri = ''] = /^URI: (\S+)$/m.exec(message) ?? []
  return URL.canParse(uri) && new URL(uri).host === new URL(url).host
}

/** Calls `wallet_connect`. Returns undefined if the wallet does not know it (EIP-1193, JSON-RPC 2.0). */
async function mapUnsupported(provider: Eip1193Provider, params: readonly unknown[]): Promise<unknown> {
  try {
    return await provider.request({ method: 'wallet_connect', params })
  } catch (error) {
    if (/^(4200|-32601)$/.test(String(parseFields(error).code))) return undefined
    throw error
  }
}

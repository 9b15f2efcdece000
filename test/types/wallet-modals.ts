/**
 * Uses of the adapters for wallet modals that must compile. Each follows the documentation of its library, as quoted
 * here. Checked by `npm run types`, run by no one.
 */
import type { DidAuthClient } from 'express-did-auth-client'
import { appKit, connectKit, rainbowKit, thirdweb } from 'express-did-auth-client/siwe'

declare const auth: DidAuthClient

type Hex = `0x${string}`

/** RainbowKit 2.2, "Custom Authentication". */
interface AuthenticationAdapter<Message> {
  getNonce: () => Promise<string>
  createMessage: (args: { nonce: string; address: Hex; chainId: number }) => Promise<Message> | Message
  verify: (args: { message: Message; signature: string }) => Promise<boolean>
  signOut: () => Promise<void>
}
export const forRainbowKit: AuthenticationAdapter<string> = rainbowKit(auth)

/** ConnectKit 1.9, "SIWE: Custom Implementation". */
interface SIWEConfig {
  getNonce: () => Promise<string>
  createMessage: (args: { nonce: string; address: string; chainId: number }) => string
  verifyMessage: (args: { message: string; signature: string }) => Promise<boolean>
  getSession: () => Promise<{ address: string; chainId: number } | null>
  signOut: () => Promise<boolean>
  enabled?: boolean
  nonceRefetchInterval?: number
  sessionRefetchInterval?: number
  signOutOnDisconnect?: boolean
  signOutOnAccountChange?: boolean
  signOutOnNetworkChange?: boolean
}
export const forConnectKit: SIWEConfig = connectKit(auth)

/** AppKit 1.8, "SIWX: Custom Implementation". */
type CaipNetworkId = `eip155:${string}` | `solana:${string}` | `bip122:${string}`
interface SIWXData {
  accountAddress: string
  chainId: CaipNetworkId
  domain: string
  uri: string
  version: string
  nonce: string
  notBefore?: string | undefined
  statement?: string | undefined
  resources?: string[]
  requestId?: string | undefined
  issuedAt?: string | undefined
  expirationTime?: string | undefined
}
interface SIWXSession {
  data: SIWXData
  message: string
  signature: string
}
interface SIWXConfig {
  createMessage: (input: {
    accountAddress: string
    chainId: CaipNetworkId
    notBefore?: string
  }) => Promise<SIWXData & { toString: () => string }>
  addSession: (session: SIWXSession) => Promise<void>
  revokeSession: (chainId: CaipNetworkId, address: string) => Promise<void>
  setSessions: (sessions: SIWXSession[]) => Promise<void>
  getSessions: (chainId: CaipNetworkId, address: string) => Promise<SIWXSession[]>
  getRequired?: () => boolean
  signOutOnDisconnect?: boolean
}
export const forAppKit: SIWXConfig = appKit(auth)

/** thirdweb 5, "SiweAuthOptions" and "LoginPayload". */
interface LoginPayload {
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
interface SiweAuthOptions {
  getLoginPayload: (params: { address: string; chainId: number }) => Promise<LoginPayload>
  doLogin: (params: { payload: LoginPayload; signature: string }) => Promise<void>
  doLogout: () => Promise<void>
  isLoggedIn: (address: string) => Promise<boolean>
}
export const forThirdweb: SiweAuthOptions = thirdweb(auth)

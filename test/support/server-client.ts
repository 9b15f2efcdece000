import { scaled } from './time-factor.js'
import { loginText, type TestWallet } from './wallet.js'

/** What a server answered. */
export interface Answer {
  status: number
  text: string
  headers: Headers
}

export interface Tokens {
  accessToken: string
  refreshToken: string
}

/** Asks a server over HTTP, with `fetch` as a browser has it. */
export async function ask(url: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(scaled(60_000)) })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

export function post(url: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  const complete = { 'Content-Type': 'application/json', ...headers }
  return ask(url, { method: 'POST', headers: complete, body: JSON.stringify(body) })
}

/** The body of a `POST /auth` that is good once. */
export async function signedLogin(
  url: string,
  wallet: TestWallet,
  domain: string
): Promise<{ did: string; sig: string; challenge: string }> {
  const { text } = await post(`${url}/request-auth`, { did: wallet.did })
  const { challenge } = JSON.parse(text) as { challenge: string }
  return { did: wallet.did, sig: wallet.personalSign(loginText(domain, challenge)), challenge }
}

/** Logs a wallet in with a real signature. */
export async function logIn(url: string, wallet: TestWallet, domain: string): Promise<Tokens> {
  const { did, sig } = await signedLogin(url, wallet, domain)
  const { status, text } = await post(`${url}/auth`, { did, sig })
  if (status !== 200) throw new Error(`login: ${status} ${text}`)
  return JSON.parse(text) as Tokens
}

export function me(url: string, accessToken: string): Promise<Answer> {
  return ask(`${url}/me`, { headers: { Authorization: `DIDAuth ${accessToken}` } })
}

export function refresh(url: string, refreshToken: string): Promise<Answer> {
  return post(`${url}/refresh-token`, { refreshToken })
}

export function logOut(url: string, accessToken: string): Promise<Answer> {
  return post(`${url}/logout`, {}, { Authorization: `DIDAuth ${accessToken}` })
}

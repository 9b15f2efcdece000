import type { Express } from 'express'
import request, { type Test } from 'supertest'
import { createLoginText, createNumberedWallet, type TestWallet } from '../fixtures/fixtures.js'

export interface TestTokens {
  accessToken: string
  refreshToken: string
}

type Headers = Readonly<Record<string, string>>
/** Credentials of a request: an access token, or headers. */
type As = string | Headers

const alice = createNumberedWallet(1)
const toHeaders = (as: As): Headers => (typeof as === 'string' ? { Authorization: `DIDAuth ${as}` } : as)

/** Client of an application, which sends requests with supertest. The default wallet is number 1. */
export interface AppClient {
  get: (path: string, as?: As) => Test
  options: (path: string, as?: As) => Test
  post: (path: string, body?: object | string, as?: As) => Test
  /** Sends `GET /me`, which is guarded. */
  me: (as?: As) => Test
  refresh: (refreshToken: unknown, as?: As) => Test
  logOut: (as: As) => Test
  /** Signs a login challenge, and returns the body of a `POST /auth`, which is valid once. */
  createSignedLogin: (wallet?: TestWallet) => Promise<{ did: string; sig: string }>
  logIn: (wallet?: TestWallet, did?: string) => Promise<TestTokens>
  /** Logs in at an application that sends tokens in cookies, and returns both as a `Cookie` header. */
  logInForCookies: (wallet?: TestWallet) => Promise<string>
}

/** Creates a client of an application. */
export function appClient(app: Express): AppClient {
  const get = (path: string, as: As = {}): Test => request(app).get(path).set(toHeaders(as))
  const post = (path: string, body?: object | string, as: As = {}): Test =>
    request(app).post(path).set(toHeaders(as)).send(body)
  return {
    get,
    options: (path, as = {}) => request(app).options(path).set(toHeaders(as)),
    post,
    me: (as) => get('/me', as),
    refresh: (refreshToken, as) => post('/refresh-token', { refreshToken }, as),
    logOut: (as) => post('/logout', undefined, as),
    createSignedLogin: (wallet = alice) => signedLogin(app, wallet),
    logIn: (wallet = alice, did) => logIn(app, wallet, did),
    logInForCookies: (wallet = alice) => logInForCookies(app, wallet)
  }
}

/** Requests a login challenge over HTTP. */
export async function requestLoginChallenge(app: Express, did: string): Promise<string> {
  return (await request(app).post('/request-auth').send({ did }).expect(200)).body.challenge
}

/** Requests a sign-up challenge over HTTP. */
export async function signUpChallenge(app: Express, did: string): Promise<string> {
  return (await request(app).post('/request-signup').send({ did }).expect(200)).body.challenge
}

/** Requests a login challenge and signs it. Returns the body of a `POST /auth`, which is valid once. */
export async function signedLogin(
  app: Express,
  wallet: TestWallet,
  did = wallet.did
): Promise<{ did: string; sig: string }> {
  return { did, sig: wallet.personalSign(createLoginText('service.example', await requestLoginChallenge(app, did))) }
}

/** Logs in a wallet over HTTP at an application that sends tokens in the body. */
export async function logIn(app: Express, wallet: TestWallet, did = wallet.did): Promise<TestTokens> {
  const login = await signedLogin(app, wallet, did)
  return (await request(app).post('/auth').send(login).expect(200)).body
}

/** Logs in a wallet at an application that sends tokens in cookies, and returns both as a `Cookie` header. */
export async function logInForCookies(app: Express, wallet: TestWallet): Promise<string> {
  const login = await signedLogin(app, wallet)
  return createCookieHeader(await request(app).post('/auth').send(login).expect(200))
}

/** Returns the `Cookie` header that a browser would send after a response. */
export function createCookieHeader(response: { headers: Record<string, unknown> }): string {
  return setCookies(response)
    .map((cookie) => cookie.slice(0, cookie.indexOf(';')))
    .join('; ')
}

/** Returns the `Set-Cookie` headers of a response. */
export function setCookies(response: { headers: Record<string, unknown> }): string[] {
  const cookies = response.headers['set-cookie']
  return Array.isArray(cookies) ? cookies.map(String) : []
}

/** Returns the access token and the refresh token of a `Cookie` header. */
export function readCookieTokens(cookies: string): TestTokens {
  const [, accessToken = '', refreshToken = ''] = /authorization=([^;]+).*refresh-token=([^;]+)/.exec(cookies) ?? []
  return { accessToken, refreshToken }
}

import type { Express } from 'express'
import request from 'supertest'
import { loginText, type TestWallet } from './wallet.js'

export interface TestTokens {
  accessToken: string
  refreshToken: string
}

/** Asks for a login challenge over HTTP. */
export async function loginChallenge(app: Express, did: string): Promise<string> {
  const response = await request(app).post('/request-auth').send({ did }).expect(200)
  return (response.body as { challenge: string }).challenge
}

/** Logs a wallet in over HTTP, tokens in the body. */
export async function logIn(app: Express, wallet: TestWallet, did = wallet.did): Promise<TestTokens> {
  const challenge = await loginChallenge(app, did)
  const sig = wallet.personalSign(loginText('service.example', challenge))
  const response = await request(app).post('/auth').send({ did, sig }).expect(200)
  return response.body as TestTokens
}

/** Asks for a login challenge and signs it: the body of a `POST /auth` that is good once. */
export async function signedLogin(app: Express, wallet: TestWallet): Promise<{ did: string; sig: string }> {
  const challenge = await loginChallenge(app, wallet.did)
  return { did: wallet.did, sig: wallet.personalSign(loginText('service.example', challenge)) }
}

/** Asks for a sign up challenge over HTTP. */
export async function signUpChallenge(app: Express, did: string): Promise<string> {
  const response = await request(app).post('/request-signup').send({ did }).expect(200)
  return (response.body as { challenge: string }).challenge
}

/** Logs a wallet in where tokens travel in cookies, and returns both as a `Cookie` header. */
export async function logInForCookies(app: Express, wallet: TestWallet): Promise<string> {
  const response = await request(app)
    .post('/auth')
    .send(await signedLogin(app, wallet))
    .expect(200)
  return cookieHeader(response)
}

/** The `Cookie` header that a browser would send after a response. */
export function cookieHeader(response: { headers: Record<string, unknown> }): string {
  return setCookies(response)
    .map((cookie) => cookie.slice(0, cookie.indexOf(';')))
    .join('; ')
}

/** The `Set-Cookie` headers of a response. */
export function setCookies(response: { headers: Record<string, unknown> }): string[] {
  const cookies = response.headers['set-cookie']
  return Array.isArray(cookies) ? cookies.map(String) : []
}

import express, { type Express } from 'express'
import request from 'supertest'
import { es256kSigner, setupDidAuth, type DidAuthConfig, type RequireDid } from 'express-did-auth'
import { loginText, walletOf, type TestWallet } from './wallet.js'

/** The service's key: wallet number 7777. */
export const serviceWallet = walletOf(7777)
export const serviceUrl = 'https://service.example'
export const challengeSecret = 'a secret of the tests, longer than 32 bytes'

/** Start of a challenge window of 300 s, far from any real time. */
export const START_SECONDS = 1_800_000_000

export interface LogLine {
  level: 'info' | 'warn' | 'error'
  fields: Record<string, unknown>
  message: string
}

/** An application with our routes, a guarded `GET /me`, a clock that the test sets and a log that it reads. */
export interface TestApp {
  app: Express
  requireDid: RequireDid
  clock: { seconds: number; nowSeconds(): number }
  log: LogLine[]
}

/** What stands around our routes in the application. */
export interface Host {
  /** Runs before our routes are set up: the host's parsers and middleware. */
  before?: (app: Express) => void
  /** Runs after them: the host's own routes and error handlers. */
  after?: (app: Express, requireDid: RequireDid) => void
  /** Mounts our routes, and `GET /me`, on a router under this path. */
  prefix?: string
}

export async function authApp(config: Partial<DidAuthConfig> = {}, host: Host = {}): Promise<TestApp> {
  const clock = {
    seconds: START_SECONDS,
    nowSeconds(): number {
      return this.seconds
    }
  }
  const log: LogLine[] = []
  const write =
    (level: LogLine['level']) =>
    (fields: Record<string, unknown>, message: string): void => {
      log.push({ level, fields, message })
    }
  const app = express()
  host.before?.(app)
  const router = host.prefix === undefined ? app : express.Router()
  if (host.prefix !== undefined) app.use(host.prefix, router)
  const requireDid = setupDidAuth(router, {
    challengeSecret,
    serviceUrl,
    serviceDid: serviceWallet.did,
    serviceSigner: es256kSigner(serviceWallet.privateKey),
    clock,
    logger: { info: write('info'), warn: write('warn'), error: write('error') },
    ...config
  })
  router.get('/me', requireDid, (req, res) => {
    res.json({ user: req.user, auth: req.auth })
  })
  host.after?.(app, requireDid)
  await requireDid.ready
  return { app, requireDid, clock, log }
}

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

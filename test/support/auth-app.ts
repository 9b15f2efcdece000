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

export async function authApp(config: Partial<DidAuthConfig> = {}): Promise<TestApp> {
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
  const requireDid = setupDidAuth(app, {
    challengeSecret,
    serviceUrl,
    serviceDid: serviceWallet.did,
    serviceSigner: es256kSigner(serviceWallet.privateKey),
    clock,
    logger: { info: write('info'), warn: write('warn'), error: write('error') },
    ...config
  })
  app.get('/me', requireDid, (req, res) => {
    res.json({ user: req.user, auth: req.auth })
  })
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

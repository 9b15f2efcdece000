import { describe, expect, it } from '@jest/globals'
import express, { type Express } from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth, type DidAuthConfig } from 'express-did-auth'
import request from 'supertest'
import { walletOf } from '../support/wallet.js'

const privateKey = '01'.repeat(32)
const serviceDid = await didOfPrivateKey(privateKey)
const serviceUrl = 'https://service.example'
const alice = walletOf(1)

function appWith(options: Partial<DidAuthConfig> = {}): Express {
  const app = express()
  const requireDid = setupDidAuth(app, {
    challengeSecret: 'a secret of the tests, longer than 32 bytes',
    serviceUrl,
    serviceDid,
    serviceSigner: es256kSigner(privateKey),
    ...options
  })
  app.get('/profile', requireDid, (req, res) => {
    res.json(req.user)
  })
  return app
}

/** Logs in as published clients do: the challenge by GET, the body wrapped. */
async function logIn(app: Express, textOf: (challenge: string) => string, times = 1): Promise<string[]> {
  const { body } = await request(app).get(`/request-auth/${alice.did}`).expect(200)
  const sig = alice.personalSign(textOf((body as { challenge: string }).challenge))
  const answers: string[] = []
  for (let time = 0; time < times; time++) {
    const { status, text } = await request(app)
      .post('/auth')
      .send({ response: { did: alice.did, sig } })
    answers.push(status === 200 ? '200' : `${status} ${text}`)
  }
  return answers
}

describe('what servers/MIGRATION.md tells of published clients', () => {
  it.each(['URL:', 'Are you sure you want to login to the RIF Data Vault?\nURL:'])(
    'the message that begins with %j is refused',
    async (head) => {
      const answers = await logIn(appWith(), (challenge) => `${head} ${serviceUrl}\nVerification code: ${challenge}`)
      expect(answers).toEqual(['401 Invalid challenge response'])
    }
  )

  it.each(['service.example', serviceUrl])('the new message may name %s', async (domain) => {
    const answers = await logIn(appWith(), (challenge) => `Login to ${domain}\nVerification code: ${challenge}`)
    expect(answers).toEqual(['200'])
  })

  it("replayProtection 'window' lets one signature log in again", async () => {
    const message = (challenge: string): string => `Login to service.example\nVerification code: ${challenge}`
    expect(await logIn(appWith(), message, 2)).toEqual(['200', '401 Invalid challenge response: used'])
    expect(await logIn(appWith({ replayProtection: 'window' }), message, 2)).toEqual(['200', '200'])
  })

  it('GET /refresh-csrf is 404, and x-csrf-token and x-logged-did change nothing', async () => {
    const app = appWith({ useCookies: true })
    await request(app).get('/refresh-csrf').expect(404)
    const headers = { 'x-csrf-token': 'a token', 'x-logged-did': alice.did }
    await request(app).get('/profile').set(headers).expect(401, 'Missing access token')
  })

  it('a path with a parameter is a configuration error, with the remedy', () => {
    expect(() => appWith({ requestAuthPath: '/request-auth/:did' })).toThrow('requestAuthPath')
  })

  it('another option of before is a warning', () => {
    const warnings: string[] = []
    const warn = (_fields: unknown, message: string): void => {
      warnings.push(message)
    }
    const logger = { info: () => undefined, warn, error: () => undefined }
    appWith({ logger, ...{ loginMessageHeader: 'Welcome' } })
    expect(warnings).toEqual([expect.stringContaining('loginMessageHeader is no option')])
  })
})

import { describe, expect, it } from '@jest/globals'
import { randomBytes } from 'node:crypto'
import cors from 'cors'
import express, { type Express } from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth, type DidAuthConfig } from 'express-did-auth'
import request from 'supertest'
import { readDocument } from '../support/documents.js'
import { loginText, walletOf } from '../support/wallet.js'

/**
 * What servers/MIGRATION.md and src/testing/README.md tell users to expect of answers and options. Each rule is proved below
 * (protocol/, flows/, http/); here one case each holds the pages to it.
 */
const privateKey = '01'.repeat(32)
const serviceDid = await didOfPrivateKey(privateKey)
const [alice, bob] = [walletOf(1), walletOf(2)]
const DOMAIN = 'localhost:3000'
const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }

function appWith(options: Partial<DidAuthConfig> = {}, before: (app: Express) => void = () => undefined): Express {
  const app = express()
  before(app)
  const requireDid = setupDidAuth(app, {
    challengeSecret: 'a secret of the tests, longer than 32 bytes',
    serviceUrl: `http://${DOMAIN}`,
    serviceDid,
    serviceSigner: es256kSigner(privateKey),
    logger: silent,
    ...options
  })
  app.all('/profile', requireDid, (req, res) => {
    res.json(req.user)
  })
  return app
}

type Sign = (challenge: string) => string
const signing =
  (textOf: Sign, wallet = alice): Sign =>
  (challenge) =>
    wallet.personalSign(textOf(challenge))
const good: Sign = (challenge) => loginText(DOMAIN, challenge)

async function challengeOf(app: Express, did = alice.did): Promise<string> {
  // As published clients ask.
  const { body } = await request(app).get(`/request-auth/${did}`).expect(200)
  return (body as { challenge: string }).challenge
}

/** Logs in so many times with one signature, with the body of published clients. */
async function logIn(app: Express, sign: Sign, did = alice.did, times = 1): Promise<string[]> {
  const sig = sign(await challengeOf(app, did))
  const answers: string[] = []
  for (let time = 0; time < times; time++) {
    const { status, text } = await request(app)
      .post('/auth')
      .send({ response: { did: alice.did, sig } })
    answers.push(status === 200 ? '200' : `${status} ${text}`)
  }
  return answers
}

const REFUSED = ['401 Invalid challenge response']

describe('the causes of "Invalid challenge response"', () => {
  it('are not there when domain, account, text, spelling and secret are right', async () => {
    expect(await logIn(appWith(), signing(good))).toEqual(['200'])
  })

  it.each(['127.0.0.1:3000', 'localhost:5173', 'example.com'])('another domain: %s', async (domain) => {
    const signs = signing((challenge) => loginText(domain, challenge))
    expect(await logIn(appWith(), signs)).toEqual(REFUSED)
    expect(await logIn(appWith({ loginDomains: [domain] }), signs)).toEqual(['200'])
  })

  it.each<[cause: string, Sign]>([
    ['another account', signing(good, bob)],
    ['line ends of Windows', signing((challenge) => good(challenge).replace('\n', '\r\n'))],
    ['a line feed at the end', signing((challenge) => `${good(challenge)}\n`)],
    ['no text before the challenge', signing((challenge) => `Login to ${DOMAIN}\n${challenge}`)],
    ['the message of older clients', signing((challenge) => `URL: http://${DOMAIN}\nVerification code: ${challenge}`)]
  ])('%s', async (_cause, signs) => {
    expect(await logIn(appWith(), signs)).toEqual(REFUSED)
  })

  it('another spelling of the DID', async () => {
    expect(await logIn(appWith(), signing(good), `did:ethr:rsk:${alice.address}`)).toEqual(REFUSED)
  })

  it('another secret', async () => {
    const sig = signing(good)(await challengeOf(appWith()))
    const restarted = appWith({ challengeSecret: randomBytes(32).toString('hex') })
    await request(restarted).post('/auth').send({ did: alice.did, sig }).expect(401, 'Invalid challenge response')
  })
})

describe('what MIGRATION.md promises', () => {
  it("replayProtection 'window' lets one signature log in again", async () => {
    const once = ['200', '401 Invalid challenge response: used']
    expect(await logIn(appWith(), signing(good), alice.did, 2)).toEqual(once)
    expect(await logIn(appWith({ replayProtection: 'window' }), signing(good), alice.did, 2)).toEqual(['200', '200'])
  })

  it('GET /refresh-csrf is 404, and x-csrf-token and x-logged-did change nothing', async () => {
    const app = appWith({ useCookies: true })
    await request(app).get('/refresh-csrf').expect(404)
    const headers = { 'x-csrf-token': 'a token', 'x-logged-did': alice.did }
    await request(app).get('/profile').set(headers).expect(401, 'Missing access token')
  })

  it('a path with a parameter is a configuration error, and an unknown option a warning', () => {
    expect(() => appWith({ requestAuthPath: '/request-auth/:did' })).toThrow('requestAuthPath')
    const warnings: string[] = []
    const warn = (_fields: unknown, message: string): void => void warnings.push(message)
    appWith({ logger: { ...silent, warn }, ...{ loginMessageHeader: 'Welcome' } })
    expect(warnings).toEqual([expect.stringContaining('loginMessageHeader is no option')])
  })
})

it('the lines for CORS answer a preflight, and expose what a client reads', async () => {
  const [lines] = readDocument('src/testing/README.md').blocks.filter(({ code }) => code.startsWith('app.use(cors('))
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the lines of the document themselves
  const put = new Function('app', 'cors', lines!.code) as (app: Express, use: typeof cors) => void
  const app = appWith({}, (host) => {
    put(host, cors)
  })
  const page = { Origin: 'https://app.example.com' }
  const preflight = await request(app)
    .options('/refresh-token')
    .set({ ...page, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'Idempotency-Key' })
  expect(preflight.headers).toMatchObject({
    'access-control-allow-origin': 'https://app.example.com',
    'access-control-allow-credentials': 'true',
    'access-control-allow-headers': 'Authorization,Content-Type,Idempotency-Key'
  })
  const refused = await request(app).get('/profile').set(page)
  expect(refused.status).toBe(401)
  expect(refused.headers['access-control-expose-headers']).toContain('Challenge-Expires-In')
})

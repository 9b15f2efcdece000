import { describe, expect, it } from '@jest/globals'
import { randomBytes } from 'node:crypto'
import cors from 'cors'
import express, { type Express } from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth, type DidAuthConfig } from 'express-did-auth'
import request from 'supertest'
import { readDocument } from '../support/documents.js'
import { loginText, walletOf } from '../support/wallet.js'

const privateKey = '01'.repeat(32)
const serviceDid = await didOfPrivateKey(privateKey)
const alice = walletOf(1)
const bob = walletOf(2)
const DOMAIN = 'localhost:3000'

function appWith(options: Partial<DidAuthConfig> = {}, before: (app: Express) => void = () => undefined): Express {
  const app = express()
  before(app)
  const requireDid = setupDidAuth(app, {
    challengeSecret: 'a secret of the tests, longer than 32 bytes',
    serviceUrl: `http://${DOMAIN}`,
    serviceDid,
    serviceSigner: es256kSigner(privateKey),
    logger: { info: () => undefined, warn: () => undefined, error: () => undefined },
    ...options
  })
  app.all('/profile', requireDid, (req, res) => {
    res.json(req.user)
  })
  return app
}

async function challengeOf(app: Express, did: string): Promise<string> {
  const { body } = await request(app).post('/request-auth').send({ did }).expect(200)
  return (body as { challenge: string }).challenge
}

async function logIn(app: Express, sign: (challenge: string) => string, did = alice.did): Promise<string> {
  const sig = sign(await challengeOf(app, did))
  const { status, text } = await request(app).post('/auth').send({ did: alice.did, sig })
  return `${status} ${status === 200 ? '' : text}`.trim()
}

async function accessToken(app: Express): Promise<string> {
  const sig = alice.personalSign(loginText(DOMAIN, await challengeOf(app, alice.did)))
  const { body } = await request(app).post('/auth').send({ did: alice.did, sig }).expect(200)
  return (body as { accessToken: string }).accessToken
}

describe('the five causes of "Invalid challenge response"', () => {
  const REFUSED = '401 Invalid challenge response'
  const sign = (challenge: string): string => alice.personalSign(loginText(DOMAIN, challenge))

  it('are not there when domain, account, text, spelling and secret are right', async () => {
    expect(await logIn(appWith(), sign)).toBe('200')
  })

  it.each(['127.0.0.1:3000', 'localhost:5173', 'example.com'])('another domain: %s', async (domain) => {
    const signFor = (challenge: string): string => alice.personalSign(loginText(domain, challenge))
    expect(await logIn(appWith(), signFor)).toBe(REFUSED)
    expect(await logIn(appWith({ loginDomains: [domain] }), signFor)).toBe('200')
  })

  it('another account', async () => {
    expect(await logIn(appWith(), (challenge) => bob.personalSign(loginText(DOMAIN, challenge)))).toBe(REFUSED)
  })

  it.each([
    ['line ends of Windows', (challenge: string) => loginText(DOMAIN, challenge).replace('\n', '\r\n')],
    ['a line feed at the end', (challenge: string) => `${loginText(DOMAIN, challenge)}\n`],
    ['no text before the challenge', (challenge: string) => `Login to ${DOMAIN}\n${challenge}`]
  ])('another text: %s', async (_name, textOf) => {
    expect(await logIn(appWith(), (challenge) => alice.personalSign(textOf(challenge)))).toBe(REFUSED)
  })

  it('another spelling of the DID', async () => {
    expect(await logIn(appWith(), sign, `did:ethr:rsk:${alice.address}`)).toBe(REFUSED)
  })

  it('are told apart by the log at debug: accepted domains, recovered addresses', async () => {
    const lines: Record<string, unknown>[] = []
    const noLine = (): void => undefined
    const logger = {
      info: noLine,
      warn: noLine,
      error: noLine,
      debug: (line: (typeof lines)[number]) => lines.push(line)
    }
    await logIn(appWith({ logger }), (challenge) => bob.personalSign(loginText(DOMAIN, challenge)))
    expect(lines).toContainEqual(
      expect.objectContaining({
        event: 'request-refused',
        code: 'ERR_CHALLENGE',
        reason: expect.objectContaining({ acceptedDomains: [DOMAIN, 'localhost', `http://${DOMAIN}`] })
      })
    )
    expect(JSON.stringify(lines)).toContain(bob.address.toLowerCase())
  })

  it('another secret', async () => {
    const sig = sign(await challengeOf(appWith(), alice.did))
    const restarted = appWith({ challengeSecret: randomBytes(32).toString('hex') })
    await request(restarted).post('/auth').send({ did: alice.did, sig }).expect(401, 'Invalid challenge response')
  })
})

describe('what else the troubleshooting page promises', () => {
  it('refuses a token after Bearer, and accepts it after DIDAuth', async () => {
    const app = appWith()
    const token = await accessToken(app)
    const withBearer = await request(app).get('/profile').set('Authorization', `Bearer ${token}`)
    expect([withBearer.status, withBearer.text]).toEqual([401, 'Invalid access token'])
    await request(app).get('/profile').set('Authorization', `DIDAuth ${token}`).expect(200)
  })

  it('maxRequestsPerTimeSlot answers 429 with Retry-After, and Infinity switches it off', async () => {
    const statusesWith = async (options: Partial<DidAuthConfig>): Promise<number[]> => {
      const app = appWith(options)
      const authorization = `DIDAuth ${await accessToken(app)}`
      const statuses: number[] = []
      for (let count = 0; count < 22; count++) {
        const answer = await request(app).get('/profile').set('Authorization', authorization)
        statuses.push(answer.status)
        if (answer.status === 429) expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
      }
      return statuses
    }
    expect((await statusesWith({})).slice(19, 22)).toEqual([200, 429, 429])
    expect((await statusesWith({ maxRequestsPerTimeSlot: Infinity })).slice(19, 22)).toEqual([200, 200, 200])
  })

  it('trustedOrigins lets a page of another port write with cookies', async () => {
    const postFrom = async (options: Partial<DidAuthConfig>): Promise<number> => {
      const app = appWith({ useCookies: true, ...options })
      const sig = alice.personalSign(loginText(DOMAIN, await challengeOf(app, alice.did)))
      const { headers } = await request(app).post('/auth').send({ did: alice.did, sig }).expect(200)
      const cookies = (headers['set-cookie'] as unknown as string[]).map((cookie) => cookie.split(';')[0]!)
      const page = { Origin: 'http://localhost:5173', 'Sec-Fetch-Site': 'same-site' }
      return (await request(app).post('/profile').set('Cookie', cookies).set(page)).status
    }
    expect(await postFrom({})).toBe(403)
    expect(await postFrom({ trustedOrigins: ['http://localhost:5173'] })).toBe(200)
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
})

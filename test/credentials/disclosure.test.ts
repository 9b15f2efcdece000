import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { decodeJWT } from 'did-jwt'
import type { Express } from 'express'
import request from 'supertest'
import type { DidAuthConfig, SelectiveDisclosureResponse } from 'express-did-auth'
import { logIn } from '../support/app-client.js'
import { serviceUrl, serviceWallet, START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { credentialJwt, credentialPayload, signUp } from '../support/credentials.js'
import { walletOf } from '../support/wallet.js'

const user = walletOf(1)
const issuer = walletOf(7001)

const requiredClaims = [
  { claimType: 'name', claimValue: '', reason: 'to greet you', essential: true },
  { claimType: 'city', claimValue: '', essential: false },
  { claimType: 'age', claimValue: '' }
]

const apps: TestApp[] = []

afterEach(async () => {
  await Promise.all(apps.splice(0).map(({ requireDid }) => requireDid.close()))
})

async function appWith(config: Partial<DidAuthConfig>): Promise<TestApp> {
  const app = await testApp(config)
  apps.push(app)
  return app
}

async function sdrOf(app: Express): Promise<string> {
  const { body } = await request(app).post('/request-signup').send({ did: user.did }).expect(200)
  return (body as { sdr: string }).sdr
}

function decode(jwt: string): { header: unknown; payload: Record<string, unknown> } {
  const { header, payload } = decodeJWT(jwt)
  return { header, payload }
}

async function meWith(app: Express, accessToken: string): Promise<number> {
  const { status } = await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`)
  return status
}

describe('the selective disclosure request', () => {
  it('is a JWT of the service that says what is asked, of whom, and until when', async () => {
    const { app, clock } = await appWith({ requiredCredentials: ['Email', 'Passport'], requiredClaims })
    clock.seconds = START_SECONDS + 100
    expect(decode(await sdrOf(app))).toEqual({
      header: { alg: 'ES256K', typ: 'JWT' },
      payload: {
        type: 'sdr',
        issuer: serviceWallet.did,
        subject: user.did,
        replyUrl: 'https://service.example/signup',
        claims: [
          { claimType: 'name', claimValue: '', reason: 'to greet you', essential: true },
          { claimType: 'city', claimValue: '', essential: false },
          { claimType: 'age', claimValue: '' }
        ],
        credentials: ['Email', 'Passport'],
        iss: serviceWallet.did,
        aud: serviceUrl,
        iat: 1_800_000_100,
        // The end of the challenge that it came with.
        exp: 1_800_000_300
      }
    })
  })

  it('comes with GET as well, and in neither form when nothing is required', async () => {
    const asking = await appWith({ requiredClaims })
    const { body } = await request(asking.app).get(`/request-signup/${user.did}`).expect(200)
    expect(Object.keys(body as object).sort()).toEqual(['challenge', 'sdr'])
    const silent = await appWith({})
    const { body: without } = await request(silent.app).post('/request-signup').send({ did: user.did }).expect(200)
    expect(Object.keys(without as object)).toEqual(['challenge'])
  })

  it('never comes at login', async () => {
    const { app } = await appWith({ requiredCredentials: ['Email'] })
    const { body } = await request(app).post('/request-auth').send({ did: user.did }).expect(200)
    expect(Object.keys(body as object)).toEqual(['challenge'])
  })

  it('follows a configured path, and names the user in the spelling received', async () => {
    const { app } = await appWith({ requiredCredentials: ['Email'], signupPath: '/join' })
    const did = `did:ethr:rsk:${user.address}`
    const { body } = await request(app).post('/request-signup').send({ did }).expect(200)
    expect(decode((body as { sdr: string }).sdr).payload).toMatchObject({
      subject: did,
      replyUrl: 'https://service.example/join'
    })
  })

  it('is no access token', async () => {
    const { app } = await appWith({ requiredCredentials: ['Email'] })
    expect(await meWith(app, await sdrOf(app))).toBe(401)
  })

  it('is no credential', async () => {
    const { app } = await appWith({ requiredCredentials: ['Email'], signupBusinessLogic: () => undefined })
    const { status, text } = await signUp(app, user, { credentials: [await sdrOf(app)] })
    expect([status, text]).toEqual([401, 'Invalid credential'])
  })
})

describe('signupBusinessLogic', () => {
  const email = credentialJwt(issuer, user.did)
  const vc = credentialPayload(issuer.did, user.did).vc

  async function receivedWith(
    config: Partial<DidAuthConfig>,
    disclosed: { credentials?: string[]; claims?: unknown }
  ): Promise<SelectiveDisclosureResponse[]> {
    const received: SelectiveDisclosureResponse[] = []
    const { app } = await appWith({
      ...config,
      signupBusinessLogic: (response) => {
        received.push(response)
      }
    })
    expect((await signUp(app, user, disclosed)).status).toBe(200)
    return received
  }

  it('receives the disclosure, and that nothing is missing', async () => {
    const claims = [{ claimType: 'name', claimValue: 'Alice' }]
    const config = { requiredCredentials: ['Email'], requiredClaims }
    expect(await receivedWith(config, { credentials: [email], claims })).toEqual([
      {
        issuer: user.did,
        subject: serviceWallet.did,
        claims: [{ claimType: 'name', claimValue: 'Alice' }],
        credentials: [
          {
            jwt: email,
            issuer: issuer.did,
            subject: user.did,
            type: ['VerifiableCredential', 'Email'],
            credentialSubject: { id: user.did, email: 'alice@example.org' },
            expiresAtSeconds: 1_800_086_400,
            vc
          }
        ],
        missing: { credentials: [], claims: [] }
      }
    ])
  })

  it('receives what is missing: schemas, and essential claims only', async () => {
    const claims = [{ claimType: 'city', claimValue: 'Vienna' }]
    const config = { requiredCredentials: ['Passport', 'Email'], requiredClaims }
    const [response] = await receivedWith(config, { credentials: [email], claims })
    expect(response?.missing).toEqual({ credentials: ['Passport'], claims: ['name'] })
  })

  it('runs without anything required or disclosed', async () => {
    expect(await receivedWith({}, {})).toEqual([
      {
        issuer: user.did,
        subject: serviceWallet.did,
        claims: [],
        credentials: [],
        missing: { credentials: [], claims: [] }
      }
    ])
  })

  it.each([
    ['the only segment', { id: 'Passport' }],
    ['the last segment', { id: 'https://schemas.example/v1/Passport', type: 'JsonSchema' }],
    ['one of several', [{ id: 'https://schemas.example/v1/Email' }, { id: 'https://schemas.example/v1/Passport' }]]
  ])('finds a schema that is %s of credentialSchema.id', async (_name, credentialSchema) => {
    const credential = credentialJwt(issuer, user.did, {
      vc: { ...vc, type: ['VerifiableCredential'], credentialSchema }
    })
    const [response] = await receivedWith({ requiredCredentials: ['Passport'] }, { credentials: [credential] })
    expect(response?.missing.credentials).toEqual([])
  })

  it.each([
    ['another case', { id: 'https://schemas.example/passport' }],
    ['a segment before the last', { id: 'https://schemas.example/Passport/v1' }],
    ['a part of a segment', { id: 'https://schemas.example/MyPassport' }],
    ['no id', { type: 'Passport' }],
    ['an id that is a number', { id: 5 }],
    ['text', 'https://schemas.example/Passport'],
    ['null', null]
  ])('misses a schema when credentialSchema is %s', async (_name, credentialSchema) => {
    const credential = credentialJwt(issuer, user.did, { vc: { ...vc, credentialSchema } })
    const [response] = await receivedWith({ requiredCredentials: ['Passport'] }, { credentials: [credential] })
    expect(response?.missing.credentials).toEqual(['Passport'])
  })
})

describe('a sign up without business logic', () => {
  it('is 401 when a credential or an essential claim is missing, and 200 when nothing is', async () => {
    const { app } = await appWith({ requiredCredentials: ['Email'], requiredClaims })
    const claims = [{ claimType: 'name', claimValue: 'Alice' }]
    const credentials = [credentialJwt(issuer, user.did)]
    const answers = []
    for (const disclosed of [{}, { claims }, { credentials }, { credentials, claims }]) {
      const { status, text } = await signUp(app, user, disclosed)
      answers.push([status, status === 200 ? '' : text])
    }
    const missing = [401, 'Missing credentials or claims']
    expect(answers).toEqual([missing, missing, missing, [200, '']])
  })

  it('that is refused for what is missing leaves the challenge good', async () => {
    const { app } = await appWith({ requiredClaims })
    const challenge = async (): Promise<unknown> => {
      const { body } = await request(app).post('/request-signup').send({ did: user.did })
      return (body as { challenge: unknown }).challenge
    }
    const before = await challenge()
    expect((await signUp(app, user)).status).toBe(401)
    expect(await challenge()).toBe(before)
  })
})

describe('the field claims', () => {
  it.each([
    ['null', null],
    ['an object', {}],
    ['text', 'name'],
    ['a list of text', ['name']],
    ['a claim without value', [{ claimType: 'name' }]],
    ['a claim with a number', [{ claimType: 'age', claimValue: 5 }]],
    ['a reason that is a number', [{ claimType: 'a', claimValue: 'b', reason: 5 }]],
    ['essential that is text', [{ claimType: 'a', claimValue: 'b', essential: 'yes' }]],
    ['51 claims', Array.from({ length: 51 }, () => ({ claimType: 'a', claimValue: 'b' }))],
    ['a value of 4097 characters', [{ claimType: 'a', claimValue: 'x'.repeat(4097) }]]
  ])('must not be %s', async (_name, claims) => {
    const { app } = await appWith({})
    const { status, text } = await signUp(app, user, { claims })
    expect([status, text]).toEqual([401, 'Invalid request'])
  })

  it('keeps the four fields of a claim and drops others', async () => {
    const received: SelectiveDisclosureResponse[] = []
    const { app } = await appWith({ signupBusinessLogic: (response) => void received.push(response) })
    const claim = { claimType: 'a', claimValue: 'b', reason: 'c', essential: true }
    expect((await signUp(app, user, { claims: [{ ...claim, admin: true }] })).status).toBe(200)
    expect(received[0]?.claims).toEqual([claim])
  })
})

describe.each(['signupBusinessLogic', 'authenticationBusinessLogic'] as const)('the outcome of %s', (option) => {
  async function enter(logic: () => unknown): Promise<{ app: TestApp; status: number; text: string; body: unknown }> {
    const app = await appWith({ [option]: logic })
    if (option === 'signupBusinessLogic') return { app, ...pick(await signUp(app.app, user)) }
    const { body } = await request(app.app).post('/request-auth').send({ did: user.did })
    const { challenge } = body as { challenge: string }
    const sig = user.personalSign(`Login to service.example\nVerification code: ${challenge}`)
    return { app, ...pick(await request(app.app).post('/auth').send({ did: user.did, sig })) }
  }

  const pick = ({ status, text, body }: request.Response) => ({ status, text, body: body as unknown })

  it('that is a refusal is 401 with its message, a failure 500 without', async () => {
    const thrown = [new Error('You are <b>not</b> on the list'), new RangeError('Not today')]
    const answers = [
      await enter(() => false),
      ...(await Promise.all(thrown.map((one) => enter(() => Promise.reject(one)))))
    ]
    expect(answers.map(({ status, text }) => [status, text])).toEqual([
      [401, 'Refused'],
      [401, 'You are <b>not</b> on the list'],
      [500, 'Internal error']
    ])
  })

  it('tokenClaims are added to the access token, and to that of each refresh', async () => {
    const { app, body } = await enter(() => ({ tokenClaims: { role: 'admin', groups: ['a', 'b'], nested: { n: 1 } } }))
    const added = { role: 'admin', groups: ['a', 'b'], nested: { n: 1 } }
    let tokens = body as { accessToken: string; refreshToken: string }
    for (let round = 0; round < 3; round += 1) {
      expect(decode(tokens.accessToken).payload).toMatchObject(added)
      expect(await meWith(app.app, tokens.accessToken)).toBe(200)
      app.clock.seconds += 60
      const { refreshToken } = tokens
      tokens = (await request(app.app).post('/refresh-token').send({ refreshToken }).expect(200)).body as typeof tokens
    }
  })

  it('tokenClaims override no claim of the protocol', async () => {
    const evil = Object.fromEntries(
      'iss aud sub exp nbf iat jti sid use vc vp type'.split(' ').map((name) => [name, 'evil'])
    )
    const { app, body } = await enter(() => ({ tokenClaims: { ...evil, role: 'admin' } }))
    const { accessToken, refreshToken } = body as { accessToken: string; refreshToken: string }
    const refreshed = await request(app.app).post('/refresh-token').send({ refreshToken }).expect(200)
    for (const token of [accessToken, (refreshed.body as { accessToken: string }).accessToken]) {
      const { payload } = decode(token)
      expect(payload).toEqual({
        role: 'admin',
        iss: serviceWallet.did,
        aud: serviceUrl,
        sub: user.did,
        exp: 1_800_000_600,
        nbf: 1_800_000_000,
        iat: 1_800_000_000,
        jti: expect.any(String),
        sid: expect.any(String),
        use: 'access'
      })
      expect(await meWith(app.app, token)).toBe(200)
    }
  })
})

describe('authenticationBusinessLogic', () => {
  it('receives the DID as received, its canonical form and its address, and nothing else', async () => {
    const logic = jest.fn<(...args: unknown[]) => unknown>()
    const { app } = await appWith({ authenticationBusinessLogic: logic })
    const did = `did:ethr:rsk:${user.address}`
    await logIn(app, user, did)
    const identity = { canonicalDid: user.did, address: user.address.toLowerCase() }
    expect(logic.mock.calls).toEqual([[did, identity]])
  })

  it('does not run at sign up, nor signupBusinessLogic at login', async () => {
    const authentication = jest.fn()
    const signup = jest.fn()
    const { app } = await appWith({ authenticationBusinessLogic: authentication, signupBusinessLogic: signup })
    expect((await signUp(app, user)).status).toBe(200)
    expect([authentication.mock.calls.length, signup.mock.calls.length]).toEqual([0, 1])
    await logIn(app, user)
    expect([authentication.mock.calls.length, signup.mock.calls.length]).toEqual([1, 1])
  })
})

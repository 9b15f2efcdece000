import { afterEach, describe, expect, it, jest } from '@jest/globals'
import request from 'supertest'
import { es256kSigner, memoryStore, type QuotaCharge } from 'express-did-auth'
import { logIn, signedLogin, signUpChallenge } from '../support/app-client.js'
import { breakableStore, serviceWallet, testApp, type StoreVerb } from '../support/test-app.js'
import { loginText, walletOf } from '../support/wallet.js'

const wallet = walletOf(1)

const unavailable = { status: 503, text: 'Store unavailable, try again' }

describe('a store out of reach', () => {
  it.each<[StoreVerb, string, (app: never) => Promise<{ status: number; text: string; headers: object }>]>([
    ['chargeQuota', 'POST /request-auth', async (app) => request(app).post('/request-auth').send({ did: wallet.did })],
    ['countChallengeUses', 'GET /request-auth/:did', async (app) => request(app).get(`/request-auth/${wallet.did}`)],
    ['countChallengeUses', 'GET /request-signup/:did', async (app) => request(app).get(`/request-signup/${wallet.did}`)]
  ])('in %s makes %s 503', async (verb, _route, send) => {
    const { store, state } = breakableStore(verb)
    const { app, log } = await testApp({ store })
    state.isBroken = true
    const response = await send(app as never)
    expect(response).toMatchObject(unavailable)
    expect(response.headers).toMatchObject({ 'retry-after': '5' })
    expect(log).toEqual([
      {
        level: 'error',
        fields: expect.objectContaining({ event: 'request-failed', code: 'ERR_STORE' }),
        message: 'Store unavailable, try again'
      }
    ])
  })

  it.each<StoreVerb>(['chargeQuota', 'countChallengeUses', 'consumeChallenge', 'createSession'])(
    'in %s makes a login and a sign up 503',
    async (verb) => {
      for (const path of ['/auth', '/signup']) {
        const { store, state } = breakableStore(verb)
        const { app } = await testApp({ store })
        const login = await signedLogin(app, wallet)
        state.isBroken = true
        expect(await request(app).post(path).send(login)).toMatchObject(unavailable)
      }
    }
  )

  it.each<StoreVerb>(['findSession', 'rotateRefreshToken'])(
    'in %s makes a refresh 503, and the token stays good',
    async (verb) => {
      const { store, state } = breakableStore(verb)
      const { app } = await testApp({ store })
      const { refreshToken } = await logIn(app, wallet)
      state.isBroken = true
      expect(await request(app).post('/refresh-token').send({ refreshToken })).toMatchObject(unavailable)
      state.isBroken = false
      await request(app).post('/refresh-token').send({ refreshToken }).expect(200)
    }
  )

  it('makes a logout 503', async () => {
    const { store, state } = breakableStore('endSession')
    const { app } = await testApp({ store })
    const { accessToken } = await logIn(app, wallet)
    state.isBroken = true
    const response = await request(app).post('/logout').set('Authorization', `DIDAuth ${accessToken}`)
    expect(response).toMatchObject(unavailable)
  })

  it('makes a guarded request 503, also when it throws and does not reject', async () => {
    const store = memoryStore()
    const { app } = await testApp({
      store: Object.assign(store, {
        chargeQuota: ({ kind }: QuotaCharge) => {
          if (kind === 'request') throw new Error('connection refused by 10.0.0.7')
          return Promise.resolve({ isCharged: true, count: 1, resetsAtSeconds: 0 })
        }
      })
    })
    const { accessToken } = await logIn(app, wallet)
    expect(await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`)).toMatchObject(unavailable)
  })
})

describe('a signer', () => {
  const sign = es256kSigner(serviceWallet.privateKey)

  it.each<[string, () => Promise<unknown>]>([
    ['that rejects', () => Promise.reject(new Error('key server away'))],
    ['that returns garbage', async () => 'garbage'],
    ['that returns nothing', async () => undefined]
  ])('%s makes a login 503, and a challenge comes nevertheless', async (_name, fail) => {
    let isDown = false
    const { app } = await testApp({
      serviceSigner: async (data) => (isDown ? (fail() as Promise<string>) : sign(data))
    })
    isDown = true
    const login = await signedLogin(app, wallet)
    const response = await request(app).post('/auth').send(login).expect(503, 'Signer unavailable, try again')
    expect(response.headers['retry-after']).toBe('5')
  })

  it('that fails at first is asked again by the next request', async () => {
    let calls = 0
    const start = () =>
      testApp({
        serviceSigner: async (data) => {
          calls += 1
          if (calls === 1) throw new Error('not up yet')
          return sign(data)
        }
      })
    await expect(start()).rejects.toMatchObject({ code: 'ERR_SIGNER' })
    calls = 1
    const { app } = await start()
    const { accessToken } = await logIn(app, wallet)
    await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
  })
})

describe('business logic', () => {
  afterEach(() => {
    jest.useRealTimers()
    jest.restoreAllMocks()
  })

  it.each<[string, () => unknown, string]>([
    ['rejects', () => Promise.reject(new Error('Not today: später')), 'Not today: später'],
    ['returns false', () => false, 'Refused'],
    ['throws two lines', () => Promise.reject(new Error('a\r\nSet-Cookie: b')), 'a Set-Cookie: b']
  ])('that %s makes a login and a sign up 401', async (_name, logic, text) => {
    const { app } = await testApp({ authenticationBusinessLogic: logic, signupBusinessLogic: logic })
    const response = await request(app)
      .post('/auth')
      .send(await signedLogin(app, wallet))
      .expect(401, text)
    expect(response.headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'www-authenticate': 'DIDAuth realm="https://service.example"'
    })
    const sig = wallet.personalSign(loginText('service.example', await signUpChallenge(app, wallet.did)))
    const problem = await request(app)
      .post('/signup')
      .set('Accept', 'application/problem+json')
      .send({ did: wallet.did, sig })
      .expect(401)
    expect(problem.body).toEqual({ type: 'about:blank', title: text, status: 401, code: 'ERR_BUSINESS_LOGIC' })
  })

  it.each([[{ tokenClaims: 'text' }], [{ tokenClaims: { a: 'x'.repeat(1024) } }]])(
    'that returns %.40j is a fault of the service: 500',
    async (result) => {
      const { app, log } = await testApp({ authenticationBusinessLogic: () => result })
      await request(app)
        .post('/auth')
        .send(await signedLogin(app, wallet))
        .expect(500, 'Internal error')
      expect(log).toHaveLength(1)
    }
  )

  it('still pending after 10 s makes a login 503', async () => {
    let asked: () => void = () => undefined
    const isAsked = new Promise<void>((resolve) => (asked = resolve))
    const { app } = await testApp({
      authenticationBusinessLogic: () => {
        asked()
        return new Promise(() => undefined)
      }
    })
    const login = await signedLogin(app, wallet)
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'Date', 'performance', 'hrtime'] })
    const answer = request(app)
      .post('/auth')
      .send(login)
      .then((response) => response)
    await isAsked
    jest.advanceTimersByTime(9_999)
    jest.advanceTimersByTime(1)
    expect(await answer).toMatchObject({ status: 503, text: 'Timed out, try again' })
  })

  it.each(['authenticationBusinessLogic', 'refreshBusinessLogic'])(
    'which used up the 10 s of a request leaves its store no time: %s',
    async (option) => {
      let spent = 0
      const now = performance.now.bind(performance)
      jest.spyOn(performance, 'now').mockImplementation(() => now() + spent)
      const logic = (): void => void (spent += 11_000)
      const { app } = await testApp({ store: breakableStore('ping').store, [option]: logic })
      const login = await signedLogin(app, wallet)
      const tokens = await request(app).post('/auth').send(login)
      const answer = option.startsWith('a') ? tokens : await request(app).post('/refresh-token').send(tokens.body)
      expect(answer).toMatchObject(unavailable)
    }
  )
})

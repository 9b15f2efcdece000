import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { es256kSigner, memoryStore, type QuotaCharge, type Signer, type Store } from 'express-did-auth'
import { breakableStore, testApp, type StoreVerb } from '../support/servers/test-app.js'
import { createNumberedWallet, serviceWallet } from '../support/fixtures/fixtures.js'

const { did } = createNumberedWallet(1)
const UNAVAILABLE = 'Store unavailable, try again'

/** Creates an application whose store fails in one verb from now on, with tokens from before. */
async function brokenApp(verb: StoreVerb) {
  const { store, state } = breakableStore(verb)
  const test = await testApp({ store })
  const [login, tokens] = [await test.createSignedLogin(createNumberedWallet(2)), await test.logIn()]
  state.isBroken = true
  return { ...test, ...tokens, login, state }
}

describe('an unavailable store', () => {
  it.each(['/request-auth', '/request-signup'])('causes 503 for %s, with one line in the log', async (path) => {
    const { post, log } = await brokenApp('countChallengeUses')
    expect((await post(path, { did }).expect(503, UNAVAILABLE)).headers['retry-after']).toBe('5')
    const fields = expect.objectContaining({ event: 'request-failed', code: 'ERR_STORE' })
    expect(log).toEqual([{ level: 'error', fields, message: UNAVAILABLE }])
  })

  it.each(['/auth', '/signup'])('causes 503 for %s', async (path) => {
    const { post, login } = await brokenApp('chargeQuota')
    await post(path, login).expect(503, UNAVAILABLE)
  })

  it.each<StoreVerb>(['findSession', 'rotateRefreshToken'])(
    'causes 503 for a refresh if %s fails, and the token stays valid',
    async (verb) => {
      const { refresh, refreshToken, state } = await brokenApp(verb)
      await refresh(refreshToken).expect(503, UNAVAILABLE)
      state.isBroken = false
      await refresh(refreshToken).expect(200)
    }
  )

  it('causes 503 for a logout', async () => {
    const { logOut, accessToken } = await brokenApp('endSession')
    await logOut(accessToken).expect(503, UNAVAILABLE)
  })

  it('causes 503 for a guarded request, even if it throws and does not reject', async () => {
    const chargeQuota = ({ kind }: QuotaCharge) => {
      if (kind === 'request') throw new Error('connection refused by 10.0.0.7')
      return Promise.resolve({ isCharged: true, count: 1, resetsAtSeconds: 0 })
    }
    const { me, logIn } = await testApp({ store: Object.assign(memoryStore(), { chargeQuota }) })
    await me((await logIn()).accessToken).expect(503, UNAVAILABLE)
  })

  // Cause: charges had a separate limit of 5 s, so that a request took longer than its 10 s.
  it('shares the 10 s of a request with the quotas', async () => {
    let spent = 0
    const now = performance.now.bind(performance)
    jest.spyOn(performance, 'now').mockImplementation(() => now() + spent)
    const store = memoryStore()
    const counted = jest.spyOn(store, 'chargeQuota')
    const findSession = store.findSession.bind(store)
    jest.spyOn(store, 'findSession').mockImplementation((...args) => {
      spent += 11_000
      return findSession(...args)
    })
    const { get, logIn } = await testApp(
      { store: Object.assign(Object.create(store) as Store, store) },
      { after: (app, requireDid) => app.get('/pay', requireDid.with({ checkSession: true }), (_, res) => res.end()) }
    )
    const { accessToken } = await logIn()
    counted.mockClear()
    await get('/pay', { Authorization: `DIDAuth ${accessToken}` }).expect(503, UNAVAILABLE)
    expect(counted).not.toHaveBeenCalled()
  })
})

describe('an unavailable signer', () =>
  it('causes 503 for logins, sign-up requests with an sdr and refreshes; other routes work', async () => {
    const sign = es256kSigner(serviceWallet.privateKey)
    let isAway = false
    const serviceSigner: Signer = (data) =>
      isAway ? Promise.reject(new Error('the key store at 10.0.0.1 is unavailable')) : sign(data)
    const { post, me, refresh, log, ...test } = await testApp({ serviceSigner, requiredCredentials: ['Email'] })
    const { refreshToken, accessToken } = await test.logIn()
    const login = await test.createSignedLogin()
    isAway = true
    for (const answer of [post('/auth', login), post('/request-signup', { did }), refresh(refreshToken)]) {
      expect((await answer.expect(503, 'Signer unavailable, try again')).headers['retry-after']).toBe('5')
    }
    expect(log.filter(({ level }) => level === 'error')).toHaveLength(3)
    await me(accessToken).expect(200)
    isAway = false
    await refresh(refreshToken).expect(200)
  }))

describe('business logic', () => {
  afterEach(() => {
    jest.useRealTimers()
    jest.restoreAllMocks()
  })

  it.each<[string, () => unknown, number, string]>([
    ['rejects', () => Promise.reject(new Error('Not <b>today</b>: später')), 401, 'Not <b>today</b>: später'],
    ['returns claims that are none', () => ({ tokenClaims: 'text' }), 500, 'Internal error']
  ])('causes this response to a login and a sign-up if it %s %#', async (_name, logic, status, title) => {
    const { post, createSignedLogin } = await testApp({
      authenticationBusinessLogic: logic,
      signupBusinessLogic: logic
    })
    const { headers } = await post('/auth', await createSignedLogin()).expect(status, title)
    expect(headers['content-type']).toBe('text/plain; charset=utf-8')
    const problem = await post('/signup', await createSignedLogin(createNumberedWallet(2)), {
      Accept: 'application/problem+json'
    })
    const code = status === 401 ? 'ERR_BUSINESS_LOGIC' : 'ERR_INTERNAL'
    expect(problem.body).toEqual({ type: 'about:blank', title, status, code })
  })

  it('causes 503 for a login if it is pending after 10 s', async () => {
    let asked: () => void = () => undefined
    const isAsked = new Promise<void>((resolve) => (asked = resolve))
    const authenticationBusinessLogic = () => {
      asked()
      return new Promise(() => undefined)
    }
    const { post, createSignedLogin } = await testApp({ authenticationBusinessLogic })
    const login = await createSignedLogin()
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'Date', 'performance', 'hrtime'] })
    const answer = post('/auth', login).then((response) => response)
    await isAsked
    jest.advanceTimersByTime(10_000)
    expect(await answer).toMatchObject({ status: 503, text: 'Timed out, try again' })
  })

  it.each(['authenticationBusinessLogic', 'refreshBusinessLogic'])(
    'leaves its store no time if it used up the 10 s of a request: %s',
    async (option) => {
      let spent = 0
      const now = performance.now.bind(performance)
      jest.spyOn(performance, 'now').mockImplementation(() => now() + spent)
      const logic = (): void => void (spent += 11_000)
      const { post, createSignedLogin, refresh } = await testApp({
        store: breakableStore('ping').store,
        [option]: logic
      })
      const tokens = await post('/auth', await createSignedLogin())
      const answer = option.startsWith('a') ? tokens : await refresh(tokens.body.refreshToken)
      expect([answer.status, answer.text]).toEqual([503, UNAVAILABLE])
    }
  )
})

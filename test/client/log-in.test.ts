import { beforeEach, describe, expect, it } from '@jest/globals'
import express from 'express'
import { DidAuthClient, DidAuthClientError } from 'express-did-auth-client'
import { catchFailure, startServer } from '../support/fixtures/client-error.js'
import {
  alice,
  type ClientService,
  fakeClientTime,
  createPlainWallet,
  setGlobals,
  requestStatus,
  startClientService
} from '../support/servers/client-service.js'
import { createCredentialJwt } from '../support/fixtures/credentials.js'
import { until } from '../support/fixtures/until.js'
import { createThrowing } from '../support/fixtures/refusal.js'
import { createNumberedWallet, createWatchedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

let service: ClientService

beforeEach(async () => {
  service = await startClientService()
})

describe('a login', () =>
  it('ends the session that it replaces, also that of another account', async () => {
    const auth = await service.signedIn()
    await auth.logIn({ wallet: createPlainWallet(createNumberedWallet(2)) })
    await auth.logIn({ wallet: createPlainWallet(alice) })
    await until(() => service.exchanges.filter(({ path, status }) => path === '/logout' && status === 200).length === 2)
    for (const { did } of [alice, createNumberedWallet(2)]) {
      const active = await service.requireDid.sessions.list(did)
      expect(active.map(({ sessionId }) => sessionId)).toEqual(did === alice.did ? [auth.session?.sessionId] : [])
    }
    expect(await requestStatus(auth)).toBe(200)
  }))

describe('DidAuthClient.logIn', () => {
  it('opens a session that fetch uses on guarded routes', async () => {
    const auth = service.client()
    const session = await auth.logIn()
    const sessionId = expect.any(String)
    const claims = expect.objectContaining({ sub: alice.did, sid: session.sessionId })
    expect(session).toEqual({ did: alice.did, sessionId, expiresAt: START_SECONDS + 600, isDeviceBound: false, claims })
    expect(auth.session).toBe(session)
    const answer = await auth.fetch('/me')
    expect(await answer.json()).toMatchObject({ user: { did: alice.did } })
  })

  it('signs for the host of the URL, also for a service under a path', async () => {
    const app = express()
    const url = await startServer(app)
    const mounted = await startClientService({ serviceUrl: url }, { prefix: '/login' })
    app.use(mounted.app)
    const auth = new DidAuthClient({ url: `${url}/login/`, wallet: createPlainWallet(alice), clock: mounted.clock })
    expect(auth.url).toBe(`${url}/login`)
    await auth.logIn()
    expect((await auth.fetch('me')).status).toBe(200)
    expect((await auth.fetch('/me')).status).toBe(200)
  })

  const refused = 'Your signature was refused. Check your wallet, and try again.'
  it.each([
    ['login', 'CHALLENGE', refused],
    ['siwe', 'CROSS_ORIGIN', 'The service refused this client. Contact its operator.']
  ] as const)('also names the address of the service on a page at another one (%s)', async (message, code, text) => {
    service = await startClientService({ siwe: true, loginDomains: ['app.example'] })
    const logInAt = (location: string) => {
      setGlobals({ location: new URL(location) })
      return catchFailure(service.client({ domain: new URL(location).host, message }).logIn())
    }
    const userMessage = `${text} Or open https://service.example.`
    expect(await logInAt(`${service.url}/page`)).toMatchObject({ code, userMessage })
    // A page of another origin calls the service there on purpose.
    expect(await logInAt('https://other.example')).toMatchObject({ code, userMessage: text })
  })

  it.each([
    ['no other address to a service whose name is no URL', 'auth', true, refused],
    ['no other address without a page', 'https://service.example', false, refused],
    [
      'the signature first on a page whose host the service may accept',
      'https://service.example',
      true,
      `${refused} Or open https://service.example.`
    ]
  ])('names %s', async (_name, realm, hasPage, userMessage) => {
    if (hasPage) setGlobals({ location: new URL(`${service.url}/page`) })
    service.interceptAnswer(({ path }, { status, body, url }) => {
      const answer = new Response(body, { status, headers: { 'WWW-Authenticate': `DIDAuth realm="${realm}"` } })
      // Responses that do not come from the network have no URL.
      return Object.defineProperty(answer, 'url', { value: hasPage || path !== '/auth' ? url : '' })
    })
    const wallet = { ...createPlainWallet(createNumberedWallet(2)), address: alice.address }
    expect(await catchFailure(service.client({ wallet }).logIn())).toMatchObject({ code: 'CHALLENGE', userMessage })
  })

  it('works with other route paths', async () => {
    service = await startClientService({ requestAuthPath: '/ask', authPath: '/prove', refreshTokenPath: '/renew' })
    const auth = await service.outdated({ paths: { requestAuth: '/ask', auth: '/prove', refreshToken: '/renew' } })
    expect((await auth.fetch('/me')).status).toBe(200)
    expect(service.paths()).toEqual(['/ask', '/prove', '/renew', '/me'])
  })

  it.each([
    ['expired', () => (service.clock.seconds += 300)],
    ['used', () => service.client().logIn()]
  ])('retries on its own if the challenge was %s while the wallet prompt was open', async (_name, meanwhile) => {
    const wallet = createWatchedWallet(alice, () => (wallet.signed.length === 1 ? meanwhile() : undefined))
    const auth = service.client({ wallet })
    expect(await auth.logIn()).toMatchObject({ did: alice.did })
    expect(wallet.signed).toHaveLength(2)
  })

  it('gives up after the second try, and immediately for a signature of another account', async () => {
    const slowWallet = createWatchedWallet(alice, () => (service.clock.seconds += 300))
    const outdated = await catchFailure(service.client({ wallet: slowWallet }).logIn())
    expect(outdated).toMatchObject({ code: 'CHALLENGE', serverCode: 'ERR_CHALLENGE_EXPIRED' })
    const other = { ...createPlainWallet(createNumberedWallet(2)), address: alice.address }
    const before = service.exchanges.length
    const refused = await catchFailure(service.client({ wallet: other }).logIn())
    expect(refused).toMatchObject({ code: 'CHALLENGE', serverCode: 'ERR_CHALLENGE', status: 401 })
    expect(service.paths().slice(before)).toEqual(['/request-auth', '/auth'])
  })

  it('throws the reason of an aborted signal before, between and during the requests', async () => {
    const signal = AbortSignal.abort(new Error('closed'))
    expect(await catchFailure(service.client().logIn({ signal }))).toEqual(new Error('closed'))
    const controller = new AbortController()
    service.intercept(({ path }, answer) => {
      if (path !== '/auth') return undefined
      controller.abort(new Error('closed'))
      return new Promise((_resolve, reject) => {
        if (answer?.aborted) reject(answer.reason as Error)
      })
    })
    expect(await catchFailure(service.client().logIn({ signal: controller.signal }))).toEqual(new Error('closed'))
  })
})

describe('DidAuthClient.logIn fails', () => {
  const html = (status: number): Response =>
    new Response('<h1>Bad</h1>', { status, headers: { 'Content-Type': 'text/html' } })
  const problem = (status: number, code: string, headers = {}): Response =>
    new Response(JSON.stringify({ title: 'Words of it', code }), { status, headers })

  it.each([
    [
      'is unreachable',
      createThrowing(new TypeError('fetch failed')),
      'UNAVAILABLE',
      true,
      'Check your network, and try again'
    ],
    ['answers a page', () => html(200), 'PROTOCOL', false, 'Contact its operator'],
    ['answers a page with 502', () => html(502), 'UNAVAILABLE', true, 'try again'],
    ['answers a page with 404', () => html(404), 'PROTOCOL', false, 'Contact its operator'],
    ['answers other JSON', () => Response.json({ a: 1 }), 'PROTOCOL', false, 'Contact its operator'],
    ['answers JSON of another type', () => Response.json([]), 'PROTOCOL', false, 'Contact its operator'],
    ['answers nothing', () => new Response(null, { status: 204 }), 'PROTOCOL', false, 'Contact its operator'],
    ['redirects', () => Response.redirect('https://evil.example', 302), 'PROTOCOL', false, 'Contact its operator'],
    ['limits', () => problem(429, 'ERR_TOO_MANY_REQUESTS', { 'Retry-After': '60' }), 'RATE_LIMITED', true, 'try again'],
    ['limits requests without a code', () => html(429), 'RATE_LIMITED', true, 'try again'],
    ['is busy', () => problem(503, 'ERR_BUSY', { 'Retry-After': '5' }), 'UNAVAILABLE', true, 'try again'],
    [
      'has business logic that is too slow',
      () => problem(503, 'ERR_BUSINESS_LOGIC_TIMEOUT'),
      'UNAVAILABLE',
      true,
      'try again'
    ],
    ['refuses the page', () => problem(403, 'ERR_CROSS_ORIGIN'), 'CROSS_ORIGIN', false, 'Contact its operator'],
    ['refuses the DID', () => problem(401, 'ERR_DID_UNSUPPORTED'), 'REFUSED', false, 'the network of did:ethr:rsk:0x'],
    ['refuses its data', () => problem(401, 'ERR_CREDENTIAL'), 'REFUSED', false, 'Words of it'],
    [
      'refuses the user by its business logic',
      () => problem(401, 'ERR_BUSINESS_LOGIC'),
      'REFUSED',
      false,
      'Words of it'
    ]
  ])('because the service %s', async (_name, answer, code, retryable, advice) => {
    for (const failingPath of ['/request-auth', '/auth']) {
      service.intercept(({ path }) => (path === failingPath ? answer() : undefined))
      const error = await catchFailure(service.client().logIn())
      expect(error).toBeInstanceOf(DidAuthClientError)
      expect(error).toMatchObject({ code, retryable, userMessage: expect.stringContaining(advice) })
      expect((error as Error).message).toBeTruthy()
    }
  })

  it.each(['accessToken', 'refreshToken'])('because the service responds without %s', async (missing) => {
    service.interceptAnswer(async ({ path }, response) => {
      if (path !== '/auth') return response
      return Response.json({ ...((await response.json()) as object), [missing]: undefined })
    })
    const auth = service.client()
    expect(await catchFailure(auth.logIn())).toMatchObject({ code: 'PROTOCOL' })
    expect(auth.session).toBeUndefined()
  })

  it('after 8 s without a response', async () => {
    const time = fakeClientTime()
    service.silence('/request-auth')
    const failed = catchFailure(service.client().logIn())
    await until(() => service.exchanges.length === 1)
    time.endTimeouts(8_000)
    expect(await failed).toMatchObject({ code: 'UNAVAILABLE', cause: { name: 'TimeoutError' } })
  })

  it('and reports the seconds to wait, without a token in its message', async () => {
    service.intercept(() => problem(429, 'ERR_TOO_MANY_REQUESTS', { 'Retry-After': '60' }))
    expect(await catchFailure(service.client().logIn())).toMatchObject({
      status: 429,
      retryAfterSeconds: 60,
      message: `POST ${service.url}/request-auth: 429 Words of it`
    })
  })
})

describe.each(['logIn', 'signUp'] as const)('DidAuthClient.%s', (verb) =>
  it.each(['ab cd', 'ab\nMy credentials are: cd', 'äb', 'a'.repeat(257)])(
    'never signs the challenge %j, which does not match the protocol',
    async (challenge) => {
      service.intercept(() => Response.json({ challenge }))
      const wallet = createWatchedWallet(alice)
      const error = await catchFailure(service.client({ wallet })[verb]())
      expect([error, wallet.signed]).toMatchObject([{ code: 'PROTOCOL' }, []])
    }
  )
)

describe('DidAuthClient.signUp', () => {
  const issuer = createNumberedWallet(5)
  const emailCredential = createCredentialJwt(issuer, alice.did, {
    nbf: START_SECONDS - 10,
    exp: START_SECONDS + 10_000,
    vc: {
      '@context': ['https://www.w3.org/2018/credentials/v1'],
      type: ['VerifiableCredential', 'EmailCredential'],
      credentialSubject: { email: 'alice@example.org' }
    }
  })
  const claims = [{ claimType: 'name', claimValue: 'Ällice' }]
  const asking = async (): Promise<unknown[]> => {
    const received: unknown[] = []
    service = await startClientService({
      requiredCredentials: ['EmailCredential'],
      requiredClaims: [{ claimType: 'name', claimValue: '', essential: true, reason: 'Grüße' }],
      trustedIssuers: [issuer.did],
      signupBusinessLogic: ({ credentials, claims }) => {
        received.push(credentials.length, claims)
        if (credentials.length === 0) throw new Error('An e-mail credential please')
      }
    })
    return received
  }

  it('logs in if the service requires nothing', async () => {
    const auth = service.client()
    expect(await auth.signUp()).toMatchObject({ did: alice.did })
    expect(service.paths()).toEqual(['/request-signup', '/signup'])
  })

  it('shows what the service requires, and sends what the caller picks', async () => {
    const received = await asking()
    const auth = service.client()
    let shown: unknown
    await auth.signUp({
      onDisclosure: (request) => {
        shown = request
        return { credentials: [emailCredential], claims }
      }
    })
    expect(shown).toMatchObject({
      issuer: expect.stringMatching(/^did:ethr:/),
      credentials: ['EmailCredential'],
      claims: [{ claimType: 'name', essential: true, reason: 'Grüße' }],
      jwt: expect.stringMatching(/^ey/)
    })
    expect(received).toEqual([1, claims])
    expect(auth.session?.did).toBe(alice.did)
  })

  it('sends given credentials and claims, from this call or from the client', async () => {
    const received = await asking()
    await service.client().signUp({ credentials: [emailCredential], claims })
    await service.client({ signUp: { credentials: [emailCredential], claims } }).signUp()
    expect(received).toEqual([1, claims, 1, claims])
  })

  it('throws the message of the business logic', async () => {
    await asking()
    await expect(service.client().signUp()).rejects.toMatchObject({
      code: 'REFUSED',
      userMessage: 'An e-mail credential please'
    })
  })
})

import { afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals'
import express, { type ErrorRequestHandler } from 'express'
import request from 'supertest'
import { es256kSigner, loadCurve, memoryStore, setupDidAuth, type DidAuthConfig } from 'express-did-auth'
import { limitStoreTime } from '../src/stores/with-deadline.js'
import { logIn } from './support/servers/app-client.js'
import { serviceUrl, testApp } from './support/servers/test-app.js'
import { inspect } from 'node:util'
import { challengeSecret, createNumberedWallet, serviceWallet, START_SECONDS } from './support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const config: DidAuthConfig = {
  challengeSecret,
  serviceUrl,
  serviceDid: serviceWallet.did,
  serviceSigner: es256kSigner(serviceWallet.privateKey)
}

// A test that ends immediately leaves the curve loading, and Jest refuses lazy imports between tests.
beforeAll(loadCurve)

describe('setupDidAuth', () => {
  afterEach(() => {
    jest.restoreAllMocks()
  })

  it('returns the middleware immediately, with ready, close and sessions', () => {
    const requireDid = setupDidAuth(express(), config)
    expect(requireDid).toBeInstanceOf(Function)
    expect(requireDid.ready).toBeInstanceOf(Promise)
    expect(Object.keys(requireDid.sessions)).toEqual(['list', 'revoke', 'revokeAll'])
    expect(requireDid.close).toBeInstanceOf(Function)
  })

  it('responds to requests that arrive before it is ready', async () => {
    const app = express()
    setupDidAuth(app, config)
    await logIn(app, wallet)
  })

  it('adds only two middlewares to the application', () => {
    const app = express()
    const before = { settings: { ...(app.settings as object) }, locals: { ...app.locals } }
    const uses = jest.spyOn(app, 'use')
    setupDidAuth(app, config)
    expect(uses).toHaveBeenCalledTimes(2)
    expect({ settings: { ...(app.settings as object) }, locals: { ...app.locals } }).toEqual(before)
  })

  it('uses the DID of its own signer, on rsk, by default', async () => {
    const { logIn: logInThere, me, log } = await testApp({ serviceDid: undefined })
    const { body } = await me((await logInThere()).accessToken).expect(200)
    expect(body.auth.claims.iss).toBe(serviceWallet.did)
    expect(log).toEqual([])
  })

  it('lists an invalid key with the other problems, and needs the DID of any other signer', () => {
    const listProblems = (changes: object): string[] => {
      try {
        setupDidAuth(express(), { ...config, ...changes })
        return []
      } catch (error) {
        return (error as Error).message.split('\n').slice(1)
      }
    }
    const unset = undefined as unknown as string
    expect(listProblems({ challengeSecret: unset, serviceDid: undefined, serviceSigner: es256kSigner(unset) })).toEqual(
      [
        '  - challengeSecret: received nothing; give a non-empty string',
        '  - serviceSigner: received es256kSigner without a private key; give a private key of 32 bytes, or its 64 hexadecimal digits'
      ]
    )
    expect(listProblems({ serviceDid: undefined, serviceSigner: async () => '' })).toEqual([
      '  - serviceDid: received nothing; give a DID, such as did:ethr:rsk:0x… (40 hex digits)'
    ])
  })

  it('explains that it needs an application, and that requireDid is not called', () => {
    const untyped = setupDidAuth as (...values: unknown[]) => unknown
    for (const app of [undefined, null, {}, config]) {
      expect(() => untyped(app, config)).toThrow(
        new TypeError('setupDidAuth(app, config) needs an application or router of Express as its first argument')
      )
    }
    const requireDid = setupDidAuth(express(), config)
    for (const guard of [requireDid, requireDid.optional, requireDid.with({})] as unknown as (() => void)[]) {
      expect(guard).toThrow(
        new TypeError('requireDid is the middleware itself: write app.get(path, requireDid, handler), without ()')
      )
    }
  })

  it("passes an error of a guard's `allow` to the application, and refuses an `allow` that is no function", async () => {
    const failure = new Error('of the application')
    const { logIn, get, log, requireDid } = await testApp(undefined, {
      after: (app, requireDid) => {
        app.get('/notes', requireDid.with({ allow: () => Promise.reject(failure) }))
        app.use(((error, _req, res, _next) => res.status(418).json(error === failure)) as ErrorRequestHandler)
      }
    })
    const logged = log.length
    await get('/notes', (await logIn()).accessToken).expect(418, 'true')
    expect(log).toHaveLength(logged)
    for (const allow of [undefined, true, 'admin'] as never[]) {
      expect(() => requireDid.with({ allow })).toThrow(new TypeError('allow needs a function'))
    }
  })

  it.each(['checkSesion', 'Allow', 'deviceproof', 'toString'])('refuses the unknown option %s', async (name) => {
    const { requireDid } = await testApp()
    const text = `unknown option ${name}: the options are checkSession, deviceProof, optional, allow`
    expect(() => requireDid.with({ [name]: true })).toThrow(new TypeError(text))
  })

  /** Returns a logger and its warnings. */
  const warningLogger = () => {
    const warnings: string[] = []
    return {
      warnings,
      logger: { info() {}, warn: (_: unknown, message: string) => warnings.push(message), error() {} }
    }
  }

  it('warns about a second service on one application with the same paths', async () => {
    const { warnings, logger } = warningLogger()
    const app = express()
    setupDidAuth(app, { ...config, logger })
    setupDidAuth(express(), { ...config, logger })
    expect(warnings).toEqual([])
    setupDidAuth(app, { ...config, logger, authPath: '/auth2' })
    expect(warnings).toEqual([
      'setupDidAuth was called twice on one app: the first answers /request-signup, /signup, /request-auth, /logout, /refresh-token'
    ])
  })

  it('warns about an unusual setting, and about a store and a secret that two services share', () => {
    const { warnings, logger } = warningLogger()
    const store = memoryStore()
    setupDidAuth(express(), { ...config, logger, store, accessTokenExpirationTimeInSeconds: 901 })
    setupDidAuth(express(), { ...config, logger, store, serviceUrl: 'https://other.example' })
    expect(warnings).toEqual([
      'access tokens live longer than 900 s: they stay valid that long after a logout',
      'https://other.example and https://service.example share a store and a challengeSecret: give each service its own secret'
    ])
  })

  it.each([
    [{ deviceBinding: 'off' }, ['deviceBinding is off']],
    [{ deviceBinding: 'required', useCookies: true }, ['pages cannot read the tokens in cookies']],
    [{ deviceBinding: 'accepted' }, []]
  ] as const)('warns of a guard whose proofs most clients cannot give: %j %j', async (config, reasons) => {
    const { requireDid, log } = await testApp(config)
    requireDid.with({ deviceProof: true })
    const warnings = log.filter(({ fields, level }) => level === 'warn' && fields.event === 'configuration')
    const expected = reasons.map((why) => `requireDid.with({ deviceProof: true }) refuses most requests: ${why}`)
    expect(warnings.map(({ message }) => message)).toEqual(expected)
  })

  it('throws one error that lists every problem, and installs nothing', () => {
    const app = express()
    const uses = jest.spyOn(app, 'use')
    const wrong = { challengeSecret: '', serviceUrl: 'not a url', serviceDid: 7, serviceSigner: 'key', useCookies: 1 }
    let message = ''
    try {
      setupDidAuth(app, wrong as unknown as DidAuthConfig)
    } catch (error) {
      message = (error as Error).message
      expect(error).toMatchObject({ name: 'DidAuthError', code: 'ERR_CONFIG' })
    }
    for (const field of Object.keys(wrong)) expect(message).toContain(`- ${field}: received `)
    expect(uses).not.toHaveBeenCalled()
  })

  it('prints the mistakes without the stack of this library', () => {
    try {
      setupDidAuth(express(), { ...config, challengeSecret: '' })
    } catch (error) {
      expect(inspect(error).split('\n')).toEqual([
        '[DidAuthError: express-did-auth: invalid configuration',
        expect.stringMatching(/^ {2}- challengeSecret: received .*\] \{$/),
        "  code: 'ERR_CONFIG'",
        '}'
      ])
    }
    expect.assertions(1)
  })

  it('prints one line with the cause while the store is unavailable', async () => {
    const error = jest.spyOn(console, 'error').mockImplementation(() => undefined)
    const ping = () => Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }))
    const { ready } = setupDidAuth(express(), { ...config, store: { ...memoryStore(), ping } })
    await expect(ready).rejects.toMatchObject({ code: 'ERR_STORE' })
    expect(error.mock.calls).toEqual([
      ['express-did-auth:', 'not ready yet: Store unavailable, try again: connect ECONNREFUSED', { event: 'not-ready' }]
    ])
  })

  it('logs nothing for a valid configuration', async () => {
    const spies = (['log', 'info', 'warn', 'error'] as const).map((method) =>
      jest.spyOn(console, method).mockImplementation(() => undefined)
    )
    await setupDidAuth(express(), config).ready
    for (const spy of spies) expect(spy).not.toHaveBeenCalled()
  })

  it.each<[string, Partial<DidAuthConfig>, string[]]>([
    ['no store', {}, ['sessions are in memory: a restart ends all of them']],
    ['a memoryStore', { store: memoryStore() }, ['sessions are in memory: a restart ends all of them']],
    ['another store', { store: limitStoreTime(memoryStore())() }, []]
  ])('warns in production about sessions in memory, given %s: %j', (_name, more, texts) => {
    const warn = jest.fn()
    const environment = process.env.NODE_ENV
    process.env.NODE_ENV = 'production'
    try {
      setupDidAuth(express(), { ...config, logger: { info: jest.fn(), warn, error: jest.fn() }, ...more })
    } finally {
      process.env.NODE_ENV = environment
    }
    expect(warn.mock.calls).toEqual(texts.map((text) => [{ event: 'configuration' }, text]))
  })

  it('warns if serviceSigner does not match serviceDid, and works', async () => {
    const test = await testApp({ serviceDid: createNumberedWallet(99).did })
    expect(test.log.map(({ message }) => message)).toEqual(['serviceSigner is not the key of serviceDid'])
    await test.me((await test.logIn()).accessToken).expect(200)
  })

  it('reads the configuration once: a later change of the object has no effect', async () => {
    const app = express()
    const mine = { ...config, clock: { nowSeconds: () => START_SECONDS } }
    setupDidAuth(app, mine)
    mine.challengeSecret = 'another secret, which is long enough as well'
    const { body } = await request(app).get(`/request-auth/${wallet.did}`).expect(200)
    const { app: other } = await testApp()
    expect((await request(other).get(`/request-auth/${wallet.did}`).expect(200)).body).toEqual(body)
  })
})

describe('ready', () =>
  it.each<[string, Partial<DidAuthConfig>, string]>([
    ['the signer fails', { serviceSigner: () => Promise.reject(new Error('away')) }, 'ERR_SIGNER'],
    [
      'the store is unavailable',
      { store: Object.assign(memoryStore(), { ping: () => Promise.reject(new Error('away')) }) },
      'ERR_STORE'
    ]
  ])('rejects when %s, with one log line and without an unhandled rejection', async (_name, more, code) => {
    const error = jest.fn()
    const logger = { info: jest.fn(), warn: jest.fn(), error }
    const { ready } = setupDidAuth(express(), { ...config, logger, ...more })
    await expect(ready).rejects.toMatchObject({ code })
    expect(error.mock.calls).toEqual([
      [{ event: 'not-ready', cause: expect.objectContaining({ code }) }, 'not ready yet']
    ])
  }))

describe('close', () => {
  it('leaves a given store open', async () => {
    const store = memoryStore()
    const close = jest.spyOn(store, 'close')
    const { requireDid } = await testApp({ store })
    await requireDid.close()
    expect(close).not.toHaveBeenCalled()
  })

  it('resolves for its own store, also on a second call', async () => {
    const { requireDid } = await testApp()
    await requireDid.close()
    await requireDid.close()
  })
})

describe('sessions with an unavailable store', () =>
  it('reject with ERR_STORE', async () => {
    const fail = () => Promise.reject(new Error('away'))
    const store = Object.assign(memoryStore(), { listSessions: fail, endSession: fail, revokeSessions: fail })
    const { requireDid } = await testApp({ store })
    const { list, revoke, revokeAll } = requireDid.sessions
    for (const answer of [list(wallet.did), revoke('a'), revokeAll(wallet.did)]) {
      await expect(answer).rejects.toMatchObject({ code: 'ERR_STORE' })
    }
  }))

describe('the log', () => {
  it('contains none of 40 planted secrets, even if errors quote them', async () => {
    const printed: unknown[] = []
    for (const method of ['log', 'info', 'warn', 'error', 'debug'] as const) {
      jest.spyOn(console, method).mockImplementation((...line: unknown[]) => void printed.push(line))
    }
    const secrets = new Set<string>([challengeSecret, serviceWallet.privateKey.slice(2)])
    const plant = (value: unknown): void => {
      // DIDs and names of services are not secret.
      for (const [text] of JSON.stringify(value).matchAll(/(?<![\w:-])[\w-]{40,}/g)) secrets.add(text)
    }
    const quoting = memoryStore()
    let isBroken = false
    for (const verb of ['createSession', 'rotateRefreshToken'] as const) {
      const works = quoting[verb].bind(quoting) as (...args: unknown[]) => Promise<unknown>
      Object.assign(quoting, {
        [verb]: async (...args: unknown[]) => {
          plant(args)
          if (isBroken) throw new Error(`cannot store ${JSON.stringify(args)}`, { cause: args[0] })
          return works(...args)
        }
      })
    }
    for (const logged of [{}, { logger: undefined }]) {
      const test = await testApp({ store: quoting, ...(logged as Partial<DidAuthConfig>) })
      for (const user of [1, 2, 3, 4].map(createNumberedWallet)) {
        isBroken = false
        const tokens = await test.logIn(user)
        const login = await test.createSignedLogin(user)
        plant([tokens, login, (await test.get(`/request-auth/${user.did}`)).body])
        isBroken = true
        await test.post('/auth', login).expect(503)
        await test.refresh(tokens.refreshToken).expect(503)
        await test.post('/auth', `{"sig":"${login.sig}`, { 'Content-Type': 'application/json' }).expect(400)
      }
      printed.push(...test.log)
    }
    jest.restoreAllMocks()
    expect(secrets.size).toBeGreaterThanOrEqual(40)
    // Two failures of the store for each user and logger.
    expect(printed.length).toBeGreaterThanOrEqual(16)
    const text = inspect(printed, { depth: Infinity, maxStringLength: Infinity, maxArrayLength: Infinity })
    expect([...secrets].filter((secret) => text.includes(secret))).toEqual([])
  })
})

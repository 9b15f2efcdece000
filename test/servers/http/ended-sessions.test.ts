import { describe, expect, it } from '@jest/globals'
import { memoryStore, type DidAuthConfig, type Store } from 'express-did-auth'
import request from 'supertest'
import { findTrustedIssuer } from '../../../servers/http/did-auth.js'
import type { ServerName } from '../../../servers/config/read-env.js'
import { systemClock } from '../../../src/time.js'
import { deadRpcUrl } from '../../support/faults/rpc-node.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { startServer } from '../../support/fixtures/client-error.js'
import { createLoginText, createNumberedWallet, serviceWallet, TestClock } from '../../support/fixtures/fixtures.js'
import { until } from '../../support/fixtures/until.js'
import { startTestRelay, type TestRelay, type TestRelayOptions } from '../../support/servers/relay-app.js'
import { startIssuer, type TestIssuer } from '../../support/servers/resource-tokens.js'
import { resourceKey, testAuthServer, type TestServer } from '../../support/servers/test-app.js'
import { testVault, type TestVault } from '../../support/servers/vault-app.js'

const [RELAY, VAULT] = ['https://relay.example', 'https://vault.example']
const resources = { resources: [RELAY, VAULT], resourceKeys: [resourceKey(1)], endedSessions: true }
const LIST = '/.well-known/ended-sessions'
const DISCOVERY = '/.well-known/did-auth.json'
const ENDED = [401, 'Session ended']
/** Public URL of an auth server in the same process. It does not resolve on this machine. */
const PUBLIC_AUTH = 'https://auth.invalid'

/** Builds an auth server that ends with the test. */
async function startAuth(env: Record<string, string> = {}, store: Store = memoryStore()): Promise<TestServer> {
  const auth = await testAuthServer(env, { store })
  afterTest(
    () => store.close(),
    () => auth.close()
  )
  return auth
}

/** Returns the parts of a server in the process of auth, as the command `all` passes them. */
const createSharedParts = (listenUrl: string) => ({
  serviceUrls: new Map<ServerName, string>([['auth', PUBLIC_AUTH]]),
  listenUrls: new Map<ServerName, string>([['auth', listenUrl]]),
  identity: { resourceKeys: [resourceKey(1)] }
})

/** Starts a relay that ends with the test, and a function that returns the status and text of a post. */
async function startRelay(env: Record<string, string>, options: TestRelayOptions) {
  const relay = await startTestRelay({ MAX_REQUESTS_PER_TIME_SLOT: '1000', ...env }, options)
  afterTest(() => relay.end())
  const post = async (token: string): Promise<[number, string]> => {
    const answer = await request(relay.listener)
      .post('/file')
      .set('Authorization', `Bearer ${token}`)
      .send({ file: 'a file' })
    return [answer.status, answer.status === 200 ? '' : answer.text]
  }
  return { relay, post }
}

const createPut =
  ({ listener }: TestVault) =>
  async (token: string): Promise<[number, string]> => {
    const answer = await request(listener)
      .put('/notes')
      .set('Authorization', `Bearer ${token}`)
      .send({ content: 'a note' })
    return [answer.status, answer.status === 200 ? '' : answer.text]
  }

/** Logs a user in at an issuer, and returns its tokens. */
async function logInFor(issuer: TestIssuer, resource: string): Promise<{ accessToken: string; token: string }> {
  const { accessToken } = await issuer.logIn()
  return { accessToken, token: await issuer.tokenFor(resource, accessToken) }
}

const countAsked = ({ asked }: TestIssuer, path: string): number =>
  asked.filter((url) => url.split('?')[0] === path).length

const listWarnings = ({ log }: Pick<TestRelay, 'log'>): unknown[] =>
  log().filter(({ event }) => event === 'ended-sessions')

describe('the auth server', () => {
  it.each<[string, Record<string, string>, object, boolean]>([
    ['publishes the list by default', {}, {}, true],
    ['publishes no list with ENDED_SESSIONS=false', { ENDED_SESSIONS: 'false' }, {}, false],
    ['publishes no list with a store that has none', {}, { listEndedSessions: undefined }, false]
  ])('%s', async (_name, env, changes, isPublished) => {
    const store: Store = Object.assign(memoryStore(), changes)
    const { listener } = await startAuth(env, store)
    const discovered = (await request(listener).get(DISCOVERY)).body as Record<string, unknown>
    expect(discovered.ended_sessions_uri).toBe(isPublished ? `https://auth.example${LIST}` : undefined)
    await request(listener)
      .get(LIST)
      .expect(isPublished ? 200 : 404)
  })
})

describe('relay and vault in the process of auth', () => {
  it('refuse a session that was logged out at auth, by the list at the address where auth listens', async () => {
    const issuer = await startIssuer({ ...resources, serviceUrl: PUBLIC_AUTH })
    const { clock } = issuer
    const { post } = await startRelay({}, { ...createSharedParts(issuer.url), clock })
    const [ended, active] = [await logInFor(issuer, RELAY), await logInFor(issuer, RELAY)]
    expect(await post(ended.token)).toEqual([200, ''])
    await issuer.logOut(ended.accessToken)
    clock.seconds += 2
    await until(async () => (await post(ended.token))[0] === 401)
    expect(await post(ended.token)).toEqual(ENDED)
    expect(await post(active.token)).toEqual([200, ''])
    expect(countAsked(issuer, LIST)).toBe(2)
    expect(countAsked(issuer, DISCOVERY)).toBe(0)
  })

  it('refuse a session of the auth server itself', async () => {
    const auth = await startAuth({ RESOURCES: `${RELAY},${VAULT}`, SERVICE_DID: serviceWallet.did })
    const { token, logOut } = await logInAtServer(auth)
    const shared = createSharedParts(await startServer(auth.listener))
    const serviceUrls = new Map<ServerName, string>([['auth', 'https://auth.example']])
    const vault = await testVault({}, { ...shared, serviceUrls })
    afterTest(() => vault.close())
    const put = createPut(vault)
    expect(await put(token)).toEqual([200, ''])
    await logOut()
    // Vault and auth have no clock that a test could change: the vault asks again after 2 s.
    await until(async () => (await put(token))[0] === 401)
    expect(await put(token)).toEqual(ENDED)
  })

  it('find the list for each HOST, and do without it for ENDED_SESSIONS=false or a DID of another method', () => {
    const findUrl = (listenUrl: string | undefined, changes = {}, serviceDid = serviceWallet.did): unknown => {
      const shared = {
        ...createSharedParts(''),
        listenUrls: new Map(listenUrl === undefined ? [] : [['auth', listenUrl]])
      }
      const identity = { ...shared.identity, serviceDid }
      const env = { ENDED_SESSIONS: true, ...changes }
      const trusted = findTrustedIssuer({ ...shared, identity, env, store: memoryStore() } as never)
      const options: DidAuthConfig['resourceIssuer'] = trusted
      return (options?.endedSessions as { url?: string } | undefined)?.url
    }
    expect(findUrl('http://127.0.0.1:3000')).toBe(`http://127.0.0.1:3000${LIST}`)
    expect(findUrl('http://0.0.0.0:3000')).toBe(`http://127.0.0.1:3000${LIST}`)
    expect(findUrl('http://[::]:3000')).toBe(`http://[::1]:3000${LIST}`)
    expect(findUrl('http://192.168.1.5:3000')).toBe(`${PUBLIC_AUTH}${LIST}`)
    expect(findUrl(undefined)).toBe(`${PUBLIC_AUTH}${LIST}`)
    expect(findUrl('http://127.0.0.1:3000', { ENDED_SESSIONS: false })).toBeUndefined()
    expect(findUrl('http://127.0.0.1:3000', {}, 'did:web:auth.example')).toBeUndefined()
  })

  it('do without the list, also with ENDED_SESSIONS_WHEN_STALE=refuse, if the store of auth has none', async () => {
    const issuer = await startIssuer({ ...resources, serviceUrl: PUBLIC_AUTH, endedSessions: false })
    const options = { ...createSharedParts(issuer.url), clock: issuer.clock }
    const store: Store = Object.assign(memoryStore(), { listEndedSessions: undefined })
    const env = { ENDED_SESSIONS_WHEN_STALE: 'refuse' }
    const [without, withList] = [await startRelay(env, { ...options, store }), await startRelay(env, options)]
    const { token } = await logInFor(issuer, RELAY)
    expect(await without.post(token)).toEqual([200, ''])
    expect(countAsked(issuer, LIST)).toBe(0)
    expect((await withList.post(token))[0]).toBe(503)
  })

  it('start with a HOST of all addresses and with a DID of another method', async () => {
    for (const [listenUrl, serviceDid] of [
      ['http://0.0.0.0:3000', serviceWallet.did],
      ['http://192.168.1.5:3000', serviceWallet.did],
      ['http://127.0.0.1:3000', 'did:web:auth.example']
    ] as const) {
      const shared = createSharedParts(listenUrl)
      const vault = await testVault({}, { ...shared, identity: { ...shared.identity, serviceDid } })
      await vault.close()
    }
  })
})

describe('relay and vault with TRUSTED_ISSUER', () => {
  it('refuse a session that was logged out at auth', async () => {
    const issuer = await startIssuer(resources)
    const { clock } = issuer
    const { post } = await startRelay({ TRUSTED_ISSUER: issuer.url }, { clock })
    const { accessToken, token } = await logInFor(issuer, RELAY)
    expect(await post(token)).toEqual([200, ''])
    await issuer.logOut(accessToken)
    clock.seconds += 2
    await until(async () => (await post(token))[0] === 401)
    expect(await post(token)).toEqual(ENDED)
  })

  it('refuse a session that was logged out before the first request', async () => {
    const issuer = await startIssuer({ ...resources, clock: systemClock, challengeExpirationTimeInSeconds: 86_400 })
    const vault = await testVault({ TRUSTED_ISSUER: issuer.url })
    afterTest(() => vault.close())
    const put = createPut(vault)
    const { accessToken, token } = await logInFor(issuer, VAULT)
    await issuer.logOut(accessToken)
    expect(await put(token)).toEqual(ENDED)
    expect(await put((await logInFor(issuer, VAULT)).token)).toEqual([200, ''])
  })

  it('accept tokens while the list is unavailable, with one warning, and only the first request waits', async () => {
    const issuer = await startIssuer(resources)
    const { clock } = issuer
    const { relay, post } = await startRelay({ TRUSTED_ISSUER: issuer.url }, { clock })
    const { token } = await logInFor(issuer, RELAY)
    let state: 'closed' | 'silent' = 'closed'
    const silent: { destroyed: boolean }[] = []
    issuer.answer = (req, res) => {
      if (!req.url!.startsWith(LIST)) (issuer.app as unknown as (...args: unknown[]) => void)(req, res)
      else if (state === 'closed') req.socket.destroy()
      else silent.push(req.socket)
    }
    expect(await post(token)).toEqual([200, ''])
    state = 'silent'
    for (let count = 0; count < 5; count += 1) {
      clock.seconds += 40
      expect(await post(token)).toEqual([200, ''])
    }
    // The requests for the list are still without an answer, so nobody waited for them.
    await until(() => silent.length > 0)
    expect(silent.at(-1)?.destroyed).toBe(false)
    expect(listWarnings(relay)).toHaveLength(1)
  })

  it('accept the tokens of an auth server in their process that cannot be reached', async () => {
    const issuer = await startIssuer({ ...resources, serviceUrl: PUBLIC_AUTH })
    const shared = createSharedParts(await deadRpcUrl())
    const { relay, post } = await startRelay({}, { ...shared, clock: issuer.clock })
    const { accessToken, token } = await logInFor(issuer, RELAY)
    await issuer.logOut(accessToken)
    expect(await post(token)).toEqual([200, ''])
    expect(await post(token)).toEqual([200, ''])
    expect(listWarnings(relay)).toHaveLength(1)
  })

  it('answer 503 with ENDED_SESSIONS_WHEN_STALE=refuse until the list is available again', async () => {
    const issuer = await startIssuer(resources)
    const { clock } = issuer
    const env = { TRUSTED_ISSUER: issuer.url, ENDED_SESSIONS_WHEN_STALE: 'refuse', ERROR_FORMAT: 'problem' }
    const { relay, post } = await startRelay(env, { clock })
    const { token } = await logInFor(issuer, RELAY)
    issuer.answer = (req, res) => {
      if (req.url!.startsWith(LIST)) req.socket.destroy()
      else (issuer.app as unknown as (...args: unknown[]) => void)(req, res)
    }
    for (let count = 0; count < 2; count += 1) {
      const [status, text] = await post(token)
      expect([status, (JSON.parse(text) as { code: string }).code]).toEqual([503, 'ERR_ENDED_SESSIONS'])
    }
    issuer.answer = undefined
    clock.seconds += 2
    expect(await post(token)).toEqual([200, ''])
    expect(listWarnings(relay)).toHaveLength(1)
  })

  it('ask an issuer that names no list once in 10 min, with one warning, and accept its tokens', async () => {
    const issuer = await startIssuer({ ...resources, endedSessions: false })
    const clock = Object.assign(new TestClock(), { seconds: issuer.clock.seconds })
    const { relay, post } = await startRelay({ TRUSTED_ISSUER: issuer.url }, { clock })
    const send = async (seconds: number): Promise<void> => {
      issuer.clock.seconds = clock.seconds += seconds
      expect(await post((await logInFor(issuer, RELAY)).token)).toEqual([200, ''])
    }
    await send(0)
    // The keys of the issuer need its discovery document, too.
    expect(countAsked(issuer, DISCOVERY)).toBe(2)
    for (const seconds of [2, 2, 295, 298]) await send(seconds)
    expect(countAsked(issuer, DISCOVERY)).toBe(2)
    await send(3)
    await until(() => countAsked(issuer, DISCOVERY) === 4)
    expect(countAsked(issuer, LIST)).toBe(0)
    expect(listWarnings(relay)).toHaveLength(1)
  })
})

/** Logs a wallet in at an auth server without a fake clock, and gets a token for the vault. */
async function logInAtServer({ listener }: TestServer): Promise<{ token: string; logOut: () => Promise<unknown> }> {
  const wallet = createNumberedWallet(1)
  const { did } = wallet
  const { body } = await request(listener).post('/request-auth').send({ did }).expect(200)
  const sig = wallet.personalSign(createLoginText('auth.example', (body as { challenge: string }).challenge))
  const { accessToken } = (await request(listener).post('/auth').send({ did, sig }).expect(200)).body as {
    accessToken: string
  }
  const headers = { Authorization: `DIDAuth ${accessToken}` }
  const answer = await request(listener).post('/resource-token').set(headers).send({ resource: VAULT }).expect(200)
  const { accessToken: token } = answer.body as { accessToken: string }
  return { token, logOut: async () => request(listener).post('/logout').set(headers).expect(200) }
}

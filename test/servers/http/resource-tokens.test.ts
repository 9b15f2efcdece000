import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { memoryStore } from 'express-did-auth'
import request from 'supertest'
import { createResourceOptions, findTrustedIssuer } from '../../../servers/http/did-auth.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { stretchDeadlines } from '../../support/fixtures/stretch-deadlines.js'
import { startTestRelay } from '../../support/servers/relay-app.js'
import { startIssuer } from '../../support/servers/resource-tokens.js'
import { resourceKey, testAuthServer } from '../../support/servers/test-app.js'
import { testVault } from '../../support/servers/vault-app.js'
import { systemClock } from '../../../src/time.js'
import { createNumberedWallet, TestClock } from '../../support/fixtures/fixtures.js'

const { did } = createNumberedWallet(1)
const [RELAY, VAULT] = ['https://relay.example', 'https://vault.example']
const resources = { resources: [RELAY, VAULT], resourceKeys: [resourceKey(1)] }
const createBearer = (token: string) => ({ Authorization: `Bearer ${token}` })

afterEach(() => {
  jest.restoreAllMocks()
})

describe('resource tokens at the vault', () => {
  const start = async (env: Record<string, string> = {}) => {
    const currentTime = { clock: systemClock, challengeExpirationTimeInSeconds: 86_400 }
    const issuer = await startIssuer({ ...resources, ...currentTime })
    const vault = await testVault({ TRUSTED_ISSUER: issuer.url, ...env })
    afterTest(() => vault.close())
    const put = (token: string) =>
      request(vault.listener).put('/notes').set(createBearer(token)).send({ content: 'a note' })
    return { issuer, vault, put }
  }

  it('allow writes and reads as the DID that logged in at auth', async () => {
    const { issuer, vault, put } = await start()
    const token = await issuer.tokenFor(VAULT)
    await put(token).expect(200)
    const { body } = await request(vault.listener).get(`/${did}/notes`).expect(200)
    expect(body).toEqual(['a note'])
    await request(vault.listener).get('/storage').set(createBearer(token)).expect(200)
  })

  it('are refused if issued for the relay, as is an access token of auth', async () => {
    const { issuer, put } = await start()
    await put(await issuer.tokenFor(RELAY)).expect(401, 'Invalid access token')
    await put((await issuer.logIn()).accessToken).expect(401, 'Invalid access token')
  })

  it('are answered 503 if auth has never responded, and the vault stays ready', async () => {
    const { issuer, vault, put } = await start()
    const token = await issuer.tokenFor(VAULT)
    issuer.answer = (req) => req.socket.destroy()
    expect((await put(token).expect(503, 'Keys unavailable, try again')).headers['retry-after']).toBe('30')
    stretchDeadlines()
    const { body } = await request(vault.listener).get('/ready').expect(200)
    const reasons = { issuer: 'the connection was closed' }
    expect(body).toMatchObject({ status: 'ready', dependencies: { issuer: 'unavailable' }, reasons })
    await request(vault.listener).get(`/${did}/notes`).expect(200)
  })
})

describe('resource tokens at the relay', () => {
  const start = async () => {
    const issuer = await startIssuer(resources)
    const relay = await startTestRelay({ TRUSTED_ISSUER: issuer.url, MAX_REQUESTS_PER_TIME_SLOT: '3' })
    afterTest(() => relay.end())
    const post = (authorization: string) =>
      request(relay.listener).post('/file').set('Authorization', authorization).send({ file: 'a file' })
    return { issuer, relay, post }
  }

  it('allow posts and reads, within the quota of their DID', async () => {
    const { issuer, relay, post } = await start()
    const token = await issuer.tokenFor(RELAY)
    const { cid } = (await post(`Bearer ${token}`).expect(200)).body as { cid: string }
    const read = () => request(relay.listener).get(`/file/${cid}`).set(createBearer(token))
    expect((await read().expect(200)).body).toEqual({ file: 'a file' })
    await read().expect(200)
    await read().expect(429)
  })

  it('are refused if issued for the vault, with the scheme DIDAuth, or if invalid', async () => {
    const { issuer, post } = await start()
    const token = await issuer.tokenFor(RELAY)
    await post(`Bearer ${await issuer.tokenFor(VAULT)}`).expect(401, 'Invalid access token')
    for (const header of [token, `DIDAuth ${token}`, 'Bearer x']) await post(header).expect(401, 'Invalid access token')
  })

  it('are refused without TRUSTED_ISSUER', async () => {
    const issuer = await startIssuer(resources)
    const relay = await startTestRelay()
    afterTest(() => relay.end())
    const send = request(relay.listener)
      .post('/file')
      .set(createBearer(await issuer.tokenFor(RELAY)))
    await send.send({ file: 'a file' }).expect(401, 'Invalid access token')
  })
})

describe('the auth server', () => {
  it('issues tokens for RESOURCES, and publishes discovery also without RESOURCES', async () => {
    const issuing = await testAuthServer({ RESOURCES: RELAY })
    const { body } = await request(issuing.listener).get('/.well-known/did-auth.json').expect(200)
    expect(body).toMatchObject({ resources: [RELAY], jwks_uri: 'https://auth.example/.well-known/jwks.json' })
    await request(issuing.listener).post('/resource-token').send({}).expect(401, 'Missing access token')
    const plain = await testAuthServer()
    await request(plain.listener).get('/.well-known/did-auth.json').expect(200)
    await request(plain.listener).get('/.well-known/jwks.json').expect(404)
  })
})

describe('servers in one process', () => {
  const createParts = (urls: [string, string][], env: object = {}) =>
    ({
      env: { RESOURCES: [], ...env },
      identity: { resourceKeys: resources.resourceKeys },
      serviceUrls: new Map(urls),
      store: memoryStore()
    }) as unknown as Parameters<typeof createResourceOptions>[0] & Parameters<typeof findTrustedIssuer>[0]
  const allUrls: [string, string][] = [
    ['auth', 'http://localhost:3000'],
    ['relay', 'http://localhost:3001'],
    ['vault', 'https://vault.example']
  ]

  it('trust each other without configuration: auth issues tokens for relay and vault', () => {
    expect(
      createResourceOptions(createParts(allUrls, { RESOURCES: ['https://vault.example', 'https://a.example'] }))
    ).toEqual({
      resources: ['https://vault.example', 'https://a.example', 'http://localhost:3001'],
      resourceKeys: resources.resourceKeys
    })
    const sharedIssuer = { issuer: 'http://localhost:3000', keys: resources.resourceKeys }
    expect(findTrustedIssuer(createParts(allUrls))).toEqual(sharedIssuer)
    expect(findTrustedIssuer(createParts(allUrls, { TRUSTED_ISSUER: 'http://localhost:3000' }))).toEqual(sharedIssuer)
    const env = { TRUSTED_ISSUER: 'https://b.example', ENDED_SESSIONS_WHEN_STALE: 'refuse' }
    const otherIssuer = { issuer: 'https://b.example', endedSessions: { whenStale: 'refuse' } }
    expect(findTrustedIssuer(createParts(allUrls, env))).toEqual(otherIssuer)
  })

  it('verify tokens with the keys of auth in memory, also if its public name does not resolve', async () => {
    const unresolvableUrl = 'https://auth.invalid'
    const issuer = await startIssuer({ ...resources, serviceUrl: unresolvableUrl, clock: systemClock })
    const clock = Object.assign(new TestClock(), { seconds: systemClock.nowSeconds() })
    const shell = {
      serviceUrls: new Map([['auth', unresolvableUrl]] as const),
      identity: { resourceKeys: [resourceKey(1)] }
    }
    const [vault, relay] = [await testVault({}, shell), await startTestRelay({}, { ...shell, clock })]
    afterTest(() => Promise.all([vault.close(), relay.end()]))
    const put = request(vault.listener)
      .put('/notes')
      .set(createBearer(await issuer.tokenFor(VAULT)))
    await put.send({ content: 'a note' }).expect(200)
    const post = request(relay.listener)
      .post('/file')
      .set(createBearer(await issuer.tokenFor(RELAY)))
    await post.send({ file: 'a file' }).expect(200)
    stretchDeadlines()
    const ready = (await request(relay.listener).get('/ready').expect(200)).body as { dependencies: object }
    expect(ready.dependencies).not.toHaveProperty('issuer')
  })

  it('do not trust a URL that is neither https nor on this machine, or an issuer without a shared key', () => {
    const publicUrls: [string, string][] = [
      ['auth', 'http://192.168.1.5:3000'],
      ['vault', 'http://192.168.1.5:3002']
    ]
    expect(createResourceOptions(createParts(publicUrls))).toEqual({})
    expect(findTrustedIssuer(createParts(publicUrls))).toBeUndefined()
    const withoutKey = { ...createParts(allUrls), identity: { resourceKeys: [] } as never }
    expect(createResourceOptions(withoutKey)).toEqual({})
    expect(findTrustedIssuer(withoutKey)).toBeUndefined()
    expect(createResourceOptions(createParts([['auth', 'http://localhost:3000']]))).toEqual({})
  })
})

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { memoryStore, type DidAuthConfig } from 'express-did-auth'
import type { RequestListener } from 'node:http'
import request from 'supertest'
import { createResourceOptions, findTrustedIssuer } from '../../../servers/http/did-auth.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { createForm, createLongDid, createMachine } from '../../support/fixtures/machines.js'
import { holdTime } from '../../support/fixtures/hold-time.js'
import { startTestRelay } from '../../support/servers/relay-app.js'
import { startIssuer } from '../../support/servers/resource-tokens.js'
import { resourceKey, testAuthServer } from '../../support/servers/test-app.js'
import { testVault } from '../../support/servers/vault-app.js'
import { systemClock } from '../../../src/time.js'
import { createLoginText, createNumberedWallet, TestClock } from '../../support/fixtures/fixtures.js'

const { did } = createNumberedWallet(1)
const [RELAY, VAULT] = ['https://relay.example', 'https://vault.example']
const resources = { resources: [RELAY, VAULT], resourceKeys: [resourceKey(1)] }
const machine = createMachine(1)
const createBearer = (token: string) => ({ Authorization: `Bearer ${token}` })

afterEach(() => {
  jest.restoreAllMocks()
})

describe('resource tokens at the vault', () => {
  const start = async (env: Record<string, string> = {}, config: Partial<DidAuthConfig> = {}) => {
    const currentTime = { clock: systemClock, challengeExpirationTimeInSeconds: 86_400 }
    const issuer = await startIssuer({ ...resources, ...currentTime, ...config })
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

  it('allow writes of machines, also with a DID of 512 characters; letter case distinguishes owners', async () => {
    const { issuer, vault } = await start({ NETWORKS: 'rsk' }, { machineLogin: true })
    const [didKey, longDid] = [machine.didKey, createLongDid(machine)]
    expect(longDid.length).toBe(512)
    const write = async (iss: string, content: string): Promise<void> => {
      const exp = systemClock.nowSeconds() + 60
      const form = createForm(machine.assert({ iss, aud: issuer.url, jti: `for ${content}`, exp }), { resource: VAULT })
      const { body } = await issuer.post('/token', form).expect(200)
      const send = request(vault.listener)
        .put('/notes')
        .set(createBearer(body.access_token as string))
      await send.send({ content }).expect(200)
    }
    await write(didKey, 'of a did:key')
    await write(longDid, 'of a did:jwk')
    const read = async (owner: string) =>
      (await request(vault.listener).get(`/${owner}/notes`).expect(200)).body as unknown
    expect(await read(longDid)).toEqual(['of a did:jwk'])
    expect(await read(didKey)).toEqual(['of a did:key'])
    expect(await read(didKey.toLowerCase())).toEqual([])
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
    holdTime()
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

describe('the auth server with MACHINE_LOGIN', () => {
  const ask = ({ listener }: { listener: RequestListener }, iss: string) => {
    const exp = systemClock.nowSeconds() + 60
    const form = createForm(machine.assert({ iss, aud: 'https://auth.example', exp }), { resource: VAULT })
    return request(listener).post('/token').send(form)
  }
  const env = { RESOURCES: VAULT, MACHINE_LOGIN: 'true' }

  it('gives any machine a token, or only those of MACHINE_DIDS', async () => {
    await ask(await testAuthServer(env), machine.didKey).expect(200)
    const limited = await testAuthServer({ ...env, MACHINE_DIDS: `did:web:x,${machine.didJwk}` })
    await ask(limited, machine.didJwk).expect(200)
    await ask(limited, machine.didKey).expect(400, /"unauthorized_client"/)
  })

  it('still logs every user in with MACHINE_DIDS', async () => {
    const server = await testAuthServer({ ...env, MACHINE_DIDS: machine.didKey })
    const wallet = createNumberedWallet(1)
    const { body } = await request(server.listener).post('/request-auth').send({ did: wallet.did }).expect(200)
    const sig = wallet.personalSign(createLoginText('auth.example', (body as { challenge: string }).challenge))
    await request(server.listener).post('/auth').send({ did: wallet.did, sig }).expect(200)
  })

  it('has no endpoint by default, and does not start without RESOURCES', async () => {
    await ask(await testAuthServer({ RESOURCES: VAULT }), machine.didKey).expect(404)
    await expect(testAuthServer({ MACHINE_LOGIN: 'true' })).rejects.toThrow(
      'machineLogin: received true without resources'
    )
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
    holdTime()
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

import { describe, expect, it } from '@jest/globals'
import { memoryStore, type AuthenticationBusinessLogic, type DidAuthConfig, type SecurityEvent } from 'express-did-auth'
import type { Express } from 'express'
import { decodeJwt } from 'jose'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import { createForm, createMachine, importWallet, machineConfig, ORDERS } from '../support/fixtures/machines.js'
import { refusal } from '../support/fixtures/refusal.js'
import { testApp } from '../support/servers/test-app.js'

const machine = createMachine(1)
const before = (app: Express) => app.set('trust proxy', 1)
const from = (address: string) => ({ 'X-Forwarded-For': address })

/** Starts a service, and returns it with a function that asks for a token. */
async function start(config: Partial<DidAuthConfig> = {}) {
  const test = await testApp({ ...machineConfig, ...config }, { before })
  const ask = (assertion: string, address = '192.0.2.1') => test.post('/token', createForm(assertion), from(address))
  return { test, ask }
}

describe('the budgets of a machine', () => {
  it('are those of failed proofs for its network: 429 before the body is read, with a time', async () => {
    const { test, ask } = await start({ maxRequestsPerTimeSlot: 1 })
    const forged = machine.assert({}, { alg: 'ES384' })
    for (let count = 0; count < 100; count += 1) {
      // The budget of the DID from this network is used up first, which only changes the answer.
      expect([401, 429]).toContain((await ask(forged)).status)
    }
    const { body, headers } = await test.post('/token', 'x', from('192.0.2.1')).expect(429)
    expect(body).toEqual({ error: 'temporarily_unavailable', error_description: 'Too many requests' })
    expect(Number(headers['retry-after'])).toBeGreaterThan(500)
    await ask(machine.assert(), '192.0.2.2').expect(200)
  })

  it('are those of logins for its network: fresh DIDs keep neither others out nor fill the store', async () => {
    const store = memoryStore({ maxChallengeUses: 60, maxQuotas: 60 })
    const { test, ask } = await start({ maxRequestsPerTimeSlot: 1, store })
    const statuses: number[] = []
    for (let number = 2; number < 72; number += 1) statuses.push((await ask(createMachine(number).assert())).status)
    expect(statuses).toEqual([...Array<number>(50).fill(200), ...Array<number>(20).fill(429)])
    const login = await test.createSignedLogin()
    await test.post('/auth', login, from('192.0.2.1')).expect(429)
    await test.post('/auth', login, from('192.0.2.2')).expect(200)
    await ask(machine.assert(), '192.0.2.2').expect(200)
  })

  it('are those of its DID, which a recorded assertion does not use up', async () => {
    const { ask } = await start({ maxRequestsPerTimeSlot: 2 })
    await ask(machine.assert()).expect(200)
    for (let count = 0; count < 5; count += 1) await ask(machine.assert(), '192.0.2.2').expect(401)
    await ask(machine.assert({ jti: 'the second' })).expect(200)
    await ask(machine.assert({ jti: 'the third' })).expect(429, /temporarily_unavailable/)
    await ask(createMachine(2).assert()).expect(200)
  })

  it('count a wrong resource or form as nothing', async () => {
    const { test, ask } = await start({ maxRequestsPerTimeSlot: 1 })
    const form = createForm(machine.assert(), { resource: 'https://unknown.example' })
    for (let count = 0; count < 110; count += 1) await test.post('/token', form, from('192.0.2.1')).expect(400)
    await ask(machine.assert()).expect(200)
  })
})

describe('the business logic of a service', () => {
  it('learns that a machine asks, and its address only for a did:ethr', async () => {
    const calls: unknown[] = []
    const authenticationBusinessLogic: AuthenticationBusinessLogic = (...args) => void calls.push(args)
    const { test, ask } = await start({ authenticationBusinessLogic })
    const wallet = createNumberedWallet(1)
    const did = `did:ethr:rsk:${wallet.address}`
    await ask(machine.assert()).expect(200)
    await ask(importWallet(wallet).assert({ iss: did })).expect(200)
    await test.logIn(wallet)
    const address = wallet.address.toLowerCase()
    expect(calls).toEqual([
      [machine.didKey, { canonicalDid: machine.didKey, machine: true }],
      [did, { canonicalDid: did.toLowerCase(), machine: true, address }],
      [wallet.did, { canonicalDid: wallet.did, address }]
    ])
  })

  it.each<[string, AuthenticationBusinessLogic]>([
    ['false', () => false],
    ['an error with a text', () => Promise.reject(new Error('account 7 is blocked'))]
  ])('refuses by %s with a fixed text, and the assertion is used', async (_what, authenticationBusinessLogic) => {
    const { ask } = await start({ authenticationBusinessLogic })
    const { body } = await ask(machine.assert()).expect(400)
    expect(body).toEqual({ error: 'unauthorized_client', error_description: 'Refused' })
    await ask(machine.assert()).expect(401)
  })

  it('fails as 500 without its cause', async () => {
    const authenticationBusinessLogic = () => {
      throw new TypeError('user of 10.0.0.7 is undefined')
    }
    const { ask } = await start({ authenticationBusinessLogic })
    const { body } = await ask(machine.assert()).expect(500)
    expect(body).toEqual({ error: 'server_error', error_description: 'Internal error' })
  })

  it('adds claims, but none of the protocol', async () => {
    const tokenClaims = { role: 'ci', sub: 'did:web:x', client_id: 'x', aud: 'x', sid: 'x', exp: 1 }
    const { ask } = await start({ authenticationBusinessLogic: () => ({ tokenClaims }) })
    const { body } = await ask(machine.assert()).expect(200)
    const { iat: _iat, jti: _jti, ...claims } = decodeJwt(body.access_token)
    const [sub, client_id] = [machine.didKey, machine.didKey]
    expect(claims).toEqual({
      iss: 'https://service.example',
      aud: ORDERS,
      sub,
      client_id,
      exp: 1_800_000_300,
      role: 'ci'
    })
  })

  it.each([
    [{ machineLogin: true }, 1],
    [{ machineLogin: true, authenticationBusinessLogic: () => true }, 0],
    [{ machineLogin: false }, 0]
  ])('is missed in a warning: %j causes %d', async (config, count) => {
    const { test } = await start(config)
    expect(test.log.filter(({ message }) => message.startsWith('machineLogin without')).length).toBe(count)
  })
})

describe('a login of a machine', () => {
  it('is reported as an event, and so are its refusals', async () => {
    const events: SecurityEvent[] = []
    const { ask } = await start({ onSecurityEvent: (event) => void events.push(event) })
    await ask(machine.assert()).expect(200)
    await ask(machine.assert()).expect(401)
    const event = { atSeconds: 1_800_000_000, did: machine.didKey, clientNetwork: '192.0.2.1' }
    expect(events).toEqual([
      { type: 'login', machine: true, ...event },
      { type: 'proof-refused', code: 'ERR_CLIENT_ASSERTION', ...event }
    ])
  })

  it('logs which check refused, and does not answer it', async () => {
    const lines: unknown[] = []
    const debug = (fields: unknown) => void lines.push(fields)
    const silent = () => undefined
    const { ask } = await start({ logger: { debug, info: silent, warn: silent, error: silent } })
    await ask(machine.assert({ aud: 'https://other.example' })).expect(401)
    const reason = {
      check: 'aud',
      expected: ['https://service.example', 'https://service.example/token'],
      got: ['https://other.example']
    }
    expect(lines).toEqual([{ event: 'request-refused', code: 'ERR_CLIENT_ASSERTION', reason }])
  })

  it.each([
    ['resources, resourceKeys', { resources: [], resourceKeys: [] }],
    ['an http(s) serviceUrl', { serviceUrl: 'urn:service', loginDomains: ['service.example'] }],
    ['resources, resourceKeys, an http(s) serviceUrl', { resources: [], resourceKeys: [], serviceUrl: 'urn:service' }]
  ])('needs %s', async (missing, config) => {
    const work = start(config)
    await expect(work).rejects.toEqual(refusal('ERR_CONFIG'))
    await expect(work).rejects.toThrow(`machineLogin: received true without ${missing}; give all of them, or false`)
  })
})

describe('GET /.well-known/oauth-authorization-server', () => {
  const path = '/.well-known/oauth-authorization-server'

  it('names endpoint, keys and algorithms for machines', async () => {
    const { test } = await start()
    const { body, headers } = await test.get(path).expect(200)
    expect(body).toEqual({
      issuer: 'https://service.example',
      token_endpoint: 'https://service.example/token',
      authorization_endpoint: 'https://service.example/token',
      jwks_uri: 'https://service.example/.well-known/jwks.json',
      grant_types_supported: ['client_credentials'],
      response_types_supported: [],
      token_endpoint_auth_methods_supported: ['private_key_jwt'],
      token_endpoint_auth_signing_alg_values_supported: ['ES256', 'EdDSA', 'Ed25519', 'ES256K']
    })
    expect(headers).toMatchObject({ 'cache-control': 'public, max-age=300', 'access-control-allow-origin': '*' })
    const discovery = await test.get('/.well-known/did-auth.json').expect(200)
    expect(discovery.body).toMatchObject({ token_endpoint: body.token_endpoint, paths: { token: '/token' } })
  })

  it('names only the keys without machineLogin, so that readers of resource tokens find them', async () => {
    const { test } = await start({ machineLogin: false })
    const { body } = await test.get(path).expect(200)
    const jwks_uri = 'https://service.example/.well-known/jwks.json'
    expect(body).toEqual({ issuer: 'https://service.example', jwks_uri, response_types_supported: [] })
    expect((await test.get('/.well-known/did-auth.json')).body).not.toHaveProperty('token_endpoint')
  })

  it('is also at the path that ends with the path of serviceUrl', async () => {
    const { test } = await start({ serviceUrl: 'https://service.example/api/v1/' })
    for (const suffix of ['', '/api/v1']) {
      const { body } = await test.get(path + suffix).expect(200)
      expect(body).toMatchObject({
        issuer: 'https://service.example/api/v1/',
        token_endpoint: 'https://service.example/api/v1/token'
      })
    }
    await test.get(`${path}/other`).expect(404)
  })

  it.each([
    ['without resources', { machineLogin: false, resources: [], resourceKeys: [], discovery: true }],
    ['for a serviceUrl that is no URL', { machineLogin: false, serviceUrl: 'urn:service' }]
  ])('does not exist %s', async (_what, config) => {
    const { test } = await start(config)
    await test.get(path).expect(404)
  })
})

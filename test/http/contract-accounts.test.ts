import { describe, expect, it } from '@jest/globals'
import type { ContractVerifier, DidAuthConfig } from 'express-did-auth'
import request from 'supertest'
import { decodePayload } from '../flows/flow-parts.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { startTestRelay } from '../support/servers/relay-app.js'
import { startIssuer } from '../support/servers/resource-tokens.js'
import { createAccount, createSignedSiwe, requestNonce, createSiweText } from '../support/fixtures/siwe.js'
import { resourceKey, testApp, type TestApp } from '../support/servers/test-app.js'
import { testVault } from '../support/servers/vault-app.js'
import { systemClock } from '../../src/time.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'

const account = createAccount(1)
const address = account.address.toLowerCase()
const CONTRACT_DID = `did:ethr:0x1e:${address}`
const UNSUPPORTED = [401, 'Unsupported DID']
const [RELAY, VAULT] = ['https://relay.example', 'https://vault.example']

/** Creates a node of chain 30 where each account is a contract with this verdict on every signature. */
const nodeSaying = (verdict: boolean): ContractVerifier => ({
  getChainId: async () => 30,
  getCode: async () => '0x60',
  verifyMessage: async () => verdict
})

const contractConfig = (verdict = true): Partial<DidAuthConfig> => ({
  siwe: true,
  contractWallets: { 30: nodeSaying(verdict) }
})

/** Logs in with a signature by another key, which only a contract can accept. */
async function logInAsContract({ app }: Pick<TestApp, 'app'>) {
  const message = createSiweText(account, await requestNonce(app))
  const signature = await createAccount(2).signMessage({ message })
  return request(app).post('/siwe/verify').send({ message, signature })
}

describe('the DID of a contract account', () => {
  it('contains the number of its chain; the DID of a key contains the network name', async () => {
    const { app } = await testApp({ ...contractConfig(), networks: ['rsk'] })
    const { body } = await logInAsContract({ app })
    expect(body).toMatchObject({ did: CONTRACT_DID, address, chainId: 30 })
    expect(decodePayload(body.accessToken)).toMatchObject({ sub: CONTRACT_DID, amr: ['contract'] })
    const byKey = await createSignedSiwe(app, account)
    const { body: keyUser } = await request(app).post('/siwe/verify').send(byKey).expect(200)
    expect(keyUser.did).toBe(`did:ethr:rsk:${address}`)
  })

  it('is refused if its contract refuses', async () => {
    const { status, text } = await logInAsContract(await testApp(contractConfig(false)))
    expect([status, text]).toEqual([401, 'Refused by the contract'])
  })

  it.each(['0x1e', '0x1E', '0x01e', '0x000000000000001e'])(
    'includes every DID of network %s: no key gets a challenge, logs in or signs up with one',
    async (network) => {
      const { post, get } = await testApp({ ...contractConfig(), networks: ['rsk', network] })
      const user = { ...createNumberedWallet(1), did: `did:ethr:${network}:${createNumberedWallet(1).address}` }
      const sig = user.personalSign(createLoginText('service.example', 'a challenge'))
      const answers = [
        ...['/request-auth', '/request-signup'].flatMap((path) => [
          post(path, { did: user.did }),
          get(`${path}/${user.did}`)
        ]),
        ...['/auth', '/signup'].map((path) => post(path, { did: user.did, sig }))
      ]
      for (const { status, text } of await Promise.all(answers)) expect([status, text]).toEqual(UNSUPPORTED)
    }
  )

  it('excludes names and other numbers, which belong to keys, as all do without contractWallets', async () => {
    const [app, plain] = [await testApp(contractConfig()), await testApp()]
    for (const network of ['rsk', '0x1f', '0x1e1'])
      await app.logIn(createNumberedWallet(1), `did:ethr:${network}:${address}`)
    await plain.logIn(createNumberedWallet(1), CONTRACT_DID)
  })

  it.each([
    // Relay and issuer use the clock of the tests.
    [RELAY, 'rsk,0x1E', 200, {}],
    [RELAY, 'rsk', 401, {}],
    [VAULT, 'rsk,0x1E', 201, { clock: systemClock }],
    [VAULT, 'rsk', 401, { clock: systemClock }]
  ] as const)('at %s with NETWORKS=%s gets %i for a token of auth', async (resource, NETWORKS, status, time) => {
    const resources = { resources: [resource], resourceKeys: [resourceKey(1)] }
    const issuer = await startIssuer({ ...contractConfig(), ...resources, ...time })
    const env = { TRUSTED_ISSUER: issuer.url, NETWORKS }
    const server = resource === RELAY ? await startTestRelay(env) : await testVault(env)
    afterTest(() => server.close())
    const token = await issuer.tokenFor(resource, (await logInAsContract(issuer)).body.accessToken)
    const sent = request(server.listener).post(resource === RELAY ? '/file' : '/notes')
    const body = resource === RELAY ? { file: 'a file' } : { content: 'a note' }
    expect((await sent.set('Authorization', `Bearer ${token}`).send(body)).status).toBe(status)
  })
})

import { describe, expect, it } from '@jest/globals'
import { warnOfSharedStores } from '../../src/adapters/reports.js'
import { listConfigWarnings, parseConfig } from '../../src/config/settings.js'
import { createPublicClient, fallback, http } from 'viem'
import { memoryStore } from '../../src/stores/memory/index.js'

const settingsOf = (config: object) =>
  parseConfig({
    challengeSecret: 'a secret of the tests, longer than 32 bytes',
    serviceUrl: 'https://service.example',
    serviceDid: 'did:ethr:rsk:0xf05e5b34c44e07795a67d3554c38b752388d9186',
    serviceSigner: async (): Promise<string> => '',
    ...config
  })

describe('configWarnings', () => {
  const warningsOf = (config: object = {}, environment: object = {}): string[] =>
    listConfigWarnings(settingsOf(config), { hasOwnStore: false, isProduction: false, ...environment })

  /** Credentials are requested, and both gates are closed. */
  const gated = {
    requiredCredentials: ['Email'],
    signupBusinessLogic: () => undefined,
    authenticationBusinessLogic: () => undefined
  }

  it('are none for a valid configuration', () => expect(warningsOf()).toEqual([]))

  it('are given for a secret of 31 bytes and not of 32, counted in UTF-8', () => {
    expect(warningsOf({ challengeSecret: 'x'.repeat(31) })).toEqual(['challengeSecret is shorter than 32 bytes'])
    expect(warningsOf({ challengeSecret: 'x'.repeat(32) })).toEqual([])
    expect(warningsOf({ challengeSecret: 'ü'.repeat(16) })).toEqual([])
  })

  it('are given for access tokens of 901 s and not of 900 s', () => {
    expect(warningsOf({ accessTokenExpirationTimeInSeconds: 901 })).toEqual([
      'access tokens live longer than 900 s: they stay valid that long after a logout'
    ])
    expect(warningsOf({ accessTokenExpirationTimeInSeconds: 900 })).toEqual([])
  })

  it.each(['http://service.example', 'http://localhost.example', 'http://128.0.0.1', 'HTTP://10.0.0.1:3000'])(
    'are given for %s',
    (serviceUrl) => expect(warningsOf({ serviceUrl })).toEqual(['serviceUrl is http: tokens travel unencrypted'])
  )

  it.each([
    'http://localhost:3000',
    'http://app.localhost',
    'http://127.0.0.1:3000',
    'http://127.1.2.3',
    'http://[::1]:3000',
    'https://service.example',
    'urn:service:7',
    'my-service'
  ])('are not given for %s', (serviceUrl) => expect(warningsOf({ serviceUrl })).toEqual([]))

  it.each([
    ['localhost', 'http://localhost'],
    ['localhost:3000', 'http://localhost:3000'],
    ['[::1]:3000', 'http://[::1]:3000'],
    ['auth:3000/login', 'https://auth:3000/login'],
    ['app.example.com', 'https://app.example.com']
  ])('are given for %s, which has no scheme', (serviceUrl, remedy) =>
    expect(warningsOf({ serviceUrl })).toEqual([
      `serviceUrl "${serviceUrl}" has no scheme: give the whole URL, such as ${remedy}`
    ])
  )

  it('are given once for nodes that are asked over http, and name no URL', () => {
    const client = { verifyMessage: async () => true, getCode: async () => '0x', getChainId: async () => 1 }
    const clientAt = (...urls: string[]) =>
      createPublicClient({ transport: fallback(urls.map((url) => http(url))), ccipRead: false })
    const at = (url: string) => createPublicClient({ transport: http(url), ccipRead: false })
    const [far, near, tls] = ['http://10.0.0.1:8545/key', 'http://localhost:8545', 'https://rpc.example/key']
    const why = "with http, anyone on the network path can forge the node's answers; give https"
    const contractWallets = { 1: client, 30: at(far), 31: at(near), 32: clientAt(tls, far), 33: clientAt(tls) }
    expect(warningsOf({ rpcUrl: far, contractWallets })).toEqual([
      `rpcUrl, contractWallets of chain 30, contractWallets of chain 32: ${why}`
    ])
    expect(warningsOf({ rpcUrl: near, contractWallets: { 30: at(tls) } })).toEqual([])
  })

  it('are given for the memory store in production only', () => {
    const warning = 'sessions are in memory: a restart ends all of them'
    expect(warningsOf({}, { isProduction: true })).toEqual([warning])
    expect(warningsOf({}, { isProduction: true, hasOwnStore: true })).toEqual([])
  })

  // A gate that lets everybody through looks like one that works.
  describe('gates that let everyone pass', () => {
    const anyIssuer =
      'requiredCredentials without signupBusinessLogic or trustedIssuers: a user can issue them to themselves'
    const anyLogin =
      'requiredCredentials or requiredClaims without authenticationBusinessLogic: users who never signed up can log in'
    const rpcUrl = 'https://rpc.example'
    const requiredCredentials = ['Email']
    const requiredClaims = [{ claimType: 'name', claimValue: '' }]
    const logic = (): void => undefined

    it('are given for requiredCredentials that anybody may issue', () => {
      const gate = { requiredCredentials, authenticationBusinessLogic: logic, rpcUrl }
      expect(warningsOf(gate)).toEqual([anyIssuer])
      expect(warningsOf({ ...gate, signupBusinessLogic: logic })).toEqual([])
      expect(warningsOf({ ...gate, trustedIssuers: ['did:web:issuer.example'] })).toEqual([])
      expect(warningsOf({ ...gate, trustedIssuers: () => true })).toEqual([])
    })

    it('are given for requirements at sign up that a login does not ask for', () => {
      const signupBusinessLogic = logic
      expect(warningsOf({ requiredCredentials, rpcUrl, signupBusinessLogic })).toEqual([anyLogin])
      expect(warningsOf({ requiredClaims })).toEqual([anyLogin])
      expect(warningsOf({ requiredClaims, authenticationBusinessLogic: logic })).toEqual([])
      // Nothing is required: users who log in have missed nothing.
      expect(warningsOf({ signupBusinessLogic })).toEqual([])
    })
  })

  it('are given when credentials are requested and a did:ethr issuer is proved only by its address', () => {
    const warning =
      'without rpcUrl or resolver, only the address in a did:ethr proves a credential issuer: a replaced key stays valid'
    expect(warningsOf(gated)).toEqual([warning])
    expect(warningsOf({ ...gated, rpcUrl: 'https://rpc.example' })).toEqual([])
    expect(warningsOf({ ...gated, resolver: { resolve: async () => ({}) } })).toEqual([])
  })

  it('are given when a registry or network was chosen and is never asked, because rpcUrl is missing', () => {
    const warning = 'registry and networkName have no effect without rpcUrl: a did:ethr issuer is proved by its address'
    const registry = '0x0000000000000000000000000000000000000001'
    const resolver = { resolve: async () => ({}) }
    expect(warningsOf({ ...gated, registry })).toContain(warning)
    expect(warningsOf({ ...gated, networkName: 'rsk' })).toContain(warning)
    expect(warningsOf(gated)).not.toContain(warning)
    expect(warningsOf({ registry, networkName: 'rsk' })).toEqual([])
    expect(warningsOf({ ...gated, registry, rpcUrl: 'https://rpc.example' })).toEqual([])
    expect(warningsOf({ ...gated, registry, resolver })).toEqual([])
    expect(warningsOf({ ...gated, registry, didControl: 'document' })).not.toContain(warning)
  })

  it('are given once for clients of contractWallets that can fetch what a contract names', () => {
    const client = { verifyMessage: async () => true, getCode: async () => '0x', getChainId: async () => 1 }
    const warning =
      'contractWallets of chain 1, 30 without ccipRead: false: a contract can make this server fetch a URL'
    const fetching = { ...client, ccipRead: undefined }
    expect(warningsOf({ contractWallets: { 30: fetching, 1: { ...client, ccipRead: {} }, 10: client } })).toEqual([
      warning
    ])
    expect(warningsOf({ contractWallets: { 30: { ...client, ccipRead: false }, 10: client } })).toEqual([])
  })

  it('are given for options that do not exist, by name and never by value', () =>
    expect(warningsOf({ challangeSecret: 'PLANTED', usecookies: true })).toEqual([
      'challangeSecret is not an option, see src/config/README.md',
      'usecookies is not an option, see src/config/README.md'
    ]))
})

describe('sharedStoreWarnings', () => {
  const first = { serviceUrl: 'https://first.example', challengeSecret: 'a secret of two services, 32 bytes long' }
  const second = { ...first, serviceUrl: 'https://second.example' }

  it('are given to the second of two services that share a store and a secret, naming both and no secret', () => {
    const store = memoryStore()
    expect(warnOfSharedStores(store, first)).toEqual([])
    expect(warnOfSharedStores(store, second)).toEqual([
      'https://second.example and https://first.example share a store and a challengeSecret: give each service its own secret'
    ])
  })

  it.each([
    ['secrets of their own', { ...second, challengeSecret: 'another secret, 32 bytes long or longer' }],
    ['one serviceUrl: they are instances of one service', { ...first }]
  ])('are not given to two with %s', (_name, other) => {
    const store = memoryStore()
    warnOfSharedStores(store, first)
    expect(warnOfSharedStores(store, other)).toEqual([])
  })

  it('are not given where each has a store of its own, or the default one', () => {
    warnOfSharedStores(memoryStore(), first)
    expect(warnOfSharedStores(memoryStore(), second)).toEqual([])
    warnOfSharedStores(undefined, first)
    expect(warnOfSharedStores(undefined, second)).toEqual([])
  })
})

import { describe, expect, it } from '@jest/globals'
import { warnOfSharedStores } from '../../src/adapters/reports.js'
import { listConfigWarnings, parseConfig } from '../../src/config/settings.js'
import { createPublicClient, fallback, http } from 'viem'
import { memoryStore } from '../../src/stores/memory/index.js'

const parseSettings = (config: object) =>
  parseConfig({
    challengeSecret: 'a secret of the tests, longer than 32 bytes',
    serviceUrl: 'https://service.example',
    serviceDid: 'did:ethr:rsk:0xf05e5b34c44e07795a67d3554c38b752388d9186',
    serviceSigner: async (): Promise<string> => '',
    ...config
  })

describe('listConfigWarnings', () => {
  const listWarnings = (config: object = {}, environment: object = {}): string[] =>
    listConfigWarnings(parseSettings(config), { hasOwnStore: false, isProduction: false, ...environment })

  /** Credentials are requested, and both gates are closed. */
  const gated = {
    requiredCredentials: ['Email'],
    signupBusinessLogic: () => undefined,
    authenticationBusinessLogic: () => undefined
  }

  it('returns nothing for a valid configuration', () => expect(listWarnings()).toEqual([]))

  it('warns about a secret of 31 bytes and not of 32, counted in UTF-8', () => {
    expect(listWarnings({ challengeSecret: 'x'.repeat(31) })).toEqual(['challengeSecret is shorter than 32 bytes'])
    expect(listWarnings({ challengeSecret: 'x'.repeat(32) })).toEqual([])
    expect(listWarnings({ challengeSecret: 'ü'.repeat(16) })).toEqual([])
  })

  it('warns about access tokens of 901 s and not of 900 s', () => {
    expect(listWarnings({ accessTokenExpirationTimeInSeconds: 901 })).toEqual([
      'access tokens live longer than 900 s: they stay valid that long after a logout'
    ])
    expect(listWarnings({ accessTokenExpirationTimeInSeconds: 900 })).toEqual([])
  })

  it.each(['http://service.example', 'http://localhost.example', 'http://128.0.0.1', 'HTTP://10.0.0.1:3000'])(
    'warns about %s',
    (serviceUrl) => expect(listWarnings({ serviceUrl })).toEqual(['serviceUrl is http: tokens travel unencrypted'])
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
  ])('does not warn about %s', (serviceUrl) => expect(listWarnings({ serviceUrl })).toEqual([]))

  it.each([
    ['localhost', 'http://localhost'],
    ['localhost:3000', 'http://localhost:3000'],
    ['[::1]:3000', 'http://[::1]:3000'],
    ['auth:3000/login', 'https://auth:3000/login'],
    ['app.example.com', 'https://app.example.com']
  ])('warns about %s, which has no scheme', (serviceUrl, remedy) =>
    expect(listWarnings({ serviceUrl })).toEqual([
      `serviceUrl "${serviceUrl}" has no scheme: give the whole URL, such as ${remedy}`
    ])
  )

  it('warns once about nodes over http, and names no URL', () => {
    const client = { verifyMessage: async () => true, getCode: async () => '0x', getChainId: async () => 1 }
    const clientAt = (...urls: string[]) =>
      createPublicClient({ transport: fallback(urls.map((url) => http(url))), ccipRead: false })
    const createNodeClient = (url: string) => createPublicClient({ transport: http(url), ccipRead: false })
    const [far, near, tls] = ['http://10.0.0.1:8545/key', 'http://localhost:8545', 'https://rpc.example/key']
    const why = "with http, anyone on the network path can forge the node's answers; give https"
    const contractWallets = {
      1: client,
      30: createNodeClient(far),
      31: createNodeClient(near),
      32: clientAt(tls, far),
      33: clientAt(tls)
    }
    expect(listWarnings({ rpcUrl: far, contractWallets })).toEqual([
      `rpcUrl, contractWallets of chain 30, contractWallets of chain 32: ${why}`
    ])
    expect(listWarnings({ rpcUrl: near, contractWallets: { 30: createNodeClient(tls) } })).toEqual([])
  })

  it('warns about the memory store only in production', () => {
    const warning = 'sessions are in memory: a restart ends all of them'
    expect(listWarnings({}, { isProduction: true })).toEqual([warning])
    expect(listWarnings({}, { isProduction: true, hasOwnStore: true })).toEqual([])
  })

  // A gate that admits everyone looks like a working one.
  describe('ineffective sign-up gates', () => {
    const anyIssuer =
      'requiredCredentials without signupBusinessLogic or trustedIssuers: a user can issue them to themselves'
    const anyLogin =
      'requiredCredentials or requiredClaims without authenticationBusinessLogic: users who never signed up can log in'
    const rpcUrl = 'https://rpc.example'
    const requiredCredentials = ['Email']
    const requiredClaims = [{ claimType: 'name', claimValue: '' }]
    const logic = (): void => undefined

    it('warns about requiredCredentials that anyone may issue', () => {
      const gate = { requiredCredentials, authenticationBusinessLogic: logic, rpcUrl }
      expect(listWarnings(gate)).toEqual([anyIssuer])
      expect(listWarnings({ ...gate, signupBusinessLogic: logic })).toEqual([])
      expect(listWarnings({ ...gate, trustedIssuers: ['did:web:issuer.example'] })).toEqual([])
      expect(listWarnings({ ...gate, trustedIssuers: () => true })).toEqual([])
    })

    it('warns about sign-up requirements that a login does not check', () => {
      const signupBusinessLogic = logic
      expect(listWarnings({ requiredCredentials, rpcUrl, signupBusinessLogic })).toEqual([anyLogin])
      expect(listWarnings({ requiredClaims })).toEqual([anyLogin])
      expect(listWarnings({ requiredClaims, authenticationBusinessLogic: logic })).toEqual([])
      // Nothing is required, so users who log in have skipped no requirement.
      expect(listWarnings({ signupBusinessLogic })).toEqual([])
    })
  })

  it('warns if credentials are requested and a did:ethr issuer is only proved by its address', () => {
    const warning =
      'without rpcUrl or resolver, only the address in a did:ethr proves a credential issuer: a replaced key stays valid'
    expect(listWarnings(gated)).toEqual([warning])
    expect(listWarnings({ ...gated, rpcUrl: 'https://rpc.example' })).toEqual([])
    expect(listWarnings({ ...gated, resolver: { resolve: async () => ({}) } })).toEqual([])
  })

  it('warns about a registry or network that is never used because rpcUrl is missing', () => {
    const warning = 'registry and networkName have no effect without rpcUrl: a did:ethr issuer is proved by its address'
    const registry = '0x0000000000000000000000000000000000000001'
    const resolver = { resolve: async () => ({}) }
    expect(listWarnings({ ...gated, registry })).toContain(warning)
    expect(listWarnings({ ...gated, networkName: 'rsk' })).toContain(warning)
    expect(listWarnings(gated)).not.toContain(warning)
    expect(listWarnings({ registry, networkName: 'rsk' })).toEqual([])
    expect(listWarnings({ ...gated, registry, rpcUrl: 'https://rpc.example' })).toEqual([])
    expect(listWarnings({ ...gated, registry, resolver })).toEqual([])
    expect(listWarnings({ ...gated, registry, didControl: 'document' })).not.toContain(warning)
  })

  it('warns once about contractWallets clients that can fetch URLs of a contract', () => {
    const client = { verifyMessage: async () => true, getCode: async () => '0x', getChainId: async () => 1 }
    const warning =
      'contractWallets of chain 1, 30 without ccipRead: false: a contract can make this server fetch a URL'
    const fetching = { ...client, ccipRead: undefined }
    expect(listWarnings({ contractWallets: { 30: fetching, 1: { ...client, ccipRead: {} }, 10: client } })).toEqual([
      warning
    ])
    expect(listWarnings({ contractWallets: { 30: { ...client, ccipRead: false }, 10: client } })).toEqual([])
  })

  it('warns about unknown options, by name and never by value', () =>
    expect(listWarnings({ challangeSecret: 'PLANTED', usecookies: true })).toEqual([
      'challangeSecret is not an option, see src/config/README.md',
      'usecookies is not an option, see src/config/README.md'
    ]))
})

describe('warnings about a shared store', () => {
  const first = { serviceUrl: 'https://first.example', challengeSecret: 'a secret of two services, 32 bytes long' }
  const second = { ...first, serviceUrl: 'https://second.example' }

  it('name both services that share a store and a secret, and no secret', () => {
    const store = memoryStore()
    expect(warnOfSharedStores(store, first)).toEqual([])
    expect(warnOfSharedStores(store, second)).toEqual([
      'https://second.example and https://first.example share a store and a challengeSecret: give each service its own secret'
    ])
  })

  it.each([
    ['secrets of their own', { ...second, challengeSecret: 'another secret, 32 bytes long or longer' }],
    ['one serviceUrl: they are instances of one service', { ...first }]
  ])('are not given for two services with %s', (_name, other) => {
    const store = memoryStore()
    warnOfSharedStores(store, first)
    expect(warnOfSharedStores(store, other)).toEqual([])
  })

  it('are not given if each service has its own store, or the default one', () => {
    warnOfSharedStores(memoryStore(), first)
    expect(warnOfSharedStores(memoryStore(), second)).toEqual([])
    warnOfSharedStores(undefined, first)
    expect(warnOfSharedStores(undefined, second)).toEqual([])
  })
})

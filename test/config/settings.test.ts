import { describe, expect, it } from '@jest/globals'
import { defaultNetworks } from '../../src/config/check-options.js'
import { defaults, optionNames, type DidAuthConfig } from '../../src/config/options.js'
import { parseConfig } from '../../src/config/settings.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { refusal } from '../support/fixtures/refusal.js'
import { resourceKey } from '../support/servers/test-app.js'

const serviceSigner = async (): Promise<string> => ''
const least: DidAuthConfig = {
  challengeSecret: 'a secret of the tests, longer than 32 bytes',
  serviceUrl: 'https://service.example',
  serviceDid: 'did:ethr:rsk:0xf05e5b34c44e07795a67d3554c38b752388d9186',
  serviceSigner
}

const parseSettings = (config: object = {}) => parseConfig({ ...least, ...config })

/** Returns the lines of the error for an invalid configuration, without the heading. */
function listProblems(config: unknown): string[] {
  try {
    parseConfig(config)
    return []
  } catch (error) {
    expect(error).toEqual(refusal('ERR_CONFIG'))
    const [heading, ...problems] = (error as Error).message.split('\n')
    expect(heading).toBe('express-did-auth: invalid configuration')
    return problems.map((problem) => problem.replace('  - ', ''))
  }
}
const listProblemsWith = (config: object): string[] => listProblems({ ...least, ...config })

/** Returns the start of a problem whose value may be a secret. */
const hidden = (type: string): string => `a value of type ${type} (not shown); give `

const chainClient = { verifyMessage: async () => true, getCode: async () => '0x', getChainId: async () => 30 }

describe('the defaults of parseConfig', () => {
  it('complete the four required options', () => {
    expect(parseConfig(least)).toEqual({
      challengeSecret: 'a secret of the tests, longer than 32 bytes',
      serviceUrl: 'https://service.example',
      serviceDid: 'did:ethr:rsk:0xf05e5b34c44e07795a67d3554c38b752388d9186',
      previousServiceDids: [],
      serviceSigner,
      useCookies: false,
      paths: {
        requestSignup: '/request-signup',
        signup: '/signup',
        requestAuth: '/request-auth',
        auth: '/auth',
        logout: '/logout',
        refreshToken: '/refresh-token',
        session: undefined,
        sessions: undefined
      },
      challengeWindowSeconds: 300,
      maxRequestsPerTimeSlot: 20,
      timeSlotSeconds: 600,
      sessionSeconds: 604_800,
      absoluteSessionSeconds: Infinity,
      accessTokenSeconds: 600,
      resolution: {
        kind: 'ethr',
        networks: [
          { name: 'rsk', rpcUrl: 'https://public-node.rsk.co', chainId: 30 },
          { name: 'rsk:testnet', rpcUrl: 'https://public-node.testnet.rsk.co', chainId: 31 }
        ],
        registry: '0xdca7ef03e98e0dc2b855be647c39abe984fcf21b',
        provesByAddress: true
      },
      authenticationBusinessLogic: undefined,
      signupBusinessLogic: undefined,
      refreshBusinessLogic: undefined,
      isTrustedIssuer: undefined,
      required: { credentials: [], claims: [] },
      singleUse: true,
      refreshReuseGraceSeconds: 10,
      loginDomains: ['service.example', 'https://service.example'],
      loginDialects: ['login'],
      contractWallets: undefined,
      didControl: 'address',
      loginProofs: false,
      networks: undefined,
      deviceBinding: { mode: 'off', nonceSeconds: 900, nonceKey: expect.any(Buffer) },
      trustedOrigins: new Set(['https://service.example']),
      cookiePrefix: '',
      credentialStatus: 'ignore',
      resources: [],
      resourceKeys: [],
      machineLogin: false,
      errorFormat: 'text',
      unknownOptions: []
    })
  })

  it('also replace an option given as undefined', () => {
    const options = Object.fromEntries(Object.keys(defaults).map((option) => [option, undefined]))
    expect(parseSettings(options)).toEqual(parseConfig(least))
  })
})

describe('the settings of parseConfig', () => {
  it('are frozen, and later changes of the configuration do not reach them', () => {
    const previousServiceDids = ['did:ethr:rsk:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf']
    const lists = { loginDomains: ['app.example'], requiredCredentials: ['Email'], previousServiceDids }
    const config = { ...least, ...lists, trustedOrigins: [] }
    const settings = parseConfig(config)
    previousServiceDids.pop()
    config.loginDomains.push('attacker.example')
    config.requiredCredentials.pop()
    expect(settings.loginDomains).toEqual(['service.example', 'https://service.example', 'app.example'])
    expect(settings.required.credentials).toEqual(['Email'])
    expect(settings.previousServiceDids).toHaveLength(1)
    expect(Object.isFrozen(settings) && Object.isFrozen(settings.paths)).toBe(true)
  })

  it.each([
    ['userSessionDurationInHours', 168, 'sessionSeconds', 604_800],
    ['userSessionDurationInHours', 0.5, 'sessionSeconds', 1_800],
    // The floating point result is 3960.0000000000005.
    ['userSessionDurationInHours', 1.1, 'sessionSeconds', 3_960],
    ['userSessionDurationInHours', 0.000001, 'sessionSeconds', 1],
    ['absoluteSessionDurationInHours', 24, 'absoluteSessionSeconds', 86_400],
    ['absoluteSessionDurationInHours', 1.1, 'absoluteSessionSeconds', 3_960],
    // Access tokens last no fraction of a second longer, time slots none shorter.
    ['accessTokenExpirationTimeInSeconds', 60.9, 'accessTokenSeconds', 60],
    ['timeSlotInSeconds', 60.1, 'timeSlotSeconds', 61],
    ['maxRequestsPerTimeSlot', Infinity, 'maxRequestsPerTimeSlot', Infinity],
    ['replayProtection', 'window', 'singleUse', false]
  ] as const)('turn %s %p into %s %p', (option, value, setting, expected) =>
    expect(parseSettings({ [option]: value })[setting]).toBe(expected)
  )

  it('keep trustedIssuers as a function, and match a list in every spelling of a DID', () => {
    const trusts = (issuer: string): boolean => issuer === 'did:web:issuer.example'
    expect(parseSettings({ trustedIssuers: trusts }).isTrustedIssuer).toBe(trusts)
    const listed = parseSettings({ trustedIssuers: ['did:ethr:rsk:0xABCDEF5e34c44e07795a67d3554c38b752388d91'] })
    expect(listed.isTrustedIssuer?.('did:ethr:rsk:0xabcdef5e34C44E07795a67d3554c38b752388d91')).toBe(true)
    expect(listed.isTrustedIssuer?.('did:ethr:rsk:0xf05e5b34c44e07795a67d3554c38b752388d9186')).toBe(false)
    expect(parseSettings({ trustedIssuers: [] }).isTrustedIssuer?.('did:web:issuer.example')).toBe(false)
  })

  it('require both resources and resourceKeys, or neither', () => {
    const both = { resources: ['https://a.example', 'http://[::1]:3001'], resourceKeys: [resourceKey(1)] }
    expect(parseSettings(both)).toMatchObject({ ...both, paths: { resourceToken: '/resource-token' } })
    const problem = 'resources, resourceKeys: received one without the other; give both, or neither'
    expect(listProblemsWith({ resources: both.resources })).toEqual([problem])
    expect(listProblemsWith({ resourceKeys: both.resourceKeys, resources: [] })).toEqual([problem])
    expect(parseSettings({ resources: [], resourceKeys: [] }).paths.discovery).toBeUndefined()
  })

  it('require trustedIssuers to check the status of credentials', () => {
    const trustedIssuers = ['did:web:issuer.example']
    expect(parseSettings().credentialStatus).toBe('ignore')
    expect(parseSettings({ credentialStatus: 'check', trustedIssuers }).credentialStatus).toBe('check')
    expect(parseSettings({ credentialStatus: 'check', trustedIssuers: () => true }).credentialStatus).toBe('check')
    expect(listProblemsWith({ credentialStatus: 'ignore' })).toEqual([])
    const problem = 'credentialStatus: received "check" without trustedIssuers; give trustedIssuers, or "ignore"'
    expect(listProblemsWith({ credentialStatus: 'check' })).toEqual([problem])
  })

  it('list ended sessions for the longest life of a token and 60 s, and turn discovery on', () => {
    const listed = (options: object = {}) => parseSettings({ endedSessions: true, ...options })
    expect(listed().listedSeconds).toBe(660)
    expect(listed({ accessTokenExpirationTimeInSeconds: 100 }).listedSeconds).toBe(360)
    expect(listed().paths).toMatchObject({
      endedSessions: '/.well-known/ended-sessions',
      discovery: '/.well-known/did-auth.json'
    })
    expect(parseSettings().listedSeconds).toBeUndefined()
  })

  it('require a store with listEndedSessions for endedSessions', () => {
    const { listEndedSessions: _list, ...store } = memoryStore()
    expect(listProblemsWith({ store })).toEqual([])
    expect(listProblemsWith({ store, endedSessions: true })).toEqual([
      'endedSessions: received true with a store without listEndedSessions; give another store, or false'
    ])
  })

  it("default the audience of resourceIssuer to the service's own URL", () => {
    const issuer = 'https://auth.example'
    const readAudience = (options: object) =>
      parseSettings({ resourceIssuer: { issuer, ...options } }).resourceIssuer?.audience
    expect(readAudience({})).toBe('https://service.example')
    // An unset variable of process.env is undefined, which must not accept tokens for any audience.
    expect(readAudience({ audience: undefined })).toBe('https://service.example')
    expect(readAudience({ audience: 'https://a.example' })).toBe('https://a.example')
  })

  it('contain the paths of sessions if they are given', () => {
    const { paths } = parseSettings({ sessionPath: '/session', sessionsPath: '/account/sessions' })
    expect([paths.session, paths.sessions]).toEqual(['/session', '/account/sessions'])
  })

  it('can be read from a class with getters', () => {
    class Options {
      readonly serviceSigner = serviceSigner
      readonly serviceDid = least.serviceDid
      readonly serviceUrl = least.serviceUrl
      get challengeSecret(): string {
        return least.challengeSecret
      }
      get authPath(): string {
        return '/login'
      }
    }
    const settings = parseConfig(new Options())
    expect(settings.challengeSecret).toBe('a secret of the tests, longer than 32 bytes')
    expect(settings.paths.auth).toBe('/login')
  })

  it('keep serviceUrl byte for byte, and trust the origin of an http(s) URL', () => {
    const settings = parseSettings({
      serviceUrl: 'HTTPS://Service.example:443/App',
      trustedOrigins: ['https://app.example', 'http://localhost:5173']
    })
    expect(settings.serviceUrl).toBe('HTTPS://Service.example:443/App')
    expect([...settings.trustedOrigins]).toEqual([
      'https://service.example',
      'https://app.example',
      'http://localhost:5173'
    ])
  })

  it.each(['urn:service:7', 'service.example', 'did:web:service.example', 'x'])(
    'contain one login domain and no trusted origin if serviceUrl is %s',
    (serviceUrl) => {
      const settings = parseSettings({ serviceUrl })
      expect(settings.loginDomains).toEqual([serviceUrl])
      expect(settings.trustedOrigins.size).toBe(0)
    }
  )

  it.each([
    ['the network named', { networkName: 'rsk:testnet' }, [defaultNetworks[1]], true],
    ['rpcUrl as rsk', { rpcUrl: 'http://127.0.0.1:8545' }, [{ name: 'rsk', rpcUrl: 'http://127.0.0.1:8545' }], false],
    [
      'rpcUrl as the network named',
      { rpcUrl: 'https://rpc.example/key', networkName: 'sepolia' },
      [{ name: 'sepolia', rpcUrl: 'https://rpc.example/key' }],
      false
    ]
  ])('resolve on %s', (_name, config, networks, provesByAddress) =>
    expect(parseSettings(config).resolution).toEqual({
      kind: 'ethr',
      networks,
      registry: '0xdca7ef03e98e0dc2b855be647c39abe984fcf21b',
      provesByAddress
    })
  )

  it("translate '' in users' DIDs to ethereum, also under its name in resolvers", () => {
    const settings = parseSettings({ networks: ['rsk', 'Ethereum'], siwe: { network: 'ethereum' } })
    expect([settings.networks, settings.siwe?.network]).toEqual([['rsk', ''], ''])
    const { resolution } = parseSettings({ rpcUrl: 'https://rpc.example', networkName: 'ethereum' })
    expect(resolution).toMatchObject({ networks: [{ name: 'mainnet' }] })
  })

  it('use only a given resolver', () => {
    const resolver = { resolve: async () => ({}) }
    const config = { resolver, rpcUrl: 'https://rpc.example', networkName: 'sepolia' }
    expect(parseSettings(config).resolution).toEqual({ kind: 'resolver', resolver })
    expect(parseSettings({ resolver, networkName: 'sepolia' }).resolution).toEqual({ kind: 'resolver', resolver })
  })
})

describe('parseConfig', () => {
  it.each([
    ['nothing', undefined, 'nothing'],
    ['null', null, 'nothing'],
    ['a string', 'a secret in the wrong place', 'a value of type string (not shown)'],
    ['an array', [], '[]']
  ])('refuses %s in place of the options', (_name, config, received) =>
    expect(listProblems(config)).toEqual([`config: received ${received}; give an object`])
  )

  it('lists all four required options if all are missing', () =>
    expect(listProblems({})).toEqual([
      'challengeSecret: received nothing; give a non-empty string',
      'serviceUrl: received nothing; give a URI of printable ASCII without space, double quote or backslash',
      'serviceSigner: received nothing; give es256kSigner(privateKey) or another did-jwt ES256K signer',
      'serviceDid: received nothing; give a DID, such as did:ethr:rsk:0x… (40 hex digits)'
    ]))

  it.each(['ab'.repeat(32), new Uint8Array(32)])(
    'reports a private key given as signer, and does not report the DID',
    (key) =>
      expect(listProblemsWith({ serviceSigner: key, serviceDid: undefined })).toEqual([
        `serviceSigner: received a value of type ${typeof key} (not shown); give es256kSigner(privateKey) or another did-jwt ES256K signer`
      ])
  )

  it.each([
    ['challengeSecret', '', `${hidden('string')}a non-empty string`],
    ['challengeSecret', 12345, `${hidden('number')}a non-empty string`],
    ['serviceDid', 'alice', '"alice"; give a DID'],
    ['serviceDid', 'did:ethr:0x1', '"did:ethr:0x1"; give a DID'],
    ['serviceDid', `did:a:${'b'.repeat(123)}`, '"did:a:'],
    ['useCookies', 'true', '"true"; give true or false'],
    ['useCookies', null, 'nothing; give true or false'],
    ['authPath', 'auth', '"auth"; give a path that starts with "/"'],
    ['authPath', '/a b', '"/a b"; give a path'],
    ['authPath', '/a#b', '"/a#b"; give a path'],
    ['challengeExpirationTimeInSeconds', 0, '0; give a number of seconds, at least 1'],
    ['challengeExpirationTimeInSeconds', '300', '"300"; give a number of seconds, at least 1'],
    ['challengeExpirationTimeInSeconds', Number.NaN, 'NaN; give a number of seconds'],
    ['challengeExpirationTimeInSeconds', Infinity, 'Infinity; give a number of seconds'],
    ['maxRequestsPerTimeSlot', 0, '0; give a number of requests, at least 1 (Infinity for no limit)'],
    [
      'challengeExpirationTimeInSeconds',
      1e9 + 1,
      '1000000001; give a number of seconds, at least 1 and at most 1000000000'
    ],
    ['timeSlotInSeconds', 0.9, '0.9; give a number of seconds, at least 1'],
    ['userSessionDurationInHours', 0, '0; give a number of hours above 0'],
    ['userSessionDurationInHours', Infinity, 'Infinity; give a number of hours'],
    ['accessTokenExpirationTimeInSeconds', 600n, `${hidden('bigint')}a number`],
    ['rpcUrl', 'ws://rpc.example/key', `${hidden('string')}an http(s) URL`],
    ['rpcUrl', ['https://rpc.example'], '[a value of type string (not shown)]; give an http(s) URL'],
    ['networkName', '', '""; give a name such as "rsk" or "ethereum"'],
    ['registry', '0x1234', '"0x1234"; give a contract address, 0x and 40 hex digits'],
    ['authenticationBusinessLogic', 'f', '"f"; give a function'],
    ['requiredCredentials', 'Email', '"Email"; give an array of schema names'],
    ['requiredCredentials', ['Email', ''], '[\"Email\", \"\"]; give an array of schema names'],
    ['requiredClaims', [{ claimType: 'name' }], '[a value of type object (not shown)]; give an array of { claimType'],
    ['requiredClaims', [{ claimType: 'a', claimValue: 'b', reason: 5 }], '[a value'],
    ['store', {}, `${hidden('object')}an object with createSession, findSession, rotateRefresh`],
    ['store', { ...memoryStore(), ping: undefined }, `${hidden('object')}an object with createS`],
    ['trustedIssuers', 'did:web:a', '"did:web:a"; give an array of DIDs, or a function of a DID'],
    ['trustedIssuers', ['issuer.example'], '["issuer.example"]; give an array of DIDs, or a function of a DID'],
    ['credentialStatus', 'require', '"require"; give "ignore" or "check"'],
    ['credentialStatus', true, 'true; give "ignore" or "check"'],
    ['cookiePrefix', '__host-', '"__host-"; give "__Host-" or "__Secure-"'],
    ['errorFormat', 'json', '"json"; give "text" or "problem"'],
    ['sessionsPath', '/sessions/:id', '"/sessions/:id"; give a path that starts with "/" and is not a pattern'],
    ['replayProtection', 'none', '"none"; give "single-use" or "window"'],
    ['refreshReuseGraceSeconds', -1, '-1; give a number of seconds, at least 0'],
    ['loginDomains', 'app.example', '"app.example"; give an array of domains'],
    ['loginDomains', ['app.example', 'a b'], '["app.example", "a b"]; give an array of domains'],
    ['loginDomains', ['a\nVerification code: b'], '["a\\nVerification code: b"]; give an array of domains'],
    ['loginDomains', [['a']], '[an array]; give an array of domains'],
    ['loginDialects', [], '[]; give an array of "login" and "url", at least one'],
    ['loginDialects', ['siwe'], '["siwe"]; give an array of "login" and "url"'],
    ['loginDialects', ['toString'], '["toString"]; give an array of "login" and "url"'],
    ...[
      { 30: { ...chainClient, chain: { id: 31 } } },
      { 30: { ...chainClient, getCode: undefined } },
      { 0: chainClient },
      { rsk: chainClient },
      [chainClient]
    ].map((value): [string, unknown, string] => ['contractWallets', value, '']),
    ['didControl', 'chain', '"chain"; give "address" or "document"'],
    ['networks', [], '[]; give an array of networks such as "rsk", "" for Ethereum, at least one'],
    ['networks', ['rsk:'], '["rsk:"]; give an array of networks'],
    ['networks', ['rsk', 'Mainnet'], '["rsk", "Mainnet"]; give "ethereum", or "", in place of "mainnet"'],
    ['resources', 'https://a.example', '"https://a.example"; give an array of at most 50 URLs, https or'],
    ['resources', ['http://a.example'], '["http://a.example"]; give an array of at most 50 URLs'],
    ['resources', Array(51).fill('https://a.example'), '["https://a.example"'],
    ...[
      { ...resourceKey(1), d: undefined },
      { ...resourceKey(1), d: `${resourceKey(1).d}A` },
      { ...resourceKey(1), crv: 'P-384' },
      { kty: 'oct', k: 'c2VjcmV0' },
      { publicKey: resourceKey(1) },
      { publicKey: { ...resourceKey(1), crv: 'secp256k1' }, sign: () => undefined }
    ].map((key): [string, unknown, string] => [
      'resourceKeys',
      [key],
      '[a value of type object (not shown)]; give an array of private keys of P-256 as JWK'
    ]),
    ['resourceKeys', JSON.stringify(resourceKey(1)), `${hidden('string')}an array of private keys`],
    ['resourceKeys', [JSON.stringify(resourceKey(1))], '[a value of type string (not shown)]; give an array'],
    [
      'resourceIssuer',
      'https://auth.example',
      '"https://auth.example"; give { issuer, audience?, keys?, endedSessions? }, the issuer as a URL'
    ],
    ['resourceIssuer', { issuer: 'http://auth.example' }, `${hidden('object')}{ issuer`],
    ['resourceIssuer', { issuer: 'https://auth.example', audience: '' }, `${hidden('object')}{ issuer`],
    ['resourceIssuer', { issuer: 'https://auth.example', keys: [] }, `${hidden('object')}{ issuer`],
    ['resourceIssuer', { issuer: 'https://auth.example', keys: [{ kty: 'RSA' }] }, `${hidden('object')}{ issuer`],
    ...[{ pollSeconds: 0 }, { url: 'http://auth.example/list' }, { serviceDid: 'did:web:auth.example' }, 2].map(
      (endedSessions): [string, unknown, string] => [
        'resourceIssuer',
        { issuer: 'https://auth.example', endedSessions },
        `${hidden('object')}{ issuer`
      ]
    ),
    ['discovery', 'yes', '"yes"; give true or false'],
    ['endedSessions', { url: '/list' }, `${hidden('object')}true or false`],
    ['trustedOrigins', ['https://app.example/'], '["https://app.example/"]; give an array of origins'],
    ['resolver', () => undefined, `${hidden('function')}an object with resolve`],
    ['logger', { info: () => undefined }, `${hidden('object')}an object with info, warn, error`],
    ['clock', { now: () => 0 }, `${hidden('object')}an object with nowSeconds`]
  ])('names the field, the value and the fix: %s = %p', (field, value, received) => {
    const problems = listProblemsWith({ [field]: value })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(`${field}: received ${received}`)
  })

  it.each(optionNames)('inspects %s', (option) =>
    expect(listProblemsWith({ [option]: Symbol('no value of an option') })).toEqual([
      expect.stringContaining(`${option}: received a value of type symbol (not shown); give `)
    ])
  )

  it.each(['', ' ', 'https://service.example/a b', 'https://münchen.example', 'a"b', 'a\\b', 'a\nb', 'a\0b', 'a\x7fb'])(
    'refuses serviceUrl %j, which cannot be part of a header or a signed message',
    (serviceUrl) => expect(listProblemsWith({ serviceUrl })).toEqual([expect.stringContaining('serviceUrl: received ')])
  )

  it('accepts every printable character except space, double quote and backslash in serviceUrl', () => {
    const all = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code))
    const accepted = all.filter((char) => listProblemsWith({ serviceUrl: `x${char}` }).length === 0)
    expect(accepted.join('')).toBe(
      "!#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~"
    )
  })

  it('accepts 1000000000 seconds: each expiry is still a safe integer', () => {
    const times = {
      challengeExpirationTimeInSeconds: 1e9,
      accessTokenExpirationTimeInSeconds: 1e9,
      timeSlotInSeconds: 1e9,
      refreshReuseGraceSeconds: 1e9
    }
    expect(listProblemsWith(times)).toEqual([])
  })

  it.each([
    ['https://a.example:443', '["https://a.example"]'],
    ['https://A.example', '["https://a.example"]'],
    ['https://a.example/', '["https://a.example"]'],
    ['http://b.example:80/app?x#y', '["http://b.example"]'],
    ['https://münchen.example', '["https://xn--mnchen-3ya.example"]']
  ])('shows how browsers spell the trusted origin %s', (origin, spelled) => {
    expect(listProblemsWith({ trustedOrigins: ['https://good.example', origin] })).toEqual([
      `trustedOrigins: received ["https://good.example", "${origin}"]; give an array of origins as browsers spell them: ${spelled}`
    ])
  })

  it.each([[['app.example']], [['null']], [['urn:a:b']], ['https://a.example/'], [[5]]])(
    'shows an example for trustedOrigins %j, which is not a list of URLs with an origin',
    (trustedOrigins) =>
      expect(listProblemsWith({ trustedOrigins })).toEqual([
        expect.stringMatching(/; give an array of origins such as "https:\/\/app\.example"$/)
      ])
  )

  it('names the argument for the origin of an app in trustedOrigins', () =>
    expect(listProblemsWith({ trustedOrigins: ['https://good.example', 'tauri://localhost'] })).toEqual([
      'trustedOrigins: received ["https://good.example", "tauri://localhost"]; ' +
        'give http(s) origins only, and those of apps to corsOptions as its second argument'
    ]))

  it('accepts unusual but valid options', () => {
    const config = {
      challengeSecret: 'x',
      challengeExpirationTimeInSeconds: 1.5,
      accessTokenExpirationTimeInSeconds: 86_400,
      userSessionDurationInHours: 0.25,
      maxRequestsPerTimeSlot: 1,
      refreshReuseGraceSeconds: 0,
      authPath: '/api/v1.0/~tenant/auth',
      registry: '0xDCA7EF03E98E0DC2B855BE647C39ABE984FCF21B',
      requiredClaims: [{ claimType: 'a', claimValue: '', reason: 'b', essential: true }],
      store: memoryStore(),
      logger: console,
      clock: { nowSeconds: () => 0 }
    }
    expect(listProblemsWith(config)).toEqual([])
  })

  it('lists every problem in one error, conflicts between fields included', () => {
    const problems = listProblemsWith({
      challengeSecret: '',
      useCookies: 'yes',
      loginDomains: ['a', 'b', 'c', 'd', 'e'],
      authPath: '/signup',
      networkName: 'sepolia'
    })
    expect(problems).toEqual([
      'challengeSecret: received a value of type string (not shown); give a non-empty string',
      'useCookies: received "yes"; give true or false',
      'loginDomains: received ["service.example", "https://service.example", "a", "b", "c", "d", "e"]; give at most 6 with those of serviceUrl',
      'paths: received /signup twice; give each route its own path',
      'networkName: received "sepolia" without rpcUrl; give rpcUrl, or "rsk" or "rsk:testnet"'
    ])
  })

  it('counts too many login domains even if serviceUrl is invalid', () => {
    const loginDomains = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
    expect(listProblemsWith({ serviceUrl: '', loginDomains })).toEqual([
      expect.stringContaining('serviceUrl: '),
      'loginDomains: received ["a", "b", "c", "d", "e", "f", "g"]; give at most 6 with those of serviceUrl'
    ])
  })

  it('accepts 6 login domains including those of serviceUrl, and counts repeated ones once', () => {
    const loginDomains = ['a.example', 'b.example', 'c.example', 'd.example', 'd.example', 'service.example']
    expect(parseSettings({ loginDomains }).loginDomains).toHaveLength(6)
  })

  it('refuses a session route with the path of another route', () => {
    expect(listProblemsWith({ sessionPath: '/logout' })).toEqual([
      'paths: received /logout twice; give each route its own path'
    ])
    expect(listProblemsWith({ sessionPath: '/s', sessionsPath: '/S/' })).toEqual([
      'paths: received /s twice; give each route its own path'
    ])
  })

  it.each([
    ['/AUTH', '/auth'],
    ['/auth/', '/auth']
  ])('refuses a repeated path as Express compares them: %s', (signupPath, shown) =>
    expect(listProblemsWith({ signupPath })).toEqual([`paths: received ${shown} twice; give each route its own path`])
  )

  it('refuses a network without its RPC address, but reports an invalid address only once', () => {
    expect(listProblemsWith({ networkName: 'mainnet' })).toEqual([
      'networkName: received "mainnet" without rpcUrl; give rpcUrl, or "rsk" or "rsk:testnet"'
    ])
    expect(listProblemsWith({ networkName: 'mainnet', rpcUrl: 'x' })).toEqual([expect.stringContaining('rpcUrl: ')])
    expect(listProblemsWith({ networkName: 'mainnet', rpcUrl: 'https://rpc.example' })).toEqual([])
  })

  it('shows at most 100 characters of a value', () => {
    for (const config of [{ authPath: 'x'.repeat(10_000) }, { trustedOrigins: Array(10_000).fill('x') }]) {
      const [problem = ''] = listProblemsWith(config)
      expect(problem).toContain('…')
      expect(problem.length).toBeLessThan(220)
    }
  })

  it('never shows a secret, not even one in the wrong field', () => {
    const key = '4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318'
    const planted = ['PLANTED-SECRET', key, 'PLANTED-RPC-KEY', '4711471147114711']
    const configs: object[] = [
      { challengeSecret: { secret: 'PLANTED-SECRET' } },
      { challengeSecret: ['PLANTED-SECRET'] },
      { challengeSecret: 4711471147114711 },
      { serviceSigner: key },
      { serviceSigner: { privateKey: key } },
      { rpcUrl: 'rpc.example/v3/PLANTED-RPC-KEY' },
      { serviceDid: key },
      { serviceDid: `0x${key}` },
      { serviceDid: key.toUpperCase() },
      { serviceUrl: `${key} ` },
      { registry: key },
      { networkName: key },
      { loginDomains: [`${key} `] },
      { loginDomains: ['a', 'b', 'c', 'd', 'e', 'f', key] },
      { challengeSecret: 'PLANTED-SECRET', serviceSigner: 5 }
    ]
    const messages = [...configs.map(listProblemsWith), listProblems(key), listProblems([key])].flat()
    expect(messages.length).toBeGreaterThanOrEqual(configs.length)
    for (const secret of planted) expect(messages.join('\n').toLowerCase()).not.toContain(secret.toLowerCase())
  })
})

describe('the option siwe', () => {
  it('defaults to /siwe, the network of the service and 300 s', () => {
    const { siwe, paths } = parseSettings({ siwe: true })
    expect(siwe).toMatchObject({ path: '/siwe', network: 'rsk', nonceSeconds: 300 })
    expect(paths).toMatchObject({ siweNonce: '/siwe/nonce', siweVerify: '/siwe/verify', siweLogout: '/siwe/logout' })
    expect(parseSettings().siwe).toBeUndefined()
  })

  it.each([
    ['did:ethr:0xf05e5b34c44e07795a67d3554c38b752388d9186', {}, ''],
    ['did:ethr:rsk:testnet:0xf05e5b34c44e07795a67d3554c38b752388d9186', {}, 'rsk:testnet'],
    ['did:web:service.example', { network: '0x89' }, '0x89']
  ])('gives a service %s with %j the network %p', (serviceDid, siwe, network) =>
    expect(parseSettings({ serviceDid, siwe }).siwe?.network).toBe(network)
  )

  it.each([
    [{ siwe: false }, 'siwe: received false; give true, or an object of path, network, nonceSeconds, domains'],
    [{ siwe: { path: 'siwe' } }, 'siwe.path: received "siwe"; give a path that starts with "/" and is not a pattern'],
    [{ siwe: { network: '0x' } }, 'siwe.network: received "0x"; give a network such as "rsk", "" for Ethereum'],
    [{ siwe: { nonceSeconds: 29 } }, 'siwe.nonceSeconds: received 29; give a number of seconds, 30 to 3600'],
    [{ siwe: { nonceSeconds: 3_601 } }, 'siwe.nonceSeconds: received 3601; give a number of seconds, 30 to 3600'],
    ...['https://app.example', 'app.example:443', 'user@app.example', 'app.example?', '', ' app.example'].map(
      (domain): [Partial<DidAuthConfig>, string] => [
        { siwe: { domains: ['[::1]:8080', 'App.example.', domain] } },
        `siwe.domains: received ["[::1]:8080", "App.example.", "${domain}"]; give an array of hosts as browsers spell them, such as "app.example", or a function of a host`
      ]
    ),
    [
      { siwe: true, serviceDid: 'did:web:service.example' },
      'siwe.network: received nothing; give one, since serviceDid is not of did:ethr'
    ],
    [{ siwe: true, networks: [''] }, 'siwe.network: received "rsk"; give one of networks'],
    [
      { siwe: { network: 'mainnet' } },
      'siwe.network: received "mainnet"; give "ethereum", or "", in place of "mainnet": no DID has that name'
    ],
    [
      { siwe: { network: '0x01E' }, contractWallets: { 30: chainClient } },
      'siwe.network: received "0x01E"; give a name such as "rsk": a number that contractWallets lists belongs to contracts'
    ],
    [
      { siwe: true, contractWallets: { 30: chainClient }, serviceDid: least.serviceDid?.replace('rsk', '0x1e') },
      'siwe.network: received "0x1e"; give a name such as "rsk": a number that contractWallets lists belongs to contracts'
    ],
    [{ siwe: { network: 'sepolia' }, networks: ['rsk'] }, 'siwe.network: received "sepolia"; give one of networks'],
    [
      { siwe: true, serviceUrl: 'urn:service' },
      'siwe.domains: received nothing; give a host here or in loginDomains, since serviceUrl is not an http(s) URL'
    ],
    [{ siwe: true, logoutPath: '/SIWE/logout/' }, 'paths: received /siwe/logout twice; give each route its own path']
  ])('is refused in %j', (config, problem) => expect(listProblemsWith(config)).toEqual([problem]))

  it.each([
    { serviceUrl: 'urn:service', loginDomains: ['app.example'] },
    { serviceUrl: 'urn:service', siwe: { domains: ['app.example'] } },
    { serviceUrl: 'urn:service', siwe: { domains: () => true } },
    { networks: ['RSK'] },
    { siwe: { network: 'ethereum' }, networks: [''] },
    { siwe: { network: '' }, networks: ['Ethereum'] },
    { siwe: { network: '0x1f' }, contractWallets: { 30: chainClient } },
    { siwe: { path: undefined, nonceSeconds: undefined } }
  ])('is accepted in %j', (config) => expect(listProblemsWith({ siwe: true, ...config })).toEqual([]))
})

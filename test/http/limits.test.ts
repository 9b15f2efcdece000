import { describe, expect, it, jest } from '@jest/globals'
import type { Express, Request } from 'express'
import { type DidAuthConfig, type Logger, memoryStore, type QuotaCharge, type Store } from 'express-did-auth'
import { readCookieTokens } from '../support/servers/app-client.js'
import { testApp } from '../support/servers/test-app.js'
import { ExpressRequest } from '../../src/express/express-routes.js'
import { createCallerFinder, computeClientNetwork } from '../../src/http/client-network.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
/** A budget of 100 refused proofs, of 50 logins and of 10 requests that name a DID. */
const config: Partial<DidAuthConfig> = { maxRequestsPerTimeSlot: 1 }
const HERE = '192.0.2.1'
const CROSS_SITE = { 'Sec-Fetch-Site': 'cross-site' }
const badSig = wallet.personalSign('anything')
const badProof = (number: number) => ({ did: `did:ethr:rsk:0x${String(number).padStart(40, '0')}`, sig: badSig })

/** Creates an application that trusts the proxy before it, with clients at other addresses. */
async function proxiedApp(more: Partial<DidAuthConfig> = config) {
  const test = await testApp(more, { before: (app: Express) => app.set('trust proxy', true) })
  const send = (body: object, address = HERE, path = '/auth') => test.post(path, body, { 'X-Forwarded-For': address })
  const name = (address: string, did = wallet.did) => send({ did }, address, '/request-auth')
  return { ...test, send, name }
}

/** Creates a memory store that records charges and lookups of challenge uses. */
function watchedStore(): { store: Store; charges: QuotaCharge[]; counted: { uses: number } } {
  const store = memoryStore()
  const charges: QuotaCharge[] = []
  const counted = { uses: 0 }
  const [charge, count] = [store.chargeQuota.bind(store), store.countChallengeUses.bind(store)]
  store.chargeQuota = (one) => {
    charges.push(one)
    return charge(one)
  }
  store.countChallengeUses = (key) => {
    counted.uses += 1
    return count(key)
  }
  return { store, charges, counted }
}

describe('the quota of a user', () => {
  it('is 20 requests in 600 s: the 21st gets 429 with Retry-After until the slot ends', async () => {
    const { logIn, me, clock } = await testApp()
    const { accessToken } = await logIn()
    for (let number = 1; number <= 20; number += 1) await me(accessToken).expect(200)
    clock.seconds = START_SECONDS + 599
    expect((await me(accessToken).expect(429, 'Too many requests')).headers['retry-after']).toBe('1')
    clock.seconds = START_SECONDS + 600
    await me((await logIn()).accessToken).expect(200)
  })

  it('counts all sessions and spellings of the DID, no other user, and no refused request', async () => {
    const { logIn, me } = await testApp({ maxRequestsPerTimeSlot: 2 })
    for (let number = 0; number < 5; number += 1) await me('garbage').expect(401)
    await me((await logIn()).accessToken).expect(200)
    await me((await logIn(wallet, `did:ethr:rsk:${wallet.address}`)).accessToken).expect(200)
    await me((await logIn()).accessToken).expect(429)
    await me((await logIn(createNumberedWallet(2))).accessToken).expect(200)
  })

  it('is charged once for a request through two guards, and by each of two instances', async () => {
    const second = await testApp(config)
    const { get, logIn } = await testApp(
      { maxRequestsPerTimeSlot: 2 },
      {
        after: (host, requireDid) => {
          host.use('/api', requireDid)
          host.get('/api/thing', requireDid, requireDid, (req, res) => void res.json(req.user))
          host.get('/both', requireDid, second.requireDid, (req, res) => void res.json(req.user))
        }
      }
    )
    const statuses = async (path: string, user: number, count: number): Promise<number[]> => {
      const { accessToken } = await logIn(createNumberedWallet(user))
      const found: number[] = []
      while (found.length < count) found.push((await get(path, accessToken)).status)
      return found
    }
    expect(await statuses('/api/thing', 1, 3)).toEqual([200, 200, 429])
    expect(await statuses('/both', 2, 2)).toEqual([200, 429])
  })
})

describe('the budget of requests that name a DID', () => {
  it('is ten times the quota per DID and client network, by the address of a trusted proxy', async () => {
    const { name, get, clock } = await proxiedApp()
    for (let port = 0; port < 10; port += 1) await name(`${HERE}:${String(40_000 + port)}`).expect(200)
    clock.seconds += 1
    expect((await name(HERE).expect(429, 'Too many requests')).headers['retry-after']).toBe('599')
    await get(`/request-signup/${wallet.did}`, { 'X-Forwarded-For': HERE }).expect(429)
    await name('192.0.2.2').expect(200)
    await name(HERE, createNumberedWallet(2).did).expect(200)
  })

  // Cause: a stranger at the same address used up the budget by naming the DID, and its owner could not log in.
  it.each(['/auth', '/signup'])('does not refuse a valid proof at %s if it is used up', async (path) => {
    const { get, post, createSignedLogin } = await testApp(config)
    const login = await createSignedLogin()
    for (let number = 1; number < 11; number += 1) {
      await get(`/request-auth/${wallet.did}`).expect(number < 10 ? 200 : 429)
    }
    await post(path, login).expect(200)
  })
})

describe('the budget of refused proofs of a client network', () => {
  // Cause: each proof costs up to 24 recoveries, and each free DID had a separate budget.
  it('is 100 times the quota: once used up, all proofs get 429 until the slot ends', async () => {
    const { store, charges, counted } = watchedStore()
    const { send, createSignedLogin, clock } = await proxiedApp({ ...config, store })
    // A malformed proof does not count.
    for (let number = 0; number < 10; number += 1) await send({ did: 'jane' }).expect(401, 'Invalid DID')
    for (let number = 0; number < 100; number += 1) {
      await send(badProof(number), HERE, number % 2 === 0 ? '/auth' : '/signup').expect(401)
    }
    const login = await createSignedLogin()
    const before = [charges.length, counted.uses]
    clock.seconds = START_SECONDS + 200
    expect((await send(login).expect(429, 'Too many requests')).headers['retry-after']).toBe('400')
    await send({}, HERE, '/signup').expect(429)
    expect([charges.length, counted.uses]).toEqual(before)
    await send(login, '192.0.2.2').expect(200)
    clock.seconds = START_SECONDS + 600
    await send(await createSignedLogin()).expect(200)
  })
})

describe('the budget of logins of a client network', () => {
  // Cause: free DIDs opened unlimited sessions, and evicted those of others from a full store.
  it('is 50 times the quota: the 51st login gets 429 without using its challenge; refreshes work', async () => {
    const { send, createSignedLogin, requireDid } = await proxiedApp()
    let refreshToken = ''
    for (let number = 0; number < 50; number += 1) {
      ;({ refreshToken } = (await send(await createSignedLogin(createNumberedWallet(100 + number))).expect(200)).body)
    }
    const login = await createSignedLogin()
    expect((await send(login).expect(429, 'Too many requests')).headers['retry-after']).toBe('600')
    await send({ refreshToken }, HERE, '/refresh-token').expect(200)
    await send(login, '192.0.2.2').expect(200)
    expect(await requireDid.sessions.list(wallet.did)).toHaveLength(1)
  })
})

describe('requests that a page of another site makes a browser send', () => {
  // Cause: a page with 200 images of /request-auth/<did> locked its visitor out for ten minutes.
  it('lock their visitor out of nothing: images and invalid proofs are counted separately', async () => {
    const { get, post, createSignedLogin } = await testApp(config)
    for (let number = 0; number < 11; number += 1) {
      await get(`/request-auth/${wallet.did}`, CROSS_SITE).expect(number < 10 ? 200 : 429)
    }
    for (let number = 0; number < 100; number += 1) await post('/auth', badProof(number), CROSS_SITE)
    const login = await createSignedLogin()
    await post('/auth', login, CROSS_SITE).expect(429)
    await post('/auth', login).expect(200)
  })

  it("do not use the visitor's quota with safe methods, and use it with others", async () => {
    const { post, me, logInForCookies } = await testApp(
      { maxRequestsPerTimeSlot: 2, useCookies: true, trustedOrigins: [] },
      { after: (app, requireDid) => app.post('/me', requireDid, (_req, res) => void res.send('noted')) }
    )
    const Cookie = await logInForCookies()
    const Authorization = `DIDAuth ${readCookieTokens(Cookie).accessToken}`
    for (const status of [200, 200, 429]) await me({ Cookie, 'Sec-Fetch-Site': 'same-site' }).expect(status)
    await me({ Cookie, 'Sec-Fetch-Site': 'same-origin' }).expect(200)
    for (const status of [200, 429]) await post('/me', undefined, { Authorization, ...CROSS_SITE }).expect(status)
    await me({ Cookie }).expect(429)
  })
})

describe('computeClientNetwork', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['::ffff:0909:0910', '9.9.9.16'],
    ['::FFFF:C000:201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:c000:0201', '192.0.2.1'],
    ['0:0:0:0:0:FFFF:192.0.2.1', '192.0.2.1'],
    ['::fffe:c000:201', '0:0:0:0::/64'],
    ['1::ffff:c000:201', '1:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '192.0.2.1'],
    ['0064:FF9B:0:0:0:0:C000:0201', '192.0.2.1'],
    ['64:ff9b::', '0.0.0.0'],
    ['64:ff9b:0:0:1::192.0.2.1', '64:ff9b:0:0::/64'],
    ['64:ff9b:1::192.0.2.1', '64:ff9b:1:0::/64'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
    ['::2:3:4:5:6:7:8', '0:2:3:4::/64'],
    ['9.9.9.9:1234', '9.9.9.9'],
    ['[2001:db8:1:2::1]:443', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2::1]', '2001:db8:1:2::/64'],
    ['[::ffff:9.9.9.9]:443', '9.9.9.9'],
    ['999.9.9.9:1234', '999.9.9.9'],
    ['unknown:80', 'unknown:80'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['', '']
  ])('maps %s to %s', (address, network) => expect(computeClientNetwork(address)).toBe(network))

  it('returns at most 45 characters of an invalid address, which a header may contain', () =>
    expect(computeClientNetwork('x'.repeat(5000)).length).toBe(45))
})

describe('createCallerFinder', () => {
  const trusted = new Set(['https://service.example', 'https://app.example'])
  const proxied = { 'x-forwarded-for': '192.0.2.9' }

  /** Returns the caller of a request, and the warnings of this request and one more. */
  function findCaller(headers: Record<string, string>, ip = '192.0.2.1', trustProxy?: unknown, ips = [ip]) {
    const warn = jest.fn<Logger['warn']>()
    const find = createCallerFinder(trusted, { info: () => undefined, warn, error: () => undefined })
    const req = { headers, ip, ips, app: { get: () => trustProxy }, socket: { destroyed: false } } as unknown as Request
    find(new ExpressRequest(req))
    return { ...find(new ExpressRequest(req)), warnings: warn.mock.calls }
  }

  it('returns the /64 of an IPv6 address, and its /48 with 16 times the budget', () =>
    expect(findCaller({}, '2001:db8:1:2::3')).toMatchObject({
      network: '2001:db8:1:2::/64',
      networks: [
        { network: '2001:db8:1:2::/64', factor: 1 },
        { network: '2001:db8:1::/48', factor: 16 }
      ]
    }))

  it.each(['192.0.2.1', '::ffff:192.0.2.1', '64:ff9b::192.0.2.1'])('returns one network for %s, of IPv4', (address) =>
    expect(findCaller({}, address).networks).toEqual([{ network: '192.0.2.1', factor: 1 }])
  )

  it.each([
    [{ 'sec-fetch-site': 'cross-site' }],
    [{ 'sec-fetch-site': 'same-site' }],
    [{ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    [{ 'sec-fetch-site': 'cross-site', origin: 'null' }]
  ])('marks requests that a page of another site makes a browser send: %j', (headers) => {
    const { network, networks } = findCaller(headers)
    expect([network, networks]).toEqual(['192.0.2.1', [{ network: '192.0.2.1 foreign', factor: 1 }]])
  })

  it.each([
    [{ 'sec-fetch-site': 'same-origin' }],
    [{ 'sec-fetch-site': 'none' }],
    [{ 'sec-fetch-site': 'cross-site', origin: 'https://app.example' }],
    [{ 'sec-fetch-site': 'same-site', origin: 'https://service.example' }],
    [{}]
  ])('does not mark as foreign: %j', (headers) =>
    expect(findCaller(headers as Record<string, string>).networks).toEqual([{ network: '192.0.2.1', factor: 1 }])
  )

  it.each([[undefined], [0], [false]])(
    'detects with trust proxy %p that users share an address, and warns once',
    (setting) => {
      const { isShared, warnings } = findCaller(proxied, '192.0.2.1', setting)
      expect([isShared, warnings]).toEqual([
        true,
        [
          [
            { event: 'trust-proxy-off' },
            "X-Forwarded-For seen, but the app's `trust proxy` is off: all callers share one address"
          ]
        ]
      ])
    }
  )

  it('warns once of more entries than are trusted, and of a request without an address', () => {
    const entries = { 'x-forwarded-for': '192.0.2.9, 198.51.100.1' }
    const message =
      "X-Forwarded-For has more entries than the app's `trust proxy` covers: if your proxies sent them, raise it, because all callers share one address"
    expect(findCaller(entries, '198.51.100.1', 1).warnings).toEqual([[{ event: 'trust-proxy-few' }, message]])
    expect(findCaller(entries, '192.0.2.9', 2, ['192.0.2.9', '198.51.100.1']).warnings).toEqual([])
    for (const address of ['', 'unknown']) {
      expect(findCaller({}, address).warnings).toEqual([
        [
          { event: 'client-address-unknown' },
          'a request has no IP address, as on a Unix socket without X-Forwarded-For: such callers share one budget'
        ]
      ])
    }
  })

  it.each([[true], [1], ['loopback'], [() => true]])('believes a proxy with trust proxy %p', (setting) => {
    const { isShared, warnings } = findCaller(proxied, '192.0.2.1', setting)
    expect([isShared, warnings]).toEqual([false, []])
  })
})

import { describe, expect, it } from '@jest/globals'
import type { Express } from 'express'
import { createServer } from 'node:http'
import request from 'supertest'
import { memoryStore, type DidAuthConfig, type QuotaCharge, type Store } from 'express-did-auth'
import { logIn, logInForCookies, signedLogin } from '../support/app-client.js'
import { START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
/** A budget of 100 refused proofs, of 50 logins and of 10 requests that name a DID. */
const config: Partial<DidAuthConfig> = { maxRequestsPerTimeSlot: 1 }
const trusting = { before: (app: Express) => app.set('trust proxy', true) }
const HERE = '192.0.2.1'
const CROSS_SITE = { 'Sec-Fetch-Site': 'cross-site' }

const me = ({ app }: TestApp, accessToken: string) =>
  request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`)
const name = ({ app }: TestApp, address: string, did = wallet.did) =>
  request(app).post('/request-auth').set('X-Forwarded-For', address).send({ did })
const send = ({ app }: TestApp, body: object, address = HERE, path = '/auth') =>
  request(app).post(path).set('X-Forwarded-For', address).send(body)
const badSig = wallet.personalSign('anything')
const badProof = (number: number) => ({ did: `did:ethr:rsk:0x${String(number).padStart(40, '0')}`, sig: badSig })

/** A memory store that writes down what is charged, and how often it is asked for the uses of a challenge. */
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
  it('is 20 requests in 600 s: the 21st is 429 with Retry-After, until the time slot is over', async () => {
    const test = await testApp()
    const { accessToken } = await logIn(test.app, wallet)
    for (let number = 1; number <= 20; number += 1) await me(test, accessToken).expect(200)
    test.clock.seconds = START_SECONDS + 599
    const response = await me(test, accessToken).expect(429, 'Too many requests')
    expect(response.headers['retry-after']).toBe('1')
    test.clock.seconds = START_SECONDS + 600
    await me(test, (await logIn(test.app, wallet)).accessToken).expect(200)
  })

  it('holds for all sessions and spellings of the DID together, and for no other user', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: 2 })
    const first = await logIn(test.app, wallet)
    const second = await logIn(test.app, wallet, `did:ethr:rsk:${wallet.address}`)
    await me(test, first.accessToken).expect(200)
    await me(test, second.accessToken).expect(200)
    await me(test, (await logIn(test.app, wallet)).accessToken).expect(429)
    await me(test, (await logIn(test.app, walletOf(2))).accessToken).expect(200)
  })

  it('is not used up by refused requests', async () => {
    const test = await testApp(config)
    const { accessToken } = await logIn(test.app, wallet)
    for (let number = 0; number < 5; number += 1) await me(test, 'garbage').expect(401)
    await me(test, accessToken).expect(200)
  })

  it('is charged once for a request that passes two guards, and by each of two instances for itself', async () => {
    const second = await testApp(config)
    const test = await testApp(
      { maxRequestsPerTimeSlot: 2 },
      {
        after: (host, requireDid) => {
          host.use('/api', requireDid)
          host.get('/api/thing', requireDid, requireDid, (req, res) => {
            res.json(req.user)
          })
          host.get('/both', requireDid, second.requireDid, (req, res) => {
            res.json(req.user)
          })
        }
      }
    )
    const get = async (path: string, user: number): Promise<number> => {
      const { accessToken } = await logIn(test.app, walletOf(user))
      return (await request(test.app).get(path).set('Authorization', `DIDAuth ${accessToken}`)).status
    }
    expect([await get('/api/thing', 1), await get('/api/thing', 1), await get('/api/thing', 1)]).toEqual([
      200, 200, 429
    ])
    expect([await get('/both', 2), await get('/both', 2)]).toEqual([200, 429])
  })

  it('can be switched off with Infinity', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: Infinity })
    const { accessToken } = await logIn(test.app, wallet)
    for (let number = 0; number < 50; number += 1) await me(test, accessToken).expect(200)
  })
})

describe('the budget of those who name a DID', () => {
  it('is ten times the quota: the 11th challenge is 429 with Retry-After, until the slot is over', async () => {
    const test = await testApp(config)
    const ask = (path: string) => request(test.app).get(`${path}/${wallet.did}`)
    for (let number = 0; number < 5; number += 1) {
      await ask('/request-auth').expect(200)
      await ask('/request-signup').expect(200)
    }
    test.clock.seconds = START_SECONDS + 1
    const response = await ask('/request-auth').expect(429, 'Too many requests')
    expect(response.headers['retry-after']).toBe('599')
    test.clock.seconds = START_SECONDS + 600
    await ask('/request-auth').expect(200)
  })

  it('is one for a DID and a client network, by the address that a trusted proxy tells', async () => {
    const test = await testApp(config, trusting)
    for (let port = 0; port < 10; port += 1) await name(test, `${HERE}:${String(40_000 + port)}`).expect(200)
    await name(test, HERE).expect(429)
    await name(test, '192.0.2.2').expect(200)
    await name(test, HERE, walletOf(2).did).expect(200)
  })

  // Cause: who has a /48 has 65,536 networks of /64, each with a budget of its own.
  it('is 16 times as large for a /48 of IPv6, and one of its /64 spends its own share alone', async () => {
    const test = await testApp(config, trusting)
    const from = (network: number) => name(test, `2001:db8:0:${network.toString(16)}::1`)
    for (let number = 0; number < 12; number += 1) await from(0).expect(number < 10 ? 200 : 429)
    for (let network = 1; network < 16; network += 1) {
      for (let number = 0; number < 10; number += 1) await from(network).expect(200)
    }
    await from(16).expect(429)
    await name(test, '2001:db8:1::1').expect(200)
  })

  // Cause: a stranger at the same address used the budget up by naming the DID, and its owner could not log in.
  it.each(['/auth', '/signup'])('refuses no good proof at %s when it is used up', async (path) => {
    const test = await testApp(config)
    const login = await signedLogin(test.app, wallet)
    for (let number = 1; number < 10; number += 1) {
      await request(test.app).get(`/request-auth/${wallet.did}`).expect(200)
    }
    await request(test.app).get(`/request-auth/${wallet.did}`).expect(429)
    const { body } = await request(test.app).post(path).send(login).expect(200)
    await me(test, (body as { accessToken: string }).accessToken).expect(200)
  })

  it('does not let a header choose the address while trust proxy is off', async () => {
    const test = await testApp(config)
    for (let number = 0; number < 10; number += 1) await name(test, `192.0.2.${String(number)}`).expect(200)
    await name(test, '192.0.2.99').expect(429)
    expect(test.log.filter(({ fields }) => fields.event === 'trust-proxy-off')).toHaveLength(1)
  })

  it('stands what a trusted proxy passes on unchecked', async () => {
    const test = await testApp(config, trusting)
    for (const address of [
      '',
      'unknown',
      '::',
      '[]:80',
      '[::1%eth0]:80',
      '[garbage]:80',
      '999.2.3.4:80',
      'a'.repeat(5000)
    ]) {
      await name(test, address).expect(200)
    }
  })
})

describe('the budget of refused proofs of a client network', () => {
  // Cause: each of them costs up to 24 recoveries, and free DIDs had a budget each.
  it('is 100 times the quota: once it is spent, proofs are 429 unseen, good ones included, until the slot is over', async () => {
    const { store, charges, counted } = watchedStore()
    const test = await testApp({ ...config, store }, trusting)
    for (let number = 0; number < 100; number += 1) {
      await send(test, badProof(number), HERE, number % 2 === 0 ? '/auth' : '/signup').expect(401)
    }
    const login = await signedLogin(test.app, wallet)
    const before = [charges.length, counted.uses]
    test.clock.seconds = START_SECONDS + 200
    const refused = await send(test, login).expect(429, 'Too many requests')
    expect(refused.headers['retry-after']).toBe('400')
    await send(test, {}, HERE, '/signup').expect(429)
    expect([charges.length, counted.uses]).toEqual(before)
    await send(test, login, '192.0.2.2').expect(200)
    test.clock.seconds = START_SECONDS + 600
    await send(test, await signedLogin(test.app, wallet)).expect(200)
  })

  it('does not count what is no proof at all', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 110; number += 1) await send(test, { did: 'jane' }).expect(401, 'Invalid DID')
    await send(test, await signedLogin(test.app, wallet)).expect(200)
  })
})

describe('the budget of logins of a client network', () => {
  // Cause: free DIDs opened sessions without end, and pushed those of others out of a store that was full.
  it('is 50 times the quota: the 51st login is 429, and its challenge is not consumed', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 50; number += 1) {
      await send(test, await signedLogin(test.app, walletOf(100 + number))).expect(200)
    }
    const login = await signedLogin(test.app, wallet)
    const refused = await send(test, login).expect(429, 'Too many requests')
    expect(refused.headers['retry-after']).toBe('600')
    await send(test, login, '192.0.2.2').expect(200)
    expect(await test.requireDid.sessions.list(wallet.did)).toHaveLength(1)
  })

  it('does not touch a refresh', async () => {
    const test = await testApp(config, trusting)
    let { refreshToken } = await logIn(test.app, wallet)
    for (let number = 0; number < 60; number += 1) {
      const { body } = await send(test, { refreshToken }, HERE, '/refresh-token').expect(200)
      refreshToken = (body as { refreshToken: string }).refreshToken
    }
  })

  it('is not applied behind a proxy that the application does not trust, where all users share an address', async () => {
    const test = await testApp(config)
    for (let number = 0; number < 55; number += 1) {
      await send(test, await signedLogin(test.app, walletOf(100 + number)), `203.0.113.${String(number)}`).expect(200)
    }
  })
})

describe('requests that a page of another site makes a browser send', () => {
  // Cause: a page with 200 images of /request-auth/<did> locked its visitor out for ten minutes.
  it('lock their visitor out of nothing: images and bad proofs are counted apart', async () => {
    const test = await testApp(config)
    const ask = (headers: Record<string, string>) => request(test.app).get(`/request-auth/${wallet.did}`).set(headers)
    for (let number = 0; number < 10; number += 1) await ask(CROSS_SITE).expect(200)
    await ask(CROSS_SITE).expect(429)
    for (let number = 0; number < 100; number += 1) {
      await request(test.app).post('/auth').set(CROSS_SITE).send(badProof(number))
    }
    const login = await signedLogin(test.app, wallet)
    await request(test.app).post('/auth').set(CROSS_SITE).send(login).expect(429)
    await request(test.app).post('/auth').send(login).expect(200)
  })

  it("use up nothing of the visitor's own quota with safe methods, and count as the user's own with others", async () => {
    const test = await testApp(
      { maxRequestsPerTimeSlot: 2, useCookies: true, trustedOrigins: [] },
      { after: (app, requireDid) => app.post('/me', requireDid, (_req, res) => res.send('noted')) }
    )
    const cookies = await logInForCookies(test.app, wallet)
    const { accessToken } = (await signedIn(test)) as { accessToken: string }
    const read = (headers: Record<string, string>) => request(test.app).get('/me').set('Cookie', cookies).set(headers)
    const write = () => request(test.app).post('/me').set('Authorization', `DIDAuth ${accessToken}`).set(CROSS_SITE)
    for (const status of [200, 200, 429]) await read({ 'Sec-Fetch-Site': 'same-site' }).expect(status)
    await request(test.app).head('/me').set('Cookie', cookies).set(CROSS_SITE).expect(429)
    await read({ 'Sec-Fetch-Site': 'same-origin' }).expect(200)
    await write().expect(200)
    await write().expect(429)
    await read({}).expect(429)
  })
})

describe('the names of quotas', () => {
  // Cause: client addresses lay in the store, in clear, next to DIDs.
  it('reach a store as HMACs: neither a DID nor an address is in any charge', async () => {
    const { store, charges } = watchedStore()
    const test = await testApp({ store }, trusting)
    const { accessToken } = await logIn(test.app, wallet)
    await me(test, accessToken).expect(200)
    await send(test, { ...badProof(1), did: wallet.did }).expect(401)
    expect(new Set(charges.map(({ kind }) => kind))).toEqual(new Set(['request', 'anonymous']))
    expect(charges.length).toBeGreaterThanOrEqual(5)
    for (const { service, ...charge } of charges) {
      expect([service, charge.key]).toEqual(['https://service.example', expect.stringMatching(/^[A-Za-z0-9_-]{22}$/)])
      expect(JSON.stringify(charge)).not.toMatch(/did:|192\.0\.2|127\.0\.0|0x/i)
    }
  })
})

describe('300 bad proofs from one client network that name the DIDs of 20 users', () => {
  // Figure F19, small: no one is locked out. Cause: what was counted was the DID, which anybody can name.
  it('beside the logins of these users, at once, refuse none of them', async () => {
    const { app } = await testApp({}, trusting)
    const users = Array.from({ length: 20 }, (_, number) => walletOf(100 + number))
    const logins = await Promise.all(users.map((user) => signedLogin(app, user)))
    const server = createServer(app)
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    const post = async (body: object, address: string): Promise<number> =>
      (await request(server).post('/auth').set('X-Forwarded-For', address).send(body)).status
    const refused = Array.from({ length: 300 }, (_, number) =>
      post({ did: users[number % 20]!.did, sig: badSig }, HERE)
    )
    const answers = await Promise.all(logins.map((login, number) => post(login, `198.51.100.${String(number)}`)))
    expect(answers).toEqual(Array(20).fill(200))
    expect(await Promise.all(refused)).toEqual(Array(300).fill(401))
    server.closeAllConnections()
    server.close()
  })
})

/** The tokens of a client that keeps them itself, where pages have cookies. */
async function signedIn({ app }: TestApp): Promise<unknown> {
  const response = await request(app)
    .post('/auth')
    .send(await signedLogin(app, wallet))
    .expect(200)
  const cookies = response.headers['set-cookie'] as unknown as string[]
  return { accessToken: /authorization=([^;]+)/.exec(cookies.join(';'))![1] }
}

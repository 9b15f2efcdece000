import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { logIn, signedLogin } from '../support/app-client.js'
import { START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const me = ({ app }: TestApp, accessToken: string) =>
  request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`)

describe('the quota of a user', () => {
  it('is 20 requests in 600 s: the 21st is 429 with Retry-After, until the time slot is over', async () => {
    const test = await testApp()
    const { accessToken } = await logIn(test.app, wallet)
    for (let number = 1; number <= 20; number += 1) await me(test, accessToken).expect(200)
    test.clock.seconds = START_SECONDS + 599
    const response = await me(test, accessToken).expect(429, 'Too many requests')
    expect(response.headers['retry-after']).toBe('1')
    test.clock.seconds = START_SECONDS + 600
    const later = await logIn(test.app, wallet)
    await me(test, later.accessToken).expect(200)
  })

  it('says in Retry-After when its slot ends, which began with the first request', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: 1, timeSlotInSeconds: 60 })
    const { accessToken } = await logIn(test.app, wallet)
    test.clock.seconds = START_SECONDS + 30
    await me(test, accessToken).expect(200)
    test.clock.seconds = START_SECONDS + 50
    expect((await me(test, accessToken).expect(429)).headers['retry-after']).toBe('40')
    test.clock.seconds = START_SECONDS + 89
    expect((await me(test, accessToken).expect(429)).headers['retry-after']).toBe('1')
    test.clock.seconds = START_SECONDS + 90
    await me(test, accessToken).expect(200)
  })

  it('survives a new login, and holds for all sessions and spellings of the DID together', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: 2 })
    const first = await logIn(test.app, wallet)
    const second = await logIn(test.app, wallet, `did:ethr:rsk:${wallet.address}`)
    await me(test, first.accessToken).expect(200)
    await me(test, second.accessToken).expect(200)
    await me(test, first.accessToken).expect(429)
    await me(test, (await logIn(test.app, wallet)).accessToken).expect(429)
  })

  it("is no one else's", async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: 1 })
    const first = await logIn(test.app, wallet)
    const second = await logIn(test.app, walletOf(2))
    await me(test, first.accessToken).expect(200)
    await me(test, first.accessToken).expect(429)
    await me(test, second.accessToken).expect(200)
  })

  it('is not used up by refused requests', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn(test.app, wallet)
    for (let number = 0; number < 5; number += 1) await me(test, 'garbage').expect(401)
    await me(test, accessToken).expect(200)
  })

  it('is charged once for a request that passes two guards', async () => {
    const test = await testApp(
      { maxRequestsPerTimeSlot: 2 },
      {
        after: (host, requireDid) => {
          host.use('/api', requireDid)
          host.get('/api/thing', requireDid, requireDid, (req, res) => {
            res.json(req.user)
          })
        }
      }
    )
    const { accessToken } = await logIn(test.app, wallet)
    const thing = () => request(test.app).get('/api/thing').set('Authorization', `DIDAuth ${accessToken}`)
    await thing().expect(200)
    await thing().expect(200)
    await thing().expect(429)
  })

  it('is charged by each of two instances for itself', async () => {
    const second = await testApp({ maxRequestsPerTimeSlot: 1 })
    const test = await testApp(
      {},
      {
        after: (host, requireDid) =>
          host.get('/both', requireDid, second.requireDid, (req, res) => {
            res.json(req.user)
          })
      }
    )
    const { accessToken } = await logIn(test.app, wallet)
    const both = () => request(test.app).get('/both').set('Authorization', `DIDAuth ${accessToken}`)
    await both().expect(200)
    await both().expect(429)
  })

  it('can be switched off with Infinity', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: Infinity })
    const { accessToken } = await logIn(test.app, wallet)
    for (let number = 0; number < 50; number += 1) await me(test, accessToken).expect(200)
  })
})

describe('the budget of those who name a DID', () => {
  const config = { maxRequestsPerTimeSlot: 1 }
  const trusting = { before: (app: TestApp['app']) => app.set('trust proxy', true) }
  const name = ({ app }: TestApp, address: string, did = wallet.did) =>
    request(app).post('/request-auth').set('X-Forwarded-For', address).send({ did })

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

  it('locks no one out at another address, nor another DID at the same', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 10; number += 1) await name(test, '192.0.2.1').expect(200)
    await name(test, '192.0.2.1').expect(429)
    await name(test, '192.0.2.2').expect(200)
    await name(test, '192.0.2.1', walletOf(2).did).expect(200)
  })

  it('is one for all spellings of a DID', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 10; number += 1) await name(test, '192.0.2.1').expect(200)
    await name(test, '192.0.2.1', `did:ethr:rsk:${wallet.address}`).expect(429)
  })

  it('is one for a /64 of IPv6', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 10; number += 1) await name(test, `2001:db8:0:1::${String(number)}`).expect(200)
    await name(test, '2001:0db8:0000:0001:ffff:ffff:ffff:ffff').expect(429)
    await name(test, '2001:db8:0:2::1').expect(200)
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

  it('is one for an IPv4 address and its translations by a gateway', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 10; number += 1) await name(test, '64:ff9b::192.0.2.1').expect(200)
    await name(test, '192.0.2.1').expect(429)
    await name(test, '64:ff9b::192.0.2.2').expect(200)
  })

  it('counts failed logins and sign ups', async () => {
    const test = await testApp(config)
    const sig = walletOf(2).personalSign('something else')
    for (let number = 0; number < 5; number += 1) {
      await request(test.app).post('/auth').send({ did: wallet.did, sig }).expect(401)
      await request(test.app).post('/signup').send({ did: wallet.did, sig: '0x' }).expect(401)
    }
    await request(test.app).post('/auth').send({ did: wallet.did, sig }).expect(429)
    await request(test.app).get(`/request-auth/${wallet.did}`).expect(429)
  })

  it('is not touched by logins that succeed: each costs its challenge only', async () => {
    const test = await testApp(config)
    for (let number = 0; number < 10; number += 1) await logIn(test.app, wallet)
    await request(test.app).get(`/request-auth/${wallet.did}`).expect(429)
  })

  // Cause: a stranger at the same address used the budget up by naming the DID, and its owner could not log in.
  it.each(['/auth', '/signup'])('refuses no good proof at %s when it is used up', async (path) => {
    const test = await testApp(config)
    const login = await signedLogin(test.app, wallet)
    for (let number = 1; number < 10; number += 1) {
      await request(test.app).get(`/request-auth/${wallet.did}`).expect(200)
    }
    await request(test.app).get(`/request-auth/${wallet.did}`).expect(429)
    await request(test.app).post(path).send(login).expect(200)
  })

  it('does not touch the quota of a user, nor does the quota touch it', async () => {
    const test = await testApp(config)
    const { accessToken } = await logIn(test.app, wallet)
    for (let number = 0; number < 9; number += 1) {
      await request(test.app).get(`/request-auth/${wallet.did}`).expect(200)
    }
    await request(test.app).get(`/request-auth/${wallet.did}`).expect(429)
    await me(test, accessToken).expect(200)
  })

  it('does not let a header choose the address while trust proxy is off, and warns once', async () => {
    const test = await testApp(config)
    for (let number = 0; number < 10; number += 1) await name(test, `192.0.2.${String(number)}`).expect(200)
    await name(test, '192.0.2.99').expect(429)
    expect(test.log.filter(({ fields }) => fields.event !== 'first-refusal')).toEqual([
      {
        level: 'warn',
        fields: { event: 'trust-proxy-off' },
        message: "X-Forwarded-For seen, but the app's `trust proxy` is off: all callers share one address"
      }
    ])
  })

  it.each([[0], [false]])('warns with trust proxy %p as well', async (setting) => {
    const test = await testApp(config, { before: (app) => app.set('trust proxy', setting) })
    await name(test, '192.0.2.1').expect(200)
    expect(test.log).toMatchObject([{ level: 'warn', fields: { event: 'trust-proxy-off' } }])
  })

  it.each([[true], [1], ['loopback'], [() => true]])('does not warn with trust proxy %p', async (setting) => {
    const test = await testApp(config, { before: (app) => app.set('trust proxy', setting) })
    await name(test, '192.0.2.1').expect(200)
    expect(test.log).toEqual([])
  })

  it('is one for all ports that a proxy writes behind an address', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 10; number += 1) await name(test, `192.0.2.1:${String(40_000 + number)}`).expect(200)
    await name(test, '192.0.2.1:50000').expect(429)
    await name(test, '192.0.2.1').expect(429)
    await name(test, '192.0.2.2:40000').expect(200)
  })

  it('stands what a trusted proxy passes on unchecked', async () => {
    const test = await testApp(config, trusting)
    for (const address of [
      '',
      'unknown',
      '::',
      '1.2.3.4:567',
      '[2001:db8::1]:80',
      '[]:80',
      '[::1%eth0]:80',
      '[garbage]:80',
      '999.2.3.4:80',
      'a'.repeat(5000),
      '::ffff:1.2.3.4'
    ]) {
      await name(test, address).expect(200)
    }
  })
})

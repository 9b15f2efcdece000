import { describe, expect, it } from '@jest/globals'
import type { Express } from 'express'
import request from 'supertest'
import { memoryStore, type DidAuthConfig, type QuotaCharge, type Store } from 'express-did-auth'
import { logIn, signedLogin, signUpChallenge } from '../support/app-client.js'
import { START_SECONDS, testApp, type TestApp } from '../support/test-app.js'
import { breakableStore } from '../support/breakable-store.js'
import { loginText, walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
/** A budget of 100 refused proofs, of 50 logins and of 10 requests that name a DID. */
const config: Partial<DidAuthConfig> = { maxRequestsPerTimeSlot: 1 }
const trusting = { before: (app: Express) => app.set('trust proxy', true) }
const HERE = '192.0.2.1'

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

async function spendProofs(test: TestApp, count = 100): Promise<void> {
  for (let number = 0; number < count; number += 1) {
    await send(test, badProof(number)).expect(401, 'Invalid challenge response')
  }
}

describe('the budget of refused proofs of a client network', () => {
  // Cause: each of them costs up to 24 recoveries, and free DIDs had a budget each.
  it('is 100 times the quota: once it is spent, proofs are 429 unseen, good ones included, until the slot is over', async () => {
    const test = await testApp(config, trusting)
    const login = await signedLogin(test.app, wallet)
    await spendProofs(test)
    test.clock.seconds = START_SECONDS + 200
    const refused = await send(test, login).expect(429, 'Too many requests')
    expect(refused.headers['retry-after']).toBe('400')
    await send(test, {}).expect(429)
    test.clock.seconds = START_SECONDS + 600
    await send(test, await signedLogin(test.app, wallet)).expect(200)
  })

  it('is one for logins and sign ups', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 50; number += 1) {
      await send(test, badProof(number), HERE, '/auth').expect(401)
      await send(test, badProof(number), HERE, '/signup').expect(401)
    }
    await send(test, badProof(50), HERE, '/signup').expect(429)
  })

  it('is spent for its network alone', async () => {
    const test = await testApp(config, trusting)
    await spendProofs(test)
    await send(test, await signedLogin(test.app, wallet), '192.0.2.2').expect(200)
    await send(test, await signedLogin(test.app, wallet), HERE).expect(429)
  })

  it('once spent costs the store nothing, nor the curve, whatever comes', async () => {
    const { store, charges, counted } = watchedStore()
    const test = await testApp({ ...config, store }, trusting)
    await spendProofs(test)
    expect([charges.length, counted.uses]).toEqual([200, 100])
    for (let number = 0; number < 20; number += 1) await send(test, badProof(number)).expect(429)
    expect([charges.length, counted.uses]).toEqual([200, 100])
  })

  it('counts challenges that are used or expired, which count against no budget of a DID', async () => {
    const { store, charges } = watchedStore()
    const test = await testApp({ ...config, store }, trusting)
    const login = await signedLogin(test.app, wallet)
    await send(test, login).expect(200)
    charges.length = 0
    await send(test, login).expect(401, 'Invalid challenge response: used')
    test.clock.seconds = START_SECONDS + 300
    await send(test, await expiredLogin(test)).expect(401, 'Invalid challenge response: expired')
    expect(charges.map(({ kind, limit }) => [kind, limit])).toEqual([
      ['anonymous', 100],
      // The challenge that is asked for in between.
      ['anonymous', 10],
      ['anonymous', 100]
    ])
  })

  // Cause: its signature is good and its challenge not consumed, so that one body could come again for ever.
  it('counts a sign up that lacks what is required', async () => {
    const test = await testApp(
      { ...config, requiredClaims: [{ claimType: 'name', claimValue: '', essential: true }] },
      trusting
    )
    const sig = wallet.personalSign(loginText('service.example', await signUpChallenge(test.app, wallet.did)))
    for (let number = 0; number < 100; number += 1) {
      await send(test, { did: wallet.did, sig }, HERE, '/signup').expect(401, 'Missing credentials or claims')
    }
    await send(test, { did: wallet.did, sig }, HERE, '/signup').expect(429)
  })

  it('does not count what is no proof at all', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 110; number += 1) await send(test, { did: 'jane' }).expect(401, 'Invalid DID')
    await send(test, await signedLogin(test.app, wallet)).expect(200)
  })

  it('refuses with 503 and not with 401 when the store cannot count a bad proof', async () => {
    const { store, state } = breakableStore('chargeQuota')
    const test = await testApp({ ...config, store })
    state.isBroken = true
    await send(test, badProof(1)).expect(503, 'Store unavailable, try again')
  })
})

describe('the budget of logins of a client network', () => {
  // Cause: free DIDs opened sessions without end, and pushed those of others out of a store that was full.
  it('is 50 times the quota: the 51st login is 429, and its challenge is not consumed', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 25; number += 1) {
      await send(test, await signedLogin(test.app, walletOf(100 + number))).expect(200)
      await send(test, await signedLogin(test.app, walletOf(100 + number)), HERE, '/signup').expect(200)
    }
    const login = await signedLogin(test.app, wallet)
    const refused = await send(test, login).expect(429, 'Too many requests')
    expect(refused.headers['retry-after']).toBe('600')
    await send(test, login, '192.0.2.2').expect(200)
    expect(await test.requireDid.sessions.list(wallet.did)).toHaveLength(1)
  })

  it('does not count logins that fail', async () => {
    const test = await testApp(config, trusting)
    for (let number = 0; number < 60; number += 1) await send(test, badProof(number)).expect(401)
    await send(test, await signedLogin(test.app, wallet)).expect(200)
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

describe('the names of quotas', () => {
  const SECRET = 'a secret of two instances, longer than 32 bytes'

  /** Charges every kind of quota once, and answers what the store saw. */
  async function chargesOf(challengeSecret: string): Promise<QuotaCharge[]> {
    const { store, charges } = watchedStore()
    const test = await testApp({ store, challengeSecret }, trusting)
    const { accessToken } = await logIn(test.app, wallet)
    await request(test.app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    await send(test, { ...badProof(1), did: wallet.did }).expect(401)
    await send(test, await signedLogin(test.app, wallet)).expect(200)
    return charges
  }

  // Cause: client addresses lay in the store, in clear, next to DIDs.
  it('reach a store as HMACs: neither a DID nor an address is in any charge', async () => {
    const charges = await chargesOf(SECRET)
    expect(new Set(charges.map(({ kind }) => kind))).toEqual(new Set(['request', 'anonymous']))
    expect(charges.length).toBeGreaterThanOrEqual(6)
    for (const charge of charges) {
      expect(charge.key).toMatch(/^[A-Za-z0-9_-]{22}$/)
      const { service, ...rest } = charge
      expect(service).toBe('https://service.example')
      expect(JSON.stringify(rest)).not.toMatch(/did:|192\.0\.2|127\.0\.0|0x/i)
    }
  })

  it('are the same for two instances with one secret, and others for another secret', async () => {
    const keysOf = async (secret: string) => (await chargesOf(secret)).map(({ key }) => key)
    const keys = await keysOf(SECRET)
    expect(await keysOf(SECRET)).toEqual(keys)
    const others = await keysOf('another secret, which is longer than 32 bytes')
    expect(others).toHaveLength(keys.length)
    expect(others.filter((key) => keys.includes(key))).toEqual([])
  })
})

/** A login that was good in the window before. */
async function expiredLogin(test: TestApp): Promise<{ did: string; sig: string }> {
  const { seconds } = test.clock
  test.clock.seconds = START_SECONDS
  const login = await signedLogin(test.app, walletOf(2))
  test.clock.seconds = seconds
  return login
}

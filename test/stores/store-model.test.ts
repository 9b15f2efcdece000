import { describe, it } from '@jest/globals'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import assert from 'node:assert/strict'
import { MemoryStore, type Session, type Store } from 'express-did-auth'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { StoreModel } from '../support/store-model.js'

const services = ['https://a.example', 'https://b.example']
const dids = ['did:ethr:0xaB', 'did:ethr:0xab', 'did:ethr:rsk:0xcd']

/** One step of a random sequence. Tokens and sessions are named by small numbers, so that steps meet. */
type Step =
  | { verb: 'wait'; seconds: number }
  | { verb: 'create'; service: string; did: string; times: number; seconds: number }
  | { verb: 'rotate'; service: string; token: number; times: number }
  | { verb: 'end'; service: string; session: number; state: 'loggedOut' | 'revoked' }
  | { verb: 'revoke'; service: string; did: string }
  | { verb: 'use'; service: string; did: string; flow: 'logIn' | 'signUp'; useCount: number; spendsBoth: boolean }
  | { verb: 'charge'; service: string; did: string; kind: 'request' | 'naming'; cost: 0 | 1 }

const service = fc.constantFrom(...services)
const did = fc.constantFrom(...dids)
const times = fc.oneof(
  { weight: 8, arbitrary: fc.constant(1) },
  { weight: 1, arbitrary: fc.integer({ min: 2, max: 30 }) }
)
const token = fc.nat({ max: 60 })
const verb = <V extends string>(name: V): fc.Arbitrary<V> => fc.constant(name)

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ verb: verb('wait'), seconds: fc.constantFrom(0, 1, 5, 10, 11, 60, 300) }),
  fc.record({ verb: verb('create'), service, did, times, seconds: fc.constantFrom(1, 60, 600) }),
  fc.record({ verb: verb('rotate'), service, token, times }),
  fc.record({ verb: verb('rotate'), service, token, times }),
  fc.record({ verb: verb('end'), service, session: token, state: fc.constantFrom('loggedOut', 'revoked') }),
  fc.record({ verb: verb('revoke'), service, did }),
  fc.record({
    verb: verb('use'),
    service,
    did,
    flow: fc.constantFrom('logIn', 'signUp'),
    useCount: fc.nat({ max: 2 }),
    spendsBoth: fc.boolean()
  }),
  fc.record({
    verb: verb('charge'),
    service,
    did,
    kind: fc.constantFrom('request', 'naming'),
    cost: fc.constantFrom(0, 1)
  })
)

describe.each([
  ['memory', () => new MemoryStore()],
  ['SQLite', () => sqliteStore(new Database(':memory:'))]
])('the %s store', (_name, makeStore) => {
  it('does what a model without any cleverness does, whatever the sequence', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        await new Comparison(makeStore()).run(steps)
      }),
      { numRuns: 60 }
    )
  })
})

/** Takes each step on the store and on the model, and compares what they answer and what can be seen of them after. */
class Comparison {
  readonly #store: Store
  readonly #model = new StoreModel()
  #nowSeconds = 1_800_000_000
  /** Tokens and sessions are numbered as they come. */
  #tokens = 0
  #sessions = 0

  constructor(store: Store) {
    this.#store = store
  }

  async run(steps: Step[]): Promise<void> {
    for (const one of steps) await this.#take(one)
    for (const name of services) for (const user of dids) await this.#compareLists(name, user.toLowerCase())
  }

  async #take(one: Step): Promise<void> {
    const nowSeconds = this.#nowSeconds
    switch (one.verb) {
      case 'wait':
        this.#nowSeconds += one.seconds
        return
      case 'create':
        for (let index = 0; index < one.times; index += 1) await this.#create(one.service, one.did, one.seconds)
        return
      case 'rotate':
        await this.#rotate(one.service, `token ${one.token}`, one.times)
        return
      case 'end': {
        const args = [one.service, `session ${one.session}`, one.state, nowSeconds] as const
        assert.equal(await this.#store.endSession(...args), this.#model.endSession(...args))
        return
      }
      case 'revoke': {
        const active = this.#model.active(one.service, one.did, nowSeconds)
        for (const session of active) session.state = 'revoked'
        const revoked = await this.#store.revokeSessions(one.service, one.did.toLowerCase(), nowSeconds)
        assert.equal(revoked, active.length)
        return
      }
      case 'use': {
        const window = Math.floor(nowSeconds / 300)
        const use = { ...one, did: one.did.toLowerCase(), window, nowSeconds, expiresAtSeconds: (window + 1) * 300 }
        assert.equal(await this.#store.useChallenge(use), this.#model.useChallenge(use))
        const expected = this.#model.uses.get([use.service, use.did, window].join()) ?? { logIn: 0, signUp: 0 }
        assert.deepEqual({ ...(await this.#store.countChallengeUses(use)) }, expected)
        return
      }
      case 'charge': {
        const charge = { ...one, key: one.did, nowSeconds, timeSlotSeconds: 10 }
        assert.deepEqual({ ...(await this.#store.chargeQuota(charge)) }, this.#model.chargeQuota(charge))
      }
    }
  }

  async #create(serviceUrl: string, userDid: string, seconds: number): Promise<void> {
    const session = {
      service: serviceUrl,
      sessionId: `session ${this.#sessions++}`,
      did: userDid,
      refreshTokenHash: `token ${this.#tokens++}`,
      tokenClaims: this.#sessions % 3 === 0 ? { number: this.#sessions } : undefined,
      nowSeconds: this.#nowSeconds,
      expiresAtSeconds: this.#nowSeconds + seconds
    }
    await this.#store.createSession(session)
    this.#model.createSession(session)
  }

  /** Rotates a token, and where that worked the next one, and so on. */
  async #rotate(serviceUrl: string, presented: string, count: number): Promise<void> {
    let presentedHash = presented
    for (let index = 0; index < count; index += 1) {
      await this.#compareSession(serviceUrl, presentedHash)
      const nextHash = `token ${this.#tokens++}`
      const rotation = {
        service: serviceUrl,
        presentedHash,
        nextHash,
        nowSeconds: this.#nowSeconds,
        nextExpiresAtSeconds: this.#nowSeconds + 600,
        graceSeconds: 10
      }
      const isExpired = this.#isExpired(serviceUrl, presentedHash)
      const expected = this.#model.rotate(rotation)
      const verdict = await this.#store.rotateRefreshToken(rotation)
      // An expired session may be forgotten, or not yet.
      assert.equal(isExpired && verdict === 'unknown' ? 'ended' : verdict, expected)
      await this.#compareSession(serviceUrl, presentedHash)
      if (verdict === 'rotate') presentedHash = nextHash
    }
  }

  async #compareSession(serviceUrl: string, hash: string): Promise<void> {
    const found = await this.#store.findSession(serviceUrl, hash)
    if (found === undefined && this.#isExpired(serviceUrl, hash)) return
    assert.deepEqual(found && { ...found }, seenFrom(this.#model.find(serviceUrl, hash)))
  }

  async #compareLists(serviceUrl: string, user: string): Promise<void> {
    const listed = await this.#store.listSessions(serviceUrl, user, this.#nowSeconds)
    const expected = this.#model.active(serviceUrl, user, this.#nowSeconds).map(seenFrom)
    assert.deepEqual([...listed], expected)
  }

  #isExpired(serviceUrl: string, hash: string): boolean {
    const session = this.#model.find(serviceUrl, hash)
    return session !== undefined && session.expiresAtSeconds <= this.#nowSeconds
  }
}

function seenFrom(session: ReturnType<StoreModel['find']>): Session | undefined {
  return (
    session && {
      sessionId: session.sessionId,
      did: session.did,
      state: session.state,
      tokenClaims: session.tokenClaims,
      createdAtSeconds: session.nowSeconds,
      rotatedAtSeconds: session.rotatedAt,
      expiresAtSeconds: session.expiresAtSeconds
    }
  )
}

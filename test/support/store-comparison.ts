import fc from 'fast-check'
import assert from 'node:assert/strict'
import type {
  ChallengeFlow,
  ChallengeUse,
  NewSession,
  QuotaCharge,
  QuotaState,
  Rotation,
  Store
} from '../../src/ports.js'
import type { StoredSession } from '../../src/protocol/session.js'
import { expectAnswer, fieldsOf, hashOf, storedFieldsOf } from '../../src/testing/store-case.js'

const services = ['https://a.example', 'https://b.example']
const dids = ['did:ethr:0xaB', 'did:ethr:0xab', 'did:ethr:rsk:0xcd']

/**
 * One step of a random sequence. Sessions are named by small numbers, and tokens by their age, so that steps meet.
 * `isElsewhere`: asked by the service that the session is not of.
 */
type Step =
  | { verb: 'wait'; seconds: number }
  | { verb: 'create'; service: string; did: string; times: number; seconds: number }
  | {
      verb: 'rotate'
      session: number
      isElsewhere: boolean
      age: number
      next: 'new' | 'as then' | 'older'
      times: number
    }
  | { verb: 'end'; session: number; isElsewhere: boolean; state: 'loggedOut' | 'revoked' }
  | { verb: 'revoke'; service: string; did: string }
  | { verb: 'use'; service: string; did: string; flow: 'logIn' | 'signUp'; useCount: number; consumesBoth: boolean }
  | { verb: 'charge'; service: string; did: string; kind: 'request' | 'anonymous'; cost: number; limit?: number }

const service = fc.constantFrom(...services)
const did = fc.constantFrom(...dids)
const times = fc.oneof(
  { weight: 8, arbitrary: fc.constant(1) },
  { weight: 1, arbitrary: fc.integer({ min: 2, max: 30 }) }
)
const session = fc.oneof({ weight: 3, arbitrary: fc.nat({ max: 3 }) }, { weight: 1, arbitrary: fc.nat({ max: 60 }) })
const isElsewhere = fc.constantFrom(...Array.from({ length: 20 }, (_, index) => index === 0))
/** An age that no token has. */
const NEVER_ISSUED = Infinity
const verb = <V extends string>(name: V): fc.Arbitrary<V> => fc.constant(name)
const rotate = fc.record({
  verb: verb('rotate'),
  session,
  isElsewhere,
  age: fc.constantFrom(0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 16, NEVER_ISSUED),
  next: fc.constantFrom('new', 'as then', 'as then', 'older'),
  times
})

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: rotate },
  {
    weight: 4,
    arbitrary: fc.record({ verb: verb('wait'), seconds: fc.constantFrom(0, 1, 5, 10, 11, 60, 300) })
  },
  {
    weight: 3,
    arbitrary: fc.record({ verb: verb('create'), service, did, times, seconds: fc.constantFrom(1, 60, 600, 600) })
  },
  {
    weight: 1,
    arbitrary: fc.record({ verb: verb('end'), session, isElsewhere, state: fc.constantFrom('loggedOut', 'revoked') })
  },
  { weight: 1, arbitrary: fc.record({ verb: verb('revoke'), service, did }) },
  {
    weight: 4,
    arbitrary: fc.record({
      verb: verb('use'),
      service,
      did,
      flow: fc.constantFrom('logIn', 'signUp'),
      useCount: fc.nat({ max: 2 }),
      consumesBoth: fc.boolean()
    })
  },
  {
    weight: 4,
    arbitrary: fc.record(
      {
        verb: verb('charge'),
        service,
        did,
        kind: fc.constantFrom('request', 'anonymous'),
        cost: fc.integer({ min: 1, max: 3 }),
        limit: fc.integer({ min: 1, max: 6 })
      },
      { requiredKeys: ['verb', 'service', 'did', 'kind', 'cost'] }
    )
  }
)

/**
 * Takes random sequences of verbs on new stores and on the model.
 *
 * @throws Error with the shortest sequence that the two answer differently
 */
export async function assertLikeModel(makeStore: () => Store, numRuns: number): Promise<void> {
  const steps = fc.array(step, { maxLength: 60, size: 'max' })
  await fc.assert(
    fc.asyncProperty(steps, async (sequence) => {
      const store = makeStore()
      await new Comparison(store).run(sequence)
      await store.close()
    }),
    { numRuns }
  )
}

/** Takes each step on the store and on the model, and compares what they answer and what can be seen of them after. */
class Comparison {
  readonly #store: Store
  readonly #model = new StoreModel()
  #nowSeconds = 1_800_000_000
  /** Sessions are numbered as they are created, tokens as they are issued. */
  #sessions = 0
  #tokens = 0

  constructor(store: Store) {
    this.#store = store
  }

  async run(steps: Step[]): Promise<void> {
    for (const name of services) await this.#create(name, dids[0]!, 600)
    for (const one of steps) await this.#take(one)
    for (const name of services) for (const user of dids) await this.#compareLists(name, user.toLowerCase())
    for (const { service: name, sessionId } of this.#model.sessions) await this.#compareSession(name, sessionId)
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
        for (let index = 0; index < one.times; index += 1) await this.#rotate(one)
        return
      case 'end': {
        const [name, sessionId] = this.#named(one)
        const args = [name, sessionId, one.state, nowSeconds] as const
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
        assert.equal(await this.#store.consumeChallenge(use), this.#model.consumeChallenge(use))
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
    const number = this.#sessions++
    const session: NewSession = {
      service: serviceUrl,
      sessionId: `session ${number}`,
      did: userDid,
      refreshTokenHash: this.#newHash(),
      tokenClaims: number % 3 === 0 ? { number } : undefined,
      nowSeconds: this.#nowSeconds,
      expiresAtSeconds: this.#nowSeconds + seconds
    }
    assert.equal(await this.#store.createSession(session), this.#model.createSession(session))
  }

  async #rotate(one: Step & { verb: 'rotate' }): Promise<void> {
    const [serviceUrl, sessionId] = this.#named(one)
    const tokens = this.#model.find(serviceUrl, sessionId)?.tokens ?? []
    const hashAt = (age: number): string =>
      (age === NEVER_ISSUED ? undefined : tokens.at(-1 - (age % tokens.length))?.hash) ?? this.#newHash()
    const next = { new: () => this.#newHash(), 'as then': () => hashAt(one.age - 1), older: () => hashAt(one.age + 1) }
    const rotation: Rotation = {
      service: serviceUrl,
      sessionId,
      presentedHash: hashAt(one.age),
      // The current token was not replaced yet.
      nextHash: one.age % tokens.length === 0 ? this.#newHash() : next[one.next](),
      tokenClaims: this.#tokens % 2 === 0 ? { number: this.#tokens } : undefined,
      nowSeconds: this.#nowSeconds,
      nextExpiresAtSeconds: this.#nowSeconds + 600,
      graceSeconds: 10
    }
    const isExpired = this.#isExpired(serviceUrl, sessionId)
    const expected = this.#model.rotate(rotation)
    const verdict = await this.#store.rotateRefreshToken(rotation)
    // An expired session may be forgotten, or not yet.
    assert.equal(isExpired && verdict === 'unknown' ? expected : verdict, expected)
    await this.#compareSession(serviceUrl, sessionId)
  }

  /** The service and id of a session that there is, as long as there is one. */
  #named({ session, isElsewhere }: { session: number; isElsewhere: boolean }): [service: string, sessionId: string] {
    const { sessions } = this.#model
    const found = sessions[session % sessions.length]
    const other = services.find((name) => name !== found?.service) ?? ''
    return [found && !isElsewhere ? found.service : other, found?.sessionId ?? 'session 0']
  }

  async #compareSession(serviceUrl: string, sessionId: string): Promise<void> {
    const found = await this.#store.findSession(serviceUrl, sessionId)
    if (found === undefined && this.#isExpired(serviceUrl, sessionId)) return
    const expected = seenFrom(this.#model.find(serviceUrl, sessionId))
    expectAnswer('A session is found as the model has it', storedFieldsOf(found), storedFieldsOf(expected))
  }

  async #compareLists(serviceUrl: string, user: string): Promise<void> {
    const listed = await this.#store.listSessions(serviceUrl, user, this.#nowSeconds)
    const expected = this.#model.active(serviceUrl, user, this.#nowSeconds).map(seenFrom)
    expectAnswer('Sessions are listed as the model has them', Array.from(listed, fieldsOf), expected.map(fieldsOf))
  }

  #newHash(): string {
    return hashOf('token', this.#tokens++)
  }

  #isExpired(serviceUrl: string, sessionId: string): boolean {
    const session = this.#model.find(serviceUrl, sessionId)
    return session !== undefined && session.expiresAtSeconds <= this.#nowSeconds
  }
}

function seenFrom(session: ReturnType<StoreModel['find']>): StoredSession | undefined {
  if (session === undefined) return undefined
  const { nowSeconds, rotatedAt, tokens, refreshTokenHash, ...fields } = session
  return {
    ...fields,
    createdAtSeconds: nowSeconds,
    rotatedAtSeconds: rotatedAt,
    refreshTokenHash: tokens.at(-1)?.hash ?? refreshTokenHash,
    replacedTokens: tokens.slice(0, -1).map(({ hash, replacedAt }) => ({ hash, replacedAtSeconds: replacedAt }))
  }
}

interface ModelSession extends NewSession {
  state: 'active' | 'loggedOut' | 'revoked'
  rotatedAt: number
  /** The tokens that it remembers, the current one last, each with the time of its replacement. */
  tokens: { hash: string; replacedAt: number }[]
}

/**
 * What a store has to do, in the shortest words, for comparison: lists that are searched from end to end, nothing ever
 * tidied up. It holds the numbers 50 and 16 of the specification by itself, and judges refresh tokens by itself.
 */
class StoreModel {
  sessions: ModelSession[] = []
  readonly uses = new Map<string, Record<ChallengeFlow, number>>()
  readonly quotas = new Map<string, { count: number; resetsAtSeconds: number }>()

  createSession(session: NewSession): number {
    const { refreshTokenHash: hash, nowSeconds } = session
    const rank = (one: ModelSession): number =>
      one.expiresAtSeconds <= nowSeconds ? 0 : one.state === 'active' ? 2 : 1
    const own = this.sessions.filter((one) => one.service === session.service && sameUser(one.did, session.did))
    if (own.length >= 50) {
      const least = Math.min(...own.map(rank))
      const victim = own.find((one) => rank(one) === least)
      this.sessions = this.sessions.filter((one) => one !== victim)
    }
    this.sessions.push({ ...session, state: 'active', rotatedAt: nowSeconds, tokens: [{ hash, replacedAt: 0 }] })
    return 0
  }

  find(service: string, sessionId: string): ModelSession | undefined {
    return this.sessions.find((one) => one.service === service && one.sessionId === sessionId)
  }

  rotate(rotation: Rotation): string {
    const { presentedHash, nextHash, nowSeconds, graceSeconds } = rotation
    const session = this.find(rotation.service, rotation.sessionId)
    const token = session?.tokens.find(({ hash }) => hash === presentedHash)
    if (session === undefined || token === undefined) return 'unknown'
    if (session.state !== 'active' || session.expiresAtSeconds <= nowSeconds) return 'ended'
    const current = session.tokens.at(-1)
    if (token !== current) {
      if (current?.hash === nextHash) return 'repeated'
      if (session.tokens.some(({ hash }) => hash === nextHash)) return 'replaced'
      if (nowSeconds <= token.replacedAt + graceSeconds) return 'replaced'
      session.state = 'revoked'
      return 'reused'
    }
    token.replacedAt = nowSeconds
    session.tokens = [...session.tokens.slice(-16), { hash: nextHash, replacedAt: 0 }]
    session.tokenClaims = rotation.tokenClaims
    session.rotatedAt = nowSeconds
    session.expiresAtSeconds = rotation.nextExpiresAtSeconds
    return 'rotate'
  }

  endSession(service: string, sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    const session = this.find(service, sessionId)
    if (session?.state !== 'active' || session.expiresAtSeconds <= nowSeconds) return false
    session.state = state
    return true
  }

  active(service: string, did: string, nowSeconds: number): ModelSession[] {
    return this.sessions
      .filter((one) => one.service === service && sameUser(one.did, did))
      .filter((one) => one.state === 'active' && one.expiresAtSeconds > nowSeconds)
      .reverse()
  }

  consumeChallenge(use: ChallengeUse): 'consumed' | 'taken' {
    const key = [use.service, use.did, use.window].join()
    const counts = this.uses.get(key) ?? { logIn: 0, signUp: 0 }
    if (use.expiresAtSeconds <= use.nowSeconds || counts[use.flow] !== use.useCount) return 'taken'
    const raised = (flow: ChallengeFlow): number =>
      flow === use.flow || use.consumesBoth ? Math.max(counts[flow], use.useCount + 1) : counts[flow]
    this.uses.set(key, { logIn: raised('logIn'), signUp: raised('signUp') })
    return 'consumed'
  }

  chargeQuota({ service, kind, key, cost, limit, nowSeconds, timeSlotSeconds }: QuotaCharge): QuotaState {
    const id = [service, kind, key].join()
    const known = this.quotas.get(id)
    const isCurrent = known !== undefined && nowSeconds < known.resetsAtSeconds
    const quota = isCurrent ? known : { count: 0, resetsAtSeconds: nowSeconds + timeSlotSeconds }
    if (limit !== undefined && quota.count + cost > limit) return { isCharged: false, ...quota }
    const charged = { ...quota, count: quota.count + cost }
    this.quotas.set(id, charged)
    return { isCharged: true, ...charged }
  }
}

function sameUser(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase()
}

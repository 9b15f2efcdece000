import fc from 'fast-check'
import assert from 'node:assert/strict'
import type { Store } from '../../../src/ports.js'
import { memoryStore } from '../../../src/stores/memory/index.js'
import { createCharge, hashToken, START_SECONDS, createUse } from '../../../src/testing/store-case.js'

/**
 * Step of a random sequence. Sessions have small numbers and tokens have ages, so that several steps often use the same
 * ones.
 */
const step = fc.record({
  verb: fc.constantFrom(...'rotate rotate rotate rotate create create end revoke use use charge charge'.split(' ')),
  seconds: fc.constantFrom(0, 0, 0, 0, 1, 5, 10, 11, 60, 300),
  service: fc.constantFrom('https://a.example', 'https://b.example'),
  did: fc.constantFrom('did:ethr:0xaB', 'did:ethr:0xab', 'did:ethr:rsk:0xcd'),
  lastsSeconds: fc.constantFrom(1, 60, 600, 600),
  times: fc.constantFrom(1, 1, 1, 1, 1, 1, 1, 2, 30),
  session: fc.oneof({ weight: 3, arbitrary: fc.nat({ max: 3 }) }, { weight: 1, arbitrary: fc.nat({ max: 60 }) }),
  // The oldest was never issued.
  age: fc.constantFrom(0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 16, 1_000),
  next: fc.constantFrom('new', 'same', 'same', 'older'),
  state: fc.constantFrom('loggedOut', 'revoked'),
  flow: fc.constantFrom('logIn', 'signUp'),
  useCount: fc.nat({ max: 2 }),
  consumesBoth: fc.boolean(),
  kind: fc.constantFrom('request', 'anonymous'),
  cost: fc.integer({ min: 1, max: 3 }),
  limit: fc.constantFrom(undefined, 1, 3, 6),
  isRecorded: fc.boolean()
})

/**
 * Runs random sequences of verbs on a store and on a memory store. Each sequence uses new services.
 *
 * @throws Error with the shortest sequence for which the answers differ
 */
export async function assertLikeMemory(store: Store, numRuns: number): Promise<void> {
  let runs = 0
  const property = fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
    runs += 1
    const model = memoryStore()
    /** Returns the answer of both stores, which must be equal. Absent fields count as undefined. */
    const ask = async <T>(call: (store: Store) => Promise<T>): Promise<T> => {
      const [expected, answer] = [await call(model), await call(store)]
      const [plain, plainAnswer] = [expected, answer].map(
        (value) => JSON.parse(JSON.stringify(value ?? null)) as unknown
      )
      assert.deepEqual(plainAnswer, plain)
      return expected
    }
    const sessions: { service: string; sessionId: string; did: string; tokens: string[] }[] = []
    let nowSeconds = START_SECONDS
    let issued = 0
    const newHash = (): string => hashToken(`token ${runs}`, (issued += 1))

    const runStep = async (step: (typeof steps)[number]): Promise<unknown> => {
      const [service, did] = [`${step.service}/${runs}`, step.did.toLowerCase()]
      const session = sessions[step.session % sessions.length]
      const listUntilSeconds = step.isRecorded ? nowSeconds + 1_000_000 : undefined
      if (step.verb === 'create' || session === undefined) {
        const [sessionId, refreshTokenHash] = [`session ${runs} ${sessions.length}`, newHash()]
        sessions.push({ service, sessionId, did, tokens: [refreshTokenHash] })
        const tokenClaims = issued % 3 === 0 ? { issued } : undefined
        const details = { tokenClaims, description: issued % 4 === 0 ? `Client "${issued}"` : undefined }
        const times = { nowSeconds, expiresAtSeconds: nowSeconds + step.lastsSeconds, listUntilSeconds }
        return ask((store) =>
          store.createSession({ service, sessionId, did: step.did, refreshTokenHash, ...details, ...times })
        )
      }
      const { sessionId, tokens } = session
      if (step.verb === 'rotate') {
        const hashAt = (age: number): string => tokens.at(-1 - age) ?? newHash()
        const next = { new: newHash, same: () => hashAt(step.age - 1), older: () => hashAt(step.age + 1) }
        const rotation = {
          service: session.service,
          sessionId,
          presentedHash: hashAt(step.age),
          // The current token was not replaced yet.
          nextHash: step.age === 0 ? newHash() : next[step.next](),
          tokenClaims: issued % 2 === 0 ? { issued } : undefined,
          ...{ nowSeconds, nextExpiresAtSeconds: nowSeconds + 600, graceSeconds: 10, listUntilSeconds }
        }
        if ((await ask((store) => store.rotateRefreshToken(rotation))) === 'rotate') tokens.push(rotation.nextHash)
        return ask((store) => store.findSession(session.service, sessionId))
      }
      // The service may be one to which the session does not belong.
      if (step.verb === 'end')
        return ask((store) =>
          store.endSession(service, sessionId, step.state as 'revoked', nowSeconds, listUntilSeconds)
        )
      if (step.verb === 'revoke')
        return ask((store) => store.revokeSessions(service, did, nowSeconds, listUntilSeconds))
      const shared = { service, nowSeconds }
      if (step.verb === 'charge') {
        const { kind, cost, limit } = step
        const charge = createCharge({ ...shared, kind: kind as 'request', cost, limit, key: did, timeSlotSeconds: 10 })
        return ask((store) => store.chargeQuota(charge))
      }
      const { useCount, consumesBoth } = step
      const window = Math.floor(nowSeconds / 300)
      const times = { window, expiresAtSeconds: (window + 1) * 300 }
      const use = createUse({ ...shared, ...times, did, flow: step.flow as 'logIn', useCount, consumesBoth })
      await ask((store) => store.consumeChallenge(use))
      return ask((store) => store.countChallengeUses(use))
    }

    for (const step of steps) {
      nowSeconds += step.seconds
      for (let time = 0; time < step.times; time += 1) await runStep(step)
    }
    for (const service of new Set(sessions.map((session) => session.service))) {
      for (const limit of [1, 3, 1_000]) {
        // The order within a second may differ.
        await ask(async (store) =>
          (await store.listEndedSessions!(service, START_SECONDS, limit))
            .map(({ sessionId, endedAtSeconds }) => `${endedAtSeconds} ${sessionId}`)
            .sort()
        )
      }
    }
    for (const { service, sessionId, did } of sessions) {
      await ask((store) => store.findSession(service, sessionId))
      await ask((store) => store.listSessions(service, did, nowSeconds))
    }
  })
  await fc.assert(property, { numRuns })
}

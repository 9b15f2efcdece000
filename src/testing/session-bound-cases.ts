import { MAX_SESSIONS_PER_DID } from '../protocol/session.js'
import { expectAnswer } from './expect-answer.js'
import {
  allAtOnce,
  anotherDid,
  anotherService,
  did,
  rotationOf,
  sessionIdsOf,
  sessionOf,
  service,
  START_SECONDS,
  storeCase,
  type StoreCase
} from './store-case.js'
import type { NewSession, Store } from '../ports.js'

const END_SECONDS = START_SECONDS + 3600

/** How many sessions a user may have, and which are evicted when the store is full. */
export const sessionBoundCases: StoreCase[] = [
  storeCase('keeps 50 sessions of a user and drops the oldest when another comes', async ({ store }) => {
    await store.createSession(sessionOf('other user', { did: anotherDid }))
    await store.createSession(sessionOf('other service', { service: anotherService }))
    let evicted = 0
    for (let index = 0; index <= MAX_SESSIONS_PER_DID; index += 1) {
      evicted += await store.createSession(sessionOf(String(index)))
      if (index === 0) await store.rotateRefreshToken(rotationOf('0', 0, 1))
    }
    const newest = Array.from({ length: MAX_SESSIONS_PER_DID }, (_, index) => `session-${MAX_SESSIONS_PER_DID - index}`)
    const listed = await sessionIdsOf(store, START_SECONDS)
    expectAnswer(listed, newest, 'The 50 sessions of a user that were created last are listed, the newest first')
    const dropped = await store.findSession(service, 'session-0')
    expectAnswer(dropped, undefined, "A user's oldest session is dropped when the user has 50 others")
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('0', 0, 2)),
      await store.rotateRefreshToken(rotationOf('0', 1, 2))
    ]
    expectAnswer(verdicts, ['unknown', 'unknown'], 'No token of a session that was dropped is known')
    expectAnswer(evicted, 0, "A user's own sessions that are dropped beyond 50 do not count as evicted")
    const others = [
      (await store.listSessions(service, anotherDid, START_SECONDS)).length,
      (await store.listSessions(anotherService, did, START_SECONDS)).length
    ]
    expectAnswer(others, [1, 1], 'The bound of 50 drops no session of another user or service')
  }),
  storeCase('drops no active session of a user while there are expired or ended ones to drop', async ({ store }) => {
    // What others left behind, and a store may tidy up first.
    for (let index = 0; index < 2 * MAX_SESSIONS_PER_DID; index += 1) {
      const brief = { did: `did:example:${index}`, expiresAtSeconds: START_SECONDS + 1 }
      await store.createSession(sessionOf(`brief ${index}`, brief))
    }
    await store.createSession(sessionOf('oldest'))
    for (let index = 2; index <= MAX_SESSIONS_PER_DID; index += 1) {
      const expiresAtSeconds = index % 2 === 0 ? START_SECONDS + 2 : END_SECONDS
      await store.createSession(sessionOf(String(index), { expiresAtSeconds }))
      if (index % 2 === 1) await store.endSession(service, `session-${index}`, 'loggedOut', START_SECONDS)
    }
    const nowSeconds = START_SECONDS + 2
    for (let index = 2; index <= MAX_SESSIONS_PER_DID; index += 1) {
      await store.createSession(sessionOf(`later ${index}`, { nowSeconds }))
    }
    const listed = await sessionIdsOf(store, nowSeconds)
    const seen = [listed.length, listed.at(-1)]
    expectAnswer(seen, [50, 'session-oldest'], "A user's expired and ended sessions are dropped before active ones")
  }),
  storeCase('keeps the last 50 sessions of a user, also when 60 come at once, twice', async (stores) => {
    for (const burst of ['first', 'second']) {
      await allAtOnce(stores, 60, (store, index) => store.createSession(sessionOf(`${burst} ${index}`)))
      const listed = await sessionIdsOf(stores.store, START_SECONDS)
      expectAnswer(listed.length, 50, `A user has 50 sessions once all 60 of the ${burst} burst were answered`)
      const older = listed.filter((sessionId) => !sessionId.startsWith(`session-${burst}`))
      expectAnswer(older, [], 'Sessions of an earlier burst are dropped before those of a later one')
    }
  }),
  storeCase('keeps all active sessions as others expire', async ({ store }) => {
    for (let round = 0; round < 5; round += 1) {
      const nowSeconds = START_SECONDS + round * 60
      const names = [0, 1, 2, 3, 4].map((index) => `${round} ${index}`)
      for (const name of names) {
        await store.createSession(sessionOf(name, { nowSeconds, expiresAtSeconds: nowSeconds + 60 }))
      }
      const expected = names.map((name) => `session-${name}`).reverse()
      expectAnswer(await sessionIdsOf(store, nowSeconds), expected, 'Only expired sessions go when others come')
    }
  }),
  storeCase(
    'evicts sessions that were never refreshed, the oldest first, and counts them',
    async ({ store, other }) => {
      for (const name of ['a', 'b']) {
        await store.createSession(strangersSession(name))
        await store.rotateRefreshToken(rotationOf(name, 0, 1))
      }
      const names = Array.from({ length: 10 }, (_, index) => String(index))
      let evicted = 0
      for (const name of names) {
        evicted += await (Number(name) % 2 === 0 ? store : other).createSession(strangersSession(name))
        expectAnswer(await namesLeft(other, [name]), [name], 'A session is there once its creation was answered')
      }
      const refreshed = await namesLeft(store, ['a', 'b'])
      expectAnswer(refreshed, ['a', 'b'], 'A full store evicts no refreshed session while there are others')
      const left = await namesLeft(other, names)
      const newest = names.slice(names.length - left.length)
      expectAnswer(left, newest, 'A full store evicts the oldest of the sessions that were never refreshed')
      const missing = names.length - left.length
      expectAnswer(evicted, missing, 'Creating a session answers how many active ones were evicted for it')
    },
    { maxSessions: 5 }
  ),
  storeCase(
    'counts neither ended nor expired sessions as evicted',
    async ({ store }) => {
      await store.createSession(strangersSession('ended'))
      await store.createSession(strangersSession('expired', { expiresAtSeconds: START_SECONDS + 5 }))
      await store.createSession(strangersSession('0'))
      await store.endSession(service, 'session-ended', 'loggedOut', START_SECONDS)
      let evicted = 0
      for (const name of ['1', '2', '3', '4']) {
        evicted += await store.createSession(strangersSession(name, { nowSeconds: START_SECONDS + 10 }))
      }
      const missing = 5 - (await namesLeft(store, ['0', '1', '2', '3', '4'])).length
      expectAnswer(evicted, missing, 'Only sessions that were active count as evicted')
    },
    { maxSessions: 3 }
  ),
  storeCase(
    'accepts a new session where all others were refreshed, and evicts it before them',
    async ({ store }) => {
      let evicted = 0
      for (const name of ['a', 'b']) {
        evicted += await store.createSession(strangersSession(name))
        await store.rotateRefreshToken(rotationOf(name, 0, 1))
      }
      evicted += await store.createSession(strangersSession('new'))
      expectAnswer(await namesLeft(store, ['new']), ['new'], 'A session is there once its creation was answered')
      const refreshed = await namesLeft(store, ['a', 'b'])
      expectAnswer(evicted, 2 - refreshed.length, 'Creating a session answers how many active ones were evicted for it')
      await store.createSession(strangersSession('newer'))
      const left = await namesLeft(store, ['a', 'b'])
      expectAnswer(left, refreshed, 'A full store evicts no refreshed session while there are others')
    },
    { maxSessions: 2 }
  ),
  storeCase(
    "forgets no replaced token of a session for the sake of strangers' sessions and refreshes",
    async ({ store, other }) => {
      await store.createSession(sessionOf('a'))
      await store.rotateRefreshToken(rotationOf('a', 0, 1))
      await store.createSession(strangersSession('stranger'))
      for (let token = 0; token < 20; token += 1) {
        await other.rotateRefreshToken(rotationOf('stranger', token, token + 1))
      }
      for (let index = 0; index < 20; index += 1) await other.createSession(strangersSession(String(index)))
      const verdict = await store.rotateRefreshToken(rotationOf('a', 0, 'x', { nowSeconds: START_SECONDS + 60 }))
      expectAnswer(verdict, 'reused', 'A replaced token that comes back is noticed, however much strangers do')
    },
    { maxSessions: 3 }
  )
]

/** A session of a user who has no other. */
function strangersSession(name: string, details: Partial<NewSession> = {}): NewSession {
  return sessionOf(name, { did: `did:example:${name}`, ...details })
}

/** Which of the sessions are still found. */
async function namesLeft(store: Store, names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => store.findSession(service, `session-${name}`)))
  return names.filter((_, index) => found[index] !== undefined)
}
